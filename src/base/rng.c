/* Two sources of random numbers.
 *
 * xoshiro256** (Blackman and Vigna) repeats exactly from its seed and serves tests, the simulator
 * and shuffling. Its four words are filled by splitmix64, which turns any seed, even 0, into a
 * usable state. gyre_random_bytes() asks the kernel's generator and serves keys, nonces and names
 * that must not be guessed. The two are never mixed. */
#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>

uint64_t gyre_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void gyre_rng_seed(struct gyre_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        rng->state[i] = gyre_mix64(seed);
    }
}

static uint64_t rotate_left(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

uint64_t gyre_rng_next(struct gyre_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* A random number below `bound`, by Lemire's method: the upper half of x * bound is uniform once
 * the few x whose lower half falls into the uneven rest (2^64 mod bound of them) are drawn
 * again. */
uint64_t gyre_rng_below(struct gyre_rng *rng, uint64_t bound)
{
    unsigned __int128 product = (unsigned __int128)gyre_rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t rest = -bound % bound;
        while ((uint64_t)product < rest)
            product = (unsigned __int128)gyre_rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

int gyre_random_bytes(void *bytes, size_t length)
{
    char *at = bytes;
    while (length > 0) {
        ssize_t got = getrandom(at, length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        at += got;
        length -= (size_t)got;
    }
    return 0;
}
