/* MT19937 (Matsumoto and Nishimura, 1998): 624 words of state, renewed all at once.
 *
 *     x[k + 624] = x[k + 397] ^ twist(upper bit of x[k], lower 31 bits of x[k + 1])
 *
 * A draw is the next word of the state, tempered so that its upper bits are as good as its lower
 * ones. Seeding is the authors' init_genrand(). Tested by tests/unit/sampler/permutation_test.c. */
#include "sampler/mt19937.h"

#define WORDS GYRE_MT19937_WORDS
#define SHIFT 397

void gyre_mt19937_seed(struct gyre_mt19937 *mt, uint32_t seed)
{
    mt->state[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        uint32_t last = mt->state[i - 1];
        mt->state[i] = UINT32_C(1812433253) * (last ^ last >> 30) + i;
    }
    mt->next = WORDS;
}

static uint32_t twist(uint32_t upper, uint32_t lower)
{
    uint32_t joined = (upper & UINT32_C(0x80000000)) | (lower & UINT32_C(0x7fffffff));
    return joined >> 1 ^ (-(joined & 1) & UINT32_C(0x9908b0df)); /* no branch: the bit is random */
}

static void renew(struct gyre_mt19937 *mt)
{
    uint32_t *x = mt->state;
    for (uint32_t k = 0; k < WORDS - SHIFT; k++)
        x[k] = x[k + SHIFT] ^ twist(x[k], x[k + 1]);
    for (uint32_t k = WORDS - SHIFT; k < WORDS - 1; k++)
        x[k] = x[k + SHIFT - WORDS] ^ twist(x[k], x[k + 1]);
    x[WORDS - 1] = x[SHIFT - 1] ^ twist(x[WORDS - 1], x[0]);
    mt->next = 0;
}

uint32_t gyre_mt19937_next32(struct gyre_mt19937 *mt)
{
    if (mt->next == WORDS)
        renew(mt);
    uint32_t y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= y << 7 & UINT32_C(0x9d2c5680);
    y ^= y << 15 & UINT32_C(0xefc60000);
    return y ^ y >> 18;
}

uint64_t gyre_mt19937_next64(struct gyre_mt19937 *mt)
{
    uint64_t upper = gyre_mt19937_next32(mt);
    return upper << 32 | gyre_mt19937_next32(mt);
}
