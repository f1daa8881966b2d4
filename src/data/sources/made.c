/* Data sets that need no file: built in, or made up. Tested by tests/unit/data/dataset_test.c. */
#include "base/rng.h"
#include "data/builtin/digits.h"
#include "data/builtin/wine.h"
#include "data/sources/sources.h"

#include <stdio.h>
#include <stdlib.h>

#define SPLIT_SEED 42

/* -- wine -------------------------------------------------------------------------------------- */

int gyre_source_wine(struct gyre_dataset *set, bool test, struct gyre_trouble *trouble)
{
    uint64_t rows = test ? GYRE_WINE_TEST : GYRE_WINE_TRAIN;
    struct gyre_wine *wine = malloc(sizeof *wine);
    int64_t *label = malloc(rows * sizeof *label);
    set->owned[0] = wine;
    set->owned[1] = label;
    if (!wine || !label)
        return gyre_source_no_memory("wine", trouble);
    gyre_wine_split(SPLIT_SEED, wine);
    for (uint64_t i = 0; i < rows; i++)
        label[i] = test ? wine->test_class[i] : wine->train_class[i];
    set->samples = rows;
    set->dims = 1;
    set->shape[0] = GYRE_WINE_FEATURES;
    set->x = test ? wine->test[0] : wine->train[0];
    set->label = label;
    return 0;
}

/* -- digits ------------------------------------------------------------------------------------ */

int gyre_source_digits(struct gyre_dataset *set, bool test, struct gyre_trouble *trouble)
{
    uint32_t row[GYRE_DIGITS_ROWS];
    uint64_t rows = test ? GYRE_DIGITS_TEST : GYRE_DIGITS_TRAIN;
    float(*x)[GYRE_DIGITS_PIXELS] = malloc(rows * sizeof *x);
    int64_t *label = malloc(rows * sizeof *label);
    set->owned[0] = x;
    set->owned[1] = label;
    if (!x || !label)
        return gyre_source_no_memory("digits", trouble);
    gyre_split_rows(GYRE_DIGITS_ROWS, SPLIT_SEED, row);
    for (uint64_t i = 0; i < rows; i++)
        label[i] = gyre_digits_take(row[test ? i : GYRE_DIGITS_TEST + i], x[i]);
    set->samples = rows;
    set->dims = 3;
    set->shape[0] = 1; /* one channel */
    set->shape[1] = set->shape[2] = GYRE_DIGITS_SIDE;
    set->x = x[0];
    set->label = label;
    return 0;
}

/* -- random ------------------------------------------------------------------------------------ */

/* Makes the set "random:1000,784,10": samples, numbers of each, classes. The numbers are the same
 * on every machine. */
int gyre_source_random(struct gyre_dataset *set, const char *source, bool targets,
                       struct gyre_trouble *trouble)
{
    unsigned long long samples, features, classes, cells;
    struct gyre_rng rng;
    char rest;
    if (sscanf(source, "random:%llu,%llu,%llu%c", &samples, &features, &classes, &rest) != 3 ||
        !samples || !features || !classes || classes > INT32_MAX ||
        __builtin_mul_overflow(samples, features, &cells) || cells > SIZE_MAX / 8 || targets)
        return gyre_trouble_set(
            trouble, GYRE_INVALID,
            "%s: expected random:SAMPLES,NUMBERS,CLASSES, for a loss of classes", source);
    float *x = malloc(cells * sizeof *x);
    int64_t *label = malloc(samples * sizeof *label);
    set->owned[0] = x;
    set->owned[1] = label;
    if (!x || !label)
        return gyre_source_no_memory(source, trouble);
    gyre_rng_seed(&rng, 1);
    for (uint64_t i = 0; i < cells; i++)
        x[i] = (float)(gyre_rng_next(&rng) >> 40) * 0x1p-24f;
    for (uint64_t i = 0; i < samples; i++)
        label[i] = (int64_t)gyre_rng_below(&rng, classes);
    set->samples = samples;
    set->dims = 1;
    set->shape[0] = features;
    set->x = x;
    set->label = label;
    return 0;
}
