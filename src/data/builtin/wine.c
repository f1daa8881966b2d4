/* The Wine data set as models take it: cut in two, and scaled by the rows for training. */
#include "data/builtin/wine.h"

#include "data/builtin/split.h"
#include "data/scale.h"

#include <string.h>

int32_t gyre_wine_class(uint32_t row)
{
    return row < 59 ? 0 : row < 59 + 71 ? 1 : 2;
}

static void copy_rows(const uint32_t *row, uint32_t rows, double (*values)[GYRE_WINE_FEATURES],
                      int32_t *class)
{
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(values[i], gyre_wine_values[row[i]], sizeof values[i]);
        class[i] = gyre_wine_class(row[i]);
    }
}

static void scale_all(struct gyre_wine *wine)
{
    double train[GYRE_WINE_TRAIN][GYRE_WINE_FEATURES], test[GYRE_WINE_TEST][GYRE_WINE_FEATURES];
    copy_rows(wine->train_row, GYRE_WINE_TRAIN, train, wine->train_class);
    copy_rows(wine->test_row, GYRE_WINE_TEST, test, wine->test_class);
    gyre_scale_fit(train[0], GYRE_WINE_TRAIN, GYRE_WINE_FEATURES, wine->mean, wine->scale);
    gyre_scale_apply(train[0], GYRE_WINE_TRAIN, GYRE_WINE_FEATURES, wine->mean, wine->scale,
                     wine->train[0]);
    gyre_scale_apply(test[0], GYRE_WINE_TEST, GYRE_WINE_FEATURES, wine->mean, wine->scale,
                     wine->test[0]);
}

void gyre_wine_split(uint32_t seed, struct gyre_wine *wine)
{
    uint32_t row[GYRE_WINE_ROWS];
    gyre_split_rows(GYRE_WINE_ROWS, seed, row);
    memcpy(wine->test_row, row, sizeof wine->test_row);
    memcpy(wine->train_row, row + GYRE_WINE_TEST, sizeof wine->train_row);
    scale_all(wine);
}
