/* Ways to go through memory once, from which the ceiling takes the fastest. */
#ifndef GYRE_BENCH_PASSES_H
#define GYRE_BENCH_PASSES_H

#include <stdbool.h>
#include <stddef.h>

struct bench_pass { /* reads `bytes` and writes `bytes`, which is a multiple of 128 */
    const char *name;
    bool in_place; /* reads what it writes; `from` is not used */
    void (*run)(void *to, const void *from, size_t bytes);
};

extern const struct bench_pass bench_passes[]; /* ended by a NULL name */

#endif
