/* Means and deviations. Additions go down a column row after row, in numpy's order. Tested by
 * tests/unit/data/builtin/wine_test.c. */
#include "data/scale.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

int gyre_scale_init(struct gyre_scale *scale, uint64_t columns, struct gyre_trouble *trouble)
{
    double *memory = calloc(columns, 2 * sizeof *memory);
    *scale = (struct gyre_scale){0};
    if (!memory)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the means of %llu features",
                                (unsigned long long)columns);
    *scale = (struct gyre_scale){columns, memory, memory + columns};
    return 0;
}

void gyre_scale_deinit(struct gyre_scale *scale)
{
    free(scale->mean);
    *scale = (struct gyre_scale){0};
}

static double column_mean(const double *values, uint64_t rows, uint64_t columns)
{
    double sum = 0;
    for (uint64_t i = 0; i < rows; i++)
        sum += values[i * columns];
    return sum / (double)rows;
}

/* The variance of the population. `rest` corrects the error of the rounded mean. */
static double column_variance(const double *values, uint64_t rows, uint64_t columns, double mean)
{
    double squares = 0, rest = 0;
    for (uint64_t i = 0; i < rows; i++) {
        double off = values[i * columns] - mean;
        rest += off;
        squares += off * off;
    }
    return (squares - rest * rest / (double)rows) / (double)rows;
}

/* Whether the column never changes: its variance is no larger than rounding alone makes it. */
static int is_constant(double variance, double mean, uint64_t rows)
{
    double n = (double)rows, noise = n * mean * DBL_EPSILON;
    return variance <= n * DBL_EPSILON * variance + noise * noise;
}

void gyre_scale_fit(const double *values, uint64_t rows, uint64_t columns, double *mean,
                    double *scale)
{
    for (uint64_t j = 0; j < columns; j++) {
        mean[j] = column_mean(values + j, rows, columns);
        double variance = column_variance(values + j, rows, columns, mean[j]);
        scale[j] = is_constant(variance, mean[j], rows) ? 1 : sqrt(variance);
    }
}

void gyre_scale_apply(const double *values, uint64_t rows, uint64_t columns, const double *mean,
                      const double *scale, float *to)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < columns; j++)
            to[i * columns + j] = (float)((values[i * columns + j] - mean[j]) / scale[j]);
}
