/* The flags of nccl-tests, and ours beside them. */
#ifndef GYRE_BENCH_HARNESS_OPTIONS_H
#define GYRE_BENCH_HARNESS_OPTIONS_H

#include "base/types.h"

#include <stdbool.h>

#define BENCH_IN_PROCESS_MAX 64

/* Behind the library's reductions: a sum of inputs, each multiplied by its rank's scalar first. */
#define BENCH_MULSUM ((enum gyre_op)GYRE_OP_COUNT)
#define BENCH_OPS    (GYRE_OP_COUNT + 1)

/* A fault on purpose, by GYRE_BENCH_PLANT: a check that cannot fail would prove nothing. */
enum bench_plant { BENCH_PLANT_NOTHING, BENCH_PLANT_ELEMENT, BENCH_PLANT_STALE };

#define BENCH_SIZES_MAX 64

struct bench_row_size { /* one of a list */
    uint64_t bytes;
    int iterations; /* 0: as -n says */
};

struct bench_options {
    uint64_t min_bytes, max_bytes;                /* -b, -e; the first and the last of --sizes */
    uint64_t step_bytes;                          /* -i */
    uint64_t factor;                              /* -f; 0: step by bytes */
    struct bench_row_size sizes[BENCH_SIZES_MAX]; /* --sizes, in order */
    int size_count;                               /* 0: from -b to -e */
    int iterations;                               /* -n; 0: 20 and 50 ms at least */
    int warmups;                                  /* -w */
    int checks;                                   /* -c */
    int root;                                     /* -r; -1: each */
    int average;                                  /* -a: 0 rank 0, 1 mean, 2 min, 3 max */
    bool types[GYRE_TYPE_COUNT];                  /* -d, by enum gyre_type */
    bool ops[BENCH_OPS];                          /* -o, by enum gyre_op, and BENCH_MULSUM */
    bool per_iteration;                           /* -I */
    const char *json, *csv;                       /* -J, --csv; NULL: none */
    int ranks;                                    /* --ranks: processes; 0: the launcher's */
    int in_process;                    /* -g: ranks of each process, a thread each; 0: one */
    const char *transport, *algorithm; /* NULL: the library chooses */
    bool fresh;                        /* --fresh */
    bool plain_memory;                 /* --memory malloc, and registered */
    bool registered;
    bool cuda;       /* --device cuda */
    bool no_ceiling; /* --no-ceiling */
    enum bench_plant plant;
};

/* 0: go on. 1: help was asked for and printed. -1: a flag is wrong, and standard error says which.
 * Without `files` there is no -J and no --csv. */
int bench_options_read(int argc, char **argv, bool files, struct bench_options *options);

/* The size of the row behind that of *bytes; false: it was the last. */
bool bench_next_size(const struct bench_options *options, uint64_t *bytes);

/* Of a row of that size; 0: 20 and 50 ms at least. */
int bench_iterations(const struct bench_options *options, uint64_t bytes);

/* As nccl-tests prints them: "float", "bfloat16"; "sum". */
const char *bench_type_name(enum gyre_type type);
const char *bench_op_name(enum gyre_op op);

bool bench_op_suits(enum gyre_type type, enum gyre_op op);

/* The flag, abbreviation and separate value aside, that --ranks is: for taking it out of a command
 * line. */
bool bench_is_ranks_flag(const char *word, bool *value_follows);

#endif
