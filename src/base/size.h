/* Checked size arithmetic, and the one way in which Gyre cuts a range into n blocks. */
#ifndef GYRE_BASE_SIZE_H
#define GYRE_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool gyre_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool gyre_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline uint64_t gyre_round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* First element of block i when `count` elements are cut into n: the first count % n blocks hold
 * one more. i may be n. */
static inline uint64_t gyre_block_start(uint64_t count, uint64_t n, uint64_t i)
{
    uint64_t base = count / n, extra = count % n;
    return base * i + (i < extra ? i : extra);
}

static inline uint64_t gyre_block_count(uint64_t count, uint64_t n, uint64_t i)
{
    return count / n + (i < count % n);
}

#endif
