/* Features brought to mean 0 and deviation 1, with the bits of scikit-learn's StandardScaler: all
 * in fp64 and by rows, the deviation of the whole population, a column that never changes left at
 * scale 1, and only the result rounded to fp32. */
#ifndef GYRE_DATA_SCALE_H
#define GYRE_DATA_SCALE_H

#include <stdint.h>

/* Mean and scale of each of `columns` columns over `rows` > 0 rows, which lie one after the
 * other. */
void gyre_scale_fit(const double *values, uint64_t rows, uint64_t columns, double *mean,
                    double *scale);
void gyre_scale_apply(const double *values, uint64_t rows, uint64_t columns, const double *mean,
                      const double *scale, float *to);

#endif
