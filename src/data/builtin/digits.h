/* The digits data set, built in: the smallest real task for a convolutional network (UCI, CC BY
 * 4.0; digits_data.c names the source). */
#ifndef GYRE_DATA_BUILTIN_DIGITS_H
#define GYRE_DATA_BUILTIN_DIGITS_H

#include "data/builtin/digits_data.h"
#include "data/builtin/split.h"

#include <stdint.h>

#define GYRE_DIGITS_SIDE    8
#define GYRE_DIGITS_PIXELS  (GYRE_DIGITS_SIDE * GYRE_DIGITS_SIDE)
#define GYRE_DIGITS_CLASSES 10
#define GYRE_DIGITS_TEST    GYRE_SPLIT_TEST(GYRE_DIGITS_ROWS) /* 360 */
#define GYRE_DIGITS_TRAIN   (GYRE_DIGITS_ROWS - GYRE_DIGITS_TEST)

/* Writes the picture of a row, row after row from the top: 0 is white, 1 is black. Returns the
 * digit. */
int64_t gyre_digits_take(uint32_t row, float pixel[GYRE_DIGITS_PIXELS]);

#endif
