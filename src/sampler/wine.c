/* The split of the Wine data set: of a permutation of all rows the first fifth, rounded up, is for
 * the test, and the rest, in its order, for training. */
#include "sampler/wine.h"

#include "sampler/scale.h"

#include <string.h>

/* -- order ------------------------------------------------------------------------------------- */

enum { WORDS = 624, AHEAD = 397 };

struct twister {
    uint32_t word[WORDS];
    uint32_t used;
};

static void seed_twister(struct twister *twister, uint32_t seed)
{
    twister->word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        twister->word[i] = 1812433253u * (twister->word[i - 1] ^ twister->word[i - 1] >> 30) + i;
    twister->used = WORDS;
}

static void twist(struct twister *twister)
{
    uint32_t *word = twister->word;
    for (uint32_t i = 0; i < WORDS; i++) {
        uint32_t both = (word[i] & 0x80000000u) | (word[(i + 1) % WORDS] & 0x7fffffffu);
        word[i] = word[(i + AHEAD) % WORDS] ^ both >> 1 ^ (both & 1 ? 0x9908b0dfu : 0);
    }
    twister->used = 0;
}

static uint32_t draw(struct twister *twister)
{
    if (twister->used == WORDS)
        twist(twister);
    uint32_t x = twister->word[twister->used++];
    x ^= x >> 11;
    x ^= x << 7 & 0x9d2c5680u;
    x ^= x << 15 & 0xefc60000u;
    return x ^ x >> 18;
}

/* numpy.random.RandomState(seed).permutation(n): what is drawn has as many bits as i, and is drawn
 * again where it is above i. */
static void shuffle(uint32_t *row, uint32_t n, uint32_t seed)
{
    struct twister twister;
    seed_twister(&twister, seed);
    for (uint32_t i = 0; i < n; i++)
        row[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t mask = UINT32_MAX >> __builtin_clz(i), j = draw(&twister) & mask;
        while (j > i)
            j = draw(&twister) & mask;
        uint32_t kept = row[i];
        row[i] = row[j];
        row[j] = kept;
    }
}

/* -- the split --------------------------------------------------------------------------------- */

int32_t gyre_wine_class(uint32_t row)
{
    return row < 59 ? 0 : row < 59 + 71 ? 1 : 2;
}

static void gather(const uint32_t *row, uint32_t rows, double (*values)[GYRE_WINE_FEATURES],
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
    gather(wine->train_row, GYRE_WINE_TRAIN, train, wine->train_class);
    gather(wine->test_row, GYRE_WINE_TEST, test, wine->test_class);
    gyre_scale_fit(train[0], GYRE_WINE_TRAIN, GYRE_WINE_FEATURES, wine->mean, wine->scale);
    gyre_scale_apply(train[0], GYRE_WINE_TRAIN, GYRE_WINE_FEATURES, wine->mean, wine->scale,
                     wine->train[0]);
    gyre_scale_apply(test[0], GYRE_WINE_TEST, GYRE_WINE_FEATURES, wine->mean, wine->scale,
                     wine->test[0]);
}

void gyre_wine_split(uint32_t seed, struct gyre_wine *wine)
{
    uint32_t row[GYRE_WINE_ROWS];
    shuffle(row, GYRE_WINE_ROWS, seed);
    memcpy(wine->test_row, row, sizeof wine->test_row);
    memcpy(wine->train_row, row + GYRE_WINE_TEST, sizeof wine->train_row);
    scale_all(wine);
}
