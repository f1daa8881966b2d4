/* Data whose right result anybody can work out: it depends on rank, index and iteration. */
#ifndef GYRE_BENCH_HARNESS_PATTERN_H
#define GYRE_BENCH_HARNESS_PATTERN_H

#include <gyre/gyre.h>

#include <stdbool.h>

struct bench_pattern {
    enum gyre_type type;
    bool reduce;     /* over all ranks; false: the result is the source's input */
    enum gyre_op op; /* or BENCH_MULSUM */
    int source;
    int n;
    uint64_t iteration;
    uint64_t first; /* of the source's elements, or of every rank's: the one that comes first */
};

/* What `rank` gives: its elements 0 … count - 1. */
void bench_pattern_fill(const struct bench_pattern *pattern, int rank, void *data, uint64_t count);

/* What BENCH_MULSUM multiplies the rank's input by: one element, of 8 bytes at most. */
void bench_pattern_scalar(enum gyre_type type, int rank, void *scalar);

/* How many elements of `data` are not what must be received there. */
uint64_t bench_pattern_count_wrong(const struct bench_pattern *pattern, const void *data,
                                   uint64_t count);

/* Makes one element wrong: to see that the check would notice. */
void bench_pattern_spoil(const struct bench_pattern *pattern, void *data, uint64_t index);

#endif
