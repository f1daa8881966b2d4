/* memcpy() without its worst case.
 *
 *     from  page │ x x x x x …
 *     to    page │ · · x x x …     in its page the destination stands 1 to 31 bytes further on
 *
 * At such a distance `rep movsb` copies byte by byte on AMD's Zen 3 and others, and the C library
 * uses `rep movsb` from 2 KiB up to where it stores around the cache. Measured (bench/README.md):
 * 32 KiB from the cache take 16 µs by `rep movsb`, 0.8 µs at any other distance, and 0.9 µs in
 * steps below 2 KiB. `rep movsb` is also slow at lines in another core's cache: 4 KiB there and
 * back through a ring between two cores of Zen 5 took 0.54 µs, in steps 0.36; 16 KiB took 1.52 and
 * 1.33; from 32 KiB on both took the same. */
#ifndef GYRE_BASE_COPY_H
#define GYRE_BASE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#define GYRE_COPY_STEP 1024u
#define GYRE_COPY_PAGE 4096u
#define GYRE_COPY_NEAR 31u
#define GYRE_COPY_SOON (UINT64_C(16) << 10) /* copies up to this go in steps at any distance */

static inline bool gyre_copy_is_slow(const void *to, const void *from, uint64_t bytes)
{
    uint64_t behind = ((uintptr_t)to - (uintptr_t)from) % GYRE_COPY_PAGE;
    return bytes > GYRE_COPY_STEP && behind - 1 < GYRE_COPY_NEAR;
}

/* Source and destination may not overlap; NULL is allowed for no bytes. */
void gyre_copy(void *to, const void *from, uint64_t bytes);

#endif
