/* The front of the benches of collectives: flags, ranks, rows, checks, ceiling, footer. A bench is
 * one struct bench_verb and one line of main. Only gyre.h is used, as any program would. */
#ifndef GYRE_BENCH_COMMON_H
#define GYRE_BENCH_COMMON_H

#include "options.h"
#include "report.h"

#include <gyre/gyre.h>

/* As nccl-tests. 2 is CUDA's there. */
enum bench_exit {
    BENCH_EXIT_WRONG = 1, /* wrong results, a bandwidth below NCCL_TESTS_MIN_BW, a share above its
                             ceiling, or no memory */
    BENCH_EXIT_LIBRARY = 3,
    BENCH_EXIT_TIMED_OUT = 4,
    BENCH_EXIT_UNSUPPORTED = 5,
    BENCH_EXIT_USAGE = 2
};

struct bench_call { /* of one row and direction */
    const void *input;
    void *output;
    uint64_t count;
    enum gyre_type type;
    enum gyre_op op;
    int root;
};

struct bench_verb {
    const char *name;
    bool reduces; /* takes an operation; otherwise a root */
    int (*call)(struct gyre_comm *comm, const struct bench_call *call);
    double (*bus_factor)(int n); /* busbw / algbw */

    /* Of memory, per byte of size: what all ranks together must at least read and write. */
    double (*traffic)(int n, bool in_place);
    const char *traffic_text; /* the same in words */
};

#define BENCH_SPARE_BYTES                                                                          \
    264 /* behind each buffer, so that the ceiling always has some to move                         \
         */

struct bench_rate {      /* of going through memory */
    double bytes_per_us; /* read and written */
    const char *pass;
    size_t bytes; /* of each rank */
    int ranks;
};

struct bench_sockets {
    int streams;      /* of each pair */
    int per_node;     /* ranks of each node that sent at once */
    double node_rate; /* bytes per second out of each node */
};

struct bench_ceiling {           /* best of the samples */
    struct bench_rate memory[2]; /* out of place, in place */
    struct bench_sockets sockets;
};

struct bench {
    const struct bench_verb *verb;
    struct bench_options options;
    struct gyre_comm *comm;
    int rank, n;
    void *input, *output;      /* options.max_bytes and the spare ones each */
    struct bench_place *place; /* n */
    uint64_t iteration;        /* of checked data: never the same twice */
    struct bench_report report;
    uint64_t largest; /* bytes of the largest row */
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

/* Times and checks one row. A call that fails ends the program. */
void bench_measure_row(struct bench *bench, const struct bench_call *call, struct bench_row *row);
void bench_row_release(struct bench_row *row);
void bench_warm_up(struct bench *bench, const struct bench_call *call);

/* -- ceiling.c, ceiling_tcp.c ------------------------------------------------------------------ */

/* Looks how fast this machine is at present, and keeps the best of all samples. Collective. */
void bench_ceiling_sample(struct bench *bench);

/* Prints what this machine can do at most with the largest size, and the share that was reached.
 * False if more was reached than is possible. */
bool bench_ceiling_report(struct bench *bench);

/* Bare sockets between nodes, in a closed ring for a collective that sends both ways (all-reduce),
 * else in a chain (broadcast). Better rates replace *best; where the sockets cannot be made it
 * stays. Collective. */
void bench_ceiling_tcp(struct bench *bench, bool closed, struct bench_sockets *best);

/* The busbw in bytes per second that follows. */
double bench_ceiling_tcp_bus(const struct bench *bench, bool closed,
                             const struct bench_sockets *best);

/* -- what everything uses ---------------------------------------------------------------------- */

/* Ends the program with the story if `status` is a failure. */
void bench_must(struct bench *bench, int status, const char *what);
double bench_now_us(void);
double bench_agree(struct bench *bench, double value, enum gyre_op op); /* collective */
double bench_from_root(struct bench *bench, double value);              /* rank 0's; collective */
void bench_sum(struct bench *bench, void *data, uint64_t count,
               enum gyre_type type);                   /* collective */
void bench_together(struct bench *bench);              /* barrier */
void *bench_memory(struct bench *bench, size_t bytes); /* zeroed; never NULL */

#endif
