/* One bench: what is measured (struct bench_verb), one call of it, and one run (struct bench). */
#ifndef GYRE_BENCH_HARNESS_BENCH_H
#define GYRE_BENCH_HARNESS_BENCH_H

#include "ceiling/passes.h"
#include "device/device.h"
#include "harness/options.h"
#include "output/report.h"

#include <gyre/gyre.h>

struct bench;

/* As nccl-tests. 2 is CUDA's there. */
enum bench_exit {
    BENCH_EXIT_WRONG = 1, /* wrong results, below NCCL_TESTS_MIN_BW, above a ceiling, no memory */
    BENCH_EXIT_LIBRARY = 3,
    BENCH_EXIT_TIMED_OUT = 4,
    BENCH_EXIT_UNSUPPORTED = 5,
    BENCH_EXIT_USAGE = 2
};

struct bench_blocks { /* unequal ones, by rank; elements */
    uint64_t *count, *at;
};

struct bench_call { /* of one row and direction */
    const void *input;
    void *output;
    uint64_t count; /* elements: what the call is told, of one block; of unequal ones the mean */
    enum gyre_type type;
    enum gyre_op op;        /* what the call is told */
    enum gyre_op reduction; /* as -o has it */
    int root;
    int iterations; /* asked for; 0: 20 and 50 ms at least */
    int n, rank;
    struct bench_blocks send, recv; /* of operations with unequal blocks: n of each */
};

#define BENCH_ALL_RANKS (-1)

struct bench_stretch { /* of a rank's output */
    uint64_t at, count;
    int source;     /* the rank that it comes from; BENCH_ALL_RANKS: reduced over all */
    uint64_t first; /* the element of the source's input that lands at `at` */
};

/* What one rank has in one call, in elements. */
struct bench_lay {
    uint64_t input, output;       /* 0: it has none */
    uint64_t input_at, output_at; /* in place: in the longer of the two */
    int stretches;
    struct bench_stretch *stretch; /* n at most */
};

struct bench_traffic { /* of memory, per byte of size */
    double reads, writes;
};

/* How a row's size, which is the first column, follows from count. */
enum bench_size {
    BENCH_SIZE_BLOCK, /* count elements */
    BENCH_SIZE_ALL,   /* n blocks of count elements, each a multiple of 16 bytes */
    BENCH_SIZE_NONE   /* there are no data, and one row */
};

/* Bare sockets that carry what such an operation carries between nodes. */
enum bench_wires {
    BENCH_WIRES_RING,  /* each node sends and receives at once */
    BENCH_WIRES_CHAIN, /* from node to node; the first only sends, the last only receives */
    BENCH_WIRES_PAIR   /* one node sends, another receives */
};

struct bench_verb {
    const char *name;
    bool reduces; /* takes an operation */
    bool rooted;  /* takes a root; some ranks may return before others have their data */
    bool only_out_of_place;
    enum bench_size size;
    int (*call)(struct gyre_comm *comm, const struct bench_call *call);
    void (*share)(const struct bench_call *call); /* fills send and recv; NULL: equal blocks */
    void (*lay)(const struct bench_call *call, struct bench_lay *lay); /* of call->rank */
    double (*bus_factor)(int n);                                       /* busbw / algbw */

    /* What all ranks together must at least read and write. NULL: there is no ceiling. */
    struct bench_traffic (*traffic)(int n, bool in_place);
    const char *traffic_text; /* the same in words */

    /* Per byte of size: what must at least leave, or enter, the busiest node. */
    enum bench_wires wires;
    double (*leaves)(int n, int nodes);

    /* Instead of `lay`, where there are no data to look at: 1 if this rank saw a fault. */
    uint64_t (*check)(struct bench *bench);
};

struct bench_device {             /* --device cuda */
    const struct gyre_device *is; /* NULL: the buffers are the host's */
    int index;
    struct gyre_device_queue *queue;
    uint64_t token;
    char name[64];
    struct gyre_region own[2]; /* of --memory malloc */
    char *mirror[2];           /* the host's, of input and output */
};

/* Behind each buffer, so that the ceiling always has some to move. */
#define BENCH_SPARE_BYTES 264

struct bench_rate { /* of going through memory */
    double bytes_per_us;
    const char *pass;
    size_t bytes; /* of each rank */
    int ranks;
};

struct bench_sockets {
    int streams;      /* of each pair */
    int per_node;     /* ranks of each node that sent at once */
    double node_rate; /* bytes per second out of each node */
};

struct bench_ceiling {                        /* best of the samples */
    struct bench_rate memory[2][BENCH_KINDS]; /* out of place, in place */
    struct bench_sockets sockets;
};

struct bench {
    const struct bench_verb *verb;
    struct bench_options options;
    struct gyre_comm *comm;
    int rank, n;
    void *input, *output; /* options.max_bytes and the spare ones each */
    struct bench_device device;
    struct bench_place *place;      /* n */
    struct bench_blocks send, recv; /* n each; filled by verb->share() */
    struct bench_stretch *stretch;  /* n */
    uint64_t iteration;             /* of checked data: never the same twice */
    struct bench_report report;
    uint64_t largest; /* the largest size asked for */
    uint64_t rows, rows_done;
    double best_bus[2]; /* at that size: out of place, in place */
    struct bench_ceiling ceiling;
};

#endif
