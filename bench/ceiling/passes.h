/* Ways to go through memory once, from which the ceiling takes the fastest. */
#ifndef GYRE_BENCH_CEILING_PASSES_H
#define GYRE_BENCH_CEILING_PASSES_H

#include <stdbool.h>
#include <stddef.h>

/* What is counted. */
enum bench_kind {
    BENCH_COPIES, /* reads `bytes` and writes `bytes` */
    BENCH_READS,  /* reads `bytes` of `from` */
    BENCH_WRITES, /* writes `bytes` to `to` */
    BENCH_KINDS
};

struct bench_pass { /* over `bytes`, a multiple of 128 */
    const char *name;
    enum bench_kind kind;
    bool in_place; /* a copy that reads what it writes; `from` is not used */
    void (*run)(void *to, const void *from, size_t bytes);
};

extern const struct bench_pass bench_passes[]; /* ended by a NULL name */

#endif
