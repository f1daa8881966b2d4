/* Means and deviations, in the order of additions that numpy takes down a column: row after row.
 * Tested by tests/unit/data/wine_test.c. */
#include "data/scale.h"

#include <float.h>
#include <math.h>

static double column_mean(const double *values, uint64_t rows, uint64_t columns)
{
    double sum = 0;
    for (uint64_t i = 0; i < rows; i++)
        sum += values[i * columns];
    return sum / (double)rows;
}

/* Of the population. What the rounded mean is off by is taken out again by `rest`. */
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

/* As large as rounding alone makes it: the column never changes. */
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
