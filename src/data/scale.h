/* Brings features to mean 0 and deviation 1, with the same bits as scikit-learn's StandardScaler.
 * All is computed in fp64 and by rows, with the deviation of the whole population. A column that
 * never changes keeps scale 1. Only the result is rounded to fp32. */
#ifndef GYRE_DATA_SCALE_H
#define GYRE_DATA_SCALE_H

#include "base/status.h"

#include <stdint.h>

/* What standardises samples, column by column. */
struct gyre_scale {
    uint64_t columns;  /* 0: nothing is standardised */
    double *mean;      /* [columns] */
    double *deviation; /* [columns], never 0; in the memory of the means */
};

/* -ENOMEM. Deinit takes a zeroed one too. */
int gyre_scale_init(struct gyre_scale *scale, uint64_t columns, struct gyre_trouble *trouble);
void gyre_scale_deinit(struct gyre_scale *scale);

/* Finds mean and scale of each of `columns` columns over `rows` > 0 rows, which lie one after the
 * other. */
void gyre_scale_fit(const double *values, uint64_t rows, uint64_t columns, double *mean,
                    double *scale);
void gyre_scale_apply(const double *values, uint64_t rows, uint64_t columns, const double *mean,
                      const double *scale, float *to);

#endif
