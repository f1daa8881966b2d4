/* The Mersenne Twister as torch seeds it: what init.h draws from. */
#ifndef GYRE_MODEL_MT19937_H
#define GYRE_MODEL_MT19937_H

#include <stdint.h>

#define GYRE_MT19937_WORDS 624

struct gyre_mt19937 {
    uint32_t state[GYRE_MT19937_WORDS];
    uint32_t next; /* the word that the next draw tempers */
};

static inline void gyre_mt19937_seed(struct gyre_mt19937 *mt, uint32_t seed)
{
    mt->state[0] = seed;
    for (uint32_t i = 1; i < GYRE_MT19937_WORDS; i++)
        mt->state[i] = UINT32_C(1812433253) * (mt->state[i - 1] ^ (mt->state[i - 1] >> 30)) + i;
    mt->next = GYRE_MT19937_WORDS;
}

static inline void gyre_mt19937_turn(struct gyre_mt19937 *mt)
{
    for (uint32_t i = 0; i < GYRE_MT19937_WORDS; i++) {
        uint32_t low = mt->state[(i + 1) % GYRE_MT19937_WORDS] & 0x7fffffff;
        uint32_t mixed = (mt->state[i] & 0x80000000) | low;
        mt->state[i] =
            mt->state[(i + 397) % GYRE_MT19937_WORDS] ^ (mixed >> 1) ^ (mixed & 1 ? 0x9908b0df : 0);
    }
    mt->next = 0;
}

static inline uint32_t gyre_mt19937_next32(struct gyre_mt19937 *mt)
{
    if (mt->next == GYRE_MT19937_WORDS)
        gyre_mt19937_turn(mt);
    uint32_t y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680;
    y ^= y << 15 & 0xefc60000;
    return y ^ y >> 18;
}

#endif
