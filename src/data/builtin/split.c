/* One permutation of all rows, whatever their classes. Tested by
 * tests/unit/data/builtin/wine_test.c. */
#include "data/builtin/split.h"

#include "sampler/permutation.h"

void gyre_split_rows(uint32_t rows, uint32_t seed, uint32_t *row)
{
    struct gyre_permutation order = {.n = rows, .narrow = row};
    struct gyre_mt19937 twister;
    gyre_mt19937_seed(&twister, seed);
    gyre_permutation_numpy(&order, &twister);
}
