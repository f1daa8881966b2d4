/* memcpy() without its worst case.
 *
 *     from  page │ x x x x x …
 *     to    page │ · · x x x …     in its page the destination stands 1 to 31 bytes further on
 *
 * At such a distance `rep movsb` copies byte by byte on AMD's Zen 3 and others, and the C library
 * uses it from 2 KiB up to where it stores around the cache. Measured (bench/README.md): 32 KiB
 * from the cache take 16 µs so, 0.8 µs at any other distance, and 0.9 µs in steps that are too
 * short for it. Nor is it good at lines that are in another core's cache: 4 KiB there and back through a
 * ring between two of Zen 5 took 0.54 µs so and 0.36 in steps, 16 KiB 1.52 and 1.33, from 32 KiB on
 * both the same. */
#ifndef GYRE_BASE_COPY_H
#define GYRE_BASE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#define GYRE_COPY_STEP 1024u
#define GYRE_COPY_PAGE 4096u
#define GYRE_COPY_NEAR 31u
#define GYRE_COPY_SOON (UINT64_C(16) << 10) /* as much goes in steps from anywhere */

static inline bool gyre_copy_is_slow(const void *to, const void *from, uint64_t bytes)
{
    uint64_t behind = ((uintptr_t)to - (uintptr_t)from) % GYRE_COPY_PAGE;
    return bytes > GYRE_COPY_STEP && behind - 1 < GYRE_COPY_NEAR;
}

/* The two may not overlap; NULL allowed for no bytes. */
void gyre_copy(void *to, const void *from, uint64_t bytes);

#endif
