/* The operations that the MPI peer measures: who gives and receives what, and the calls. */
#ifndef GYRE_BENCH_MPI_OPS_H
#define GYRE_BENCH_MPI_OPS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#define WORLD MPI_COMM_WORLD

struct op;

struct peer_bench {
    const struct op *op;
    int rank, n;
    float *in_buffer, *out_buffer;
    int *table[4]; /* n each: counts and starts, to send and to receive */
    float *input;  /* where this rank's own data lie, in place a part of the output or all */
    float *output; /* where the result comes */
    uint64_t bytes;
    int count;       /* elements of a block */
    int gives, gets; /* elements of this rank's input and output */
    bool in_place;
    int turn; /* of checked data: never the same twice */
};

/* What a buffer holds: one block, n of them, those on the root alone, a block of its own length. */
enum shape { BLOCK, BLOCKS, ROOT_BLOCK, ROOT_BLOCKS, UNEVEN, NOTHING };

struct op {
    const char *name;
    enum shape gives, gets;
    bool rooted, sums, only_out_of_place;
    void (*call)(const struct peer_bench *bench);
};

const struct op *op_find(const char *name); /* NULL if there is none */

/* The row of `bytes`: count, tables and where the data lie. */
void op_aim(struct peer_bench *bench, uint64_t bytes, bool in_place);

/* What a rank gives at an index of its input, and what this rank must find in its output. */
float op_value(const struct peer_bench *bench, int rank, int64_t index);
float op_expected(const struct peer_bench *bench, int index);

#endif
