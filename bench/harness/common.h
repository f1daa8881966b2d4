/* The front of the benches of collectives: flags, ranks, rows, checks, ceiling, footer. A bench is
 * one struct bench_verb and one line of main. Only gyre.h is used, as any program would, but for
 * device/device.h by --device (buffers.h) and the nearest word to a wrong one (options.c). */
#ifndef GYRE_BENCH_HARNESS_COMMON_H
#define GYRE_BENCH_HARNESS_COMMON_H

#include "harness/buffers.h"
#include "harness/options.h"
#include "harness/passes.h"
#include "harness/report.h"

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

/* For bus_factor, leaves and lay. */
double bench_whole(int n);           /* 1 */
double bench_share_of_others(int n); /* (n-1)/n */
double bench_whole_leaves(int n, int nodes);
double bench_others_leave(int n, int nodes); /* (nodes-1)/nodes */
/* Where the share of `rank`, of n unequal ones that grow with it, begins in n count elements. */
uint64_t bench_uneven_start(const struct bench_call *call, int rank);
void bench_lay_stretch(struct bench_lay *lay, uint64_t at, uint64_t count, int source,
                       uint64_t first);

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

/* main() of a bench of a collective. */
int bench_main(int argc, char **argv, const struct bench_verb *verb);

/* What stands before and behind any bench. bench_enter: flags, --ranks, gyre_init, buffers; -1 to
 * go on, else the exit code. bench_leave: all ranks together, gyre_finalize; the exit code, 0 if
 * `well`, or `code`. */
int bench_enter(int argc, char **argv, struct bench *bench);
int bench_leave(struct bench *bench, bool well);
int bench_leave_with(struct bench *bench, int code);

/* -- measure.c --------------------------------------------------------------------------------- */

/* Times and checks one row, of `bytes` or what count makes of them. A call that fails ends the
 * program. */
void bench_measure_row(struct bench *bench, const struct bench_call *call, uint64_t bytes,
                       struct bench_row *row);
void bench_row_release(struct bench_row *row);
void bench_warm_up(struct bench *bench, const struct bench_call *call);

/* -- data.c ------------------------------------------------------------------------------------ */

/* What all calls of a row and direction have in common: count, blocks, and where the data lie. */
void bench_call_aim(struct bench *bench, struct bench_call *call, uint64_t bytes, bool in_place);
uint64_t bench_call_bytes(const struct bench *bench, const struct bench_call *call); /* size */
void bench_call_lay(struct bench *bench, const struct bench_call *call, struct bench_lay *lay);

/* Between timed calls: reads this rank's whole output, rewrites its whole input. */
void bench_call_refresh(struct bench *bench, const struct bench_call *call, int turn);

/* Checked calls on data that tell every fault: wrong elements over all ranks, and how many ranks
 * had some. Ends at the first call that finds any. -1 without checks. */
int64_t bench_call_check(struct bench *bench, const struct bench_call *call, int *ranks_wrong);

/* Calls, and ends the program if that fails. */
void bench_call_make(struct bench *bench, const struct bench_call *call);

/* -- ceiling.c, ceiling_tcp.c ------------------------------------------------------------------ */

/* Looks how fast this machine is at present, and keeps the best of all samples. Collective. */
void bench_ceiling_sample(struct bench *bench);

/* Samples again while a row is above them. Collective. */
void bench_ceiling_settle(struct bench *bench);

/* Prints what this machine can do at most with the largest size, and the share that was reached.
 * False if more was reached than is possible. */
bool bench_ceiling_report(struct bench *bench);

/* Bare sockets between nodes, wired as the verb has it. Better rates replace *best; where the
 * sockets cannot be made it stays. Collective. */
void bench_ceiling_tcp(struct bench *bench, struct bench_sockets *best);

/* The busbw in bytes per second that follows. */
double bench_ceiling_tcp_bus(const struct bench *bench, const struct bench_sockets *best);

/* -- what everything uses ---------------------------------------------------------------------- */

/* Ends the program with the story if `status` is a failure. */
void bench_must(struct bench *bench, int status, const char *what);
double bench_now_us(void);
double bench_processor_us(void); /* of all threads of this process */
double bench_agree(struct bench *bench, double value, enum gyre_op op); /* collective */
double bench_from_root(struct bench *bench, double value);              /* rank 0's; collective */
void bench_sum(struct bench *bench, void *data, uint64_t count,
               enum gyre_type type);                   /* collective */
void bench_together(struct bench *bench);              /* barrier */
void *bench_memory(struct bench *bench, size_t bytes); /* zeroed; never NULL */

#endif
