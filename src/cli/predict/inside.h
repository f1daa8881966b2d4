/* What the files of gyre predict share. */
#ifndef GYRE_CLI_PREDICT_INSIDE_H
#define GYRE_CLI_PREDICT_INSIDE_H

#include "trained/confusion.h"
#include "trained/predict.h"

#include <stdio.h>

/* What came of all samples. */
struct gyre_prediction_sum {
    uint64_t *taken;                 /* by class */
    struct gyre_confusion confusion; /* where the data have labels */
    double squares; /* where they have targets: sum of squared errors, a sample's mean each */
};

/* -- rows.c ------------------------------------------------------------------------------------ */

/* A line for each sample, as CSV or as JSON. */
struct gyre_prediction_rows {
    FILE *to;
    bool json, probabilities;
    const struct gyre_predictor *predictor;
};

void gyre_rows_begin(const struct gyre_prediction_rows *rows);
void gyre_rows_put(const struct gyre_prediction_rows *rows, const struct gyre_predicted *batch);
/* Closes the JSON, with the figures in it. */
void gyre_rows_end(const struct gyre_prediction_rows *rows, const struct gyre_prediction_sum *sum);

/* -- summary.c --------------------------------------------------------------------------------- */

void gyre_prediction_print(FILE *to, const struct gyre_predictor *predictor,
                           const struct gyre_prediction_sum *sum);

#endif
