/* The Wine data set, built in: the smallest real classification task (UCI, CC BY 4.0; wine_data.c
 * names the source), and its usual split. */
#ifndef GYRE_DATA_WINE_H
#define GYRE_DATA_WINE_H

#include "data/builtin/split.h"
#include "data/builtin/wine_data.h"

#include <stdint.h>

#define GYRE_WINE_TEST  GYRE_SPLIT_TEST(GYRE_WINE_ROWS) /* 36 */
#define GYRE_WINE_TRAIN (GYRE_WINE_ROWS - GYRE_WINE_TEST)

/* The class of a row. Rows are in the order of their classes: 59, 71 and 48 of them. */
int32_t gyre_wine_class(uint32_t row);

struct gyre_wine {
    uint32_t train_row[GYRE_WINE_TRAIN], test_row[GYRE_WINE_TEST];
    float train[GYRE_WINE_TRAIN][GYRE_WINE_FEATURES], test[GYRE_WINE_TEST][GYRE_WINE_FEATURES];
    int32_t train_class[GYRE_WINE_TRAIN], test_class[GYRE_WINE_TEST];
    double mean[GYRE_WINE_FEATURES], scale[GYRE_WINE_FEATURES]; /* of the training rows */
};

/* Splits and scales the set as scikit-learn does: train_test_split(test_size=0.2,
 * random_state=seed), then a StandardScaler of the training rows, as fp32. */
void gyre_wine_split(uint32_t seed, struct gyre_wine *wine);

#endif
