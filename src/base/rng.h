/* Seeded pseudo-random numbers (xoshiro256**, seeded by splitmix64) and unguessable bytes from the
 * kernel. */
#ifndef GYRE_BASE_RNG_H
#define GYRE_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct gyre_rng {
    uint64_t state[4];
};

void gyre_rng_seed(struct gyre_rng *rng, uint64_t seed);
uint64_t gyre_rng_next(struct gyre_rng *rng);
uint64_t gyre_rng_below(struct gyre_rng *rng, uint64_t bound); /* in [0, bound), bound > 0 */
int gyre_random_bytes(void *bytes, size_t length);             /* getrandom(2); 0 or -errno */
uint64_t gyre_mix64(uint64_t x); /* splitmix64's finaliser: a bijection that scatters */

#endif
