/* The Mersenne Twister, for orders that must equal those of torch and numpy. All other random
 * numbers come from base/rng.h. */
#ifndef GYRE_SAMPLER_MT19937_H
#define GYRE_SAMPLER_MT19937_H

#include <stdint.h>

#define GYRE_MT19937_WORDS 624

struct gyre_mt19937 {
    uint32_t state[GYRE_MT19937_WORDS];
    uint32_t next; /* the word that the next draw tempers */
};

/* Seeds as torch's generator and numpy's RandomState are seeded; both take the low 32 bits of a
 * longer seed. */
void gyre_mt19937_seed(struct gyre_mt19937 *mt, uint32_t seed);
uint32_t gyre_mt19937_next32(struct gyre_mt19937 *mt);
uint64_t gyre_mt19937_next64(struct gyre_mt19937 *mt); /* two draws, the first is the upper half */

#endif
