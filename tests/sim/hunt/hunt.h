/* The hunt: whole jobs in virtual time, each drawn from a seed, with faults.
 *
 *      seed ─▶ scenario ─▶ play ─▶ outcome: nothing wrong, or what is
 *                │          │
 *                │          ├─ rank.c     a rank: a coroutine that calls gyre/gyre.h; its domain
 *                │          ├─ program.c  the operations that ranks call, and what must come out
 *                │          ├─ watch.c    the ranks' failure detectors, and channels between them
 *                │          ├─ links.c    connections of links that are made at their first use
 *                │          ├─ faults.c   what happens to ranks and links, and who is to blame
 *                │          └─ memory.c   the heap, by owner
 *                └─ shrink.c  the smallest scenario that still fails
 *
 * One thread. A run is a function of its scenario: the same events give the same hash. */
#ifndef GYRE_TESTS_SIM_HUNT_HUNT_H
#define GYRE_TESTS_SIM_HUNT_HUNT_H

#include "transport/seal/seal.h"

#include <gyre/gyre.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define HUNT_RANKS  9
#define HUNT_OPS    12
#define HUNT_FAULTS 5
#define HUNT_RESETS 3 /* of the watch's connections, besides */
#define HUNT_DIALS  2 /* faults of links that are made at their first use, besides */
#define HUNT_MOST   (HUNT_FAULTS + HUNT_RESETS + HUNT_DIALS)
#define HUNT_NOBODY UINT32_MAX

enum hunt_call {
    HUNT_ALL_REDUCE,
    HUNT_BROADCAST,
    HUNT_REDUCE,
    HUNT_ALL_GATHER,
    HUNT_REDUCE_SCATTER,
    HUNT_ALL_TO_ALL,
    HUNT_GATHER,
    HUNT_SCATTER,
    HUNT_ALL_GATHER_V,
    HUNT_ALL_TO_ALL_V,
    HUNT_RING, /* a message to the next rank, one from the rank before */
    HUNT_BARRIER,
    HUNT_COMPUTE, /* no call: `count` microseconds, or 2 s, without a look at the links */
    HUNT_CALLS
};

struct hunt_op {
    enum hunt_call call;
    uint64_t count; /* of a block */
    enum gyre_type type;
    enum gyre_op op;
    uint32_t root; /* modulo the communicator's ranks */
    bool in_place; /* where the call has such a form */
    bool part;     /* on the half of the ranks that gyre_split() made */
    bool late;     /* started, and waited for at the end */
    bool grouped;  /* collected with its neighbours of the same communicator */
};

enum hunt_fault_kind {
    HUNT_CRASH,   /* rank a ends */
    HUNT_PAUSE,   /* rank a stands still */
    HUNT_SLOW,    /* what a and b send each other takes up to 50 ms longer */
    HUNT_LOSS,    /* nothing arrives from a at b */
    HUNT_CLOG,    /* nothing arrives from a at b, nor from b at a */
    HUNT_SPLIT,   /* nothing passes between two parts of the ranks; a and b are in different ones */
    HUNT_RESET,   /* the connection of a and b breaks */
    HUNT_CORRUPT, /* a bit of what a sends to b is flipped */
    HUNT_STALE,   /* a gets a message of b's earlier life */
    HUNT_TWIN,    /* what b's detector told a's last is told once more, as by a second b */
    HUNT_NO_MEMORY, /* an allocation of rank a fails, and its program ends with the call */
    /* The watch's connection between rank a, of another node than rank 0, and rank 0, or the rank
     * above it in a tree of nodes, is reset. */
    HUNT_RESET_WATCH,
    HUNT_RESET_DIAL, /* the next connection that is being made from rank a or to it is reset */
    HUNT_STALE_DIAL, /* what rank a asked last to make a connection arrives once more */
    HUNT_FAULT_KINDS
};

struct hunt_fault {
    enum hunt_fault_kind kind;
    uint64_t at, lasts; /* nanoseconds */
    uint32_t a, b;
    uint64_t skip; /* bytes before the flipped one, allocations before the failing one; with its
                    * bits a split chooses, and it says how slow a link gets */
};

struct hunt_scenario {
    uint64_t seed; /* of jitter, and of the order in which ranks start */
    uint32_t n, per_node;
    uint32_t fan_out; /* of the watch's tree; 0: rank 0 has a channel to each rank */
    bool large;       /* nodes are: the ranks of each are a tree, too */
    bool on_demand;   /* links between nodes are made at their first use */
    uint64_t latency_ns, jitter_ns, bytes_per_second, coalesce_ns;
    uint32_t piece_bytes, window_bytes;
    enum gyre_seal_mode security;
    const char *slice, *algorithms; /* GYRE_SLICE, GYRE_ALGO */
    uint32_t ops, faults;
    struct hunt_op op[HUNT_OPS];
    struct hunt_fault fault[HUNT_MOST];
};

struct hunt_outcome {
    bool wrong;
    char text[2048];
    uint64_t hash, events, virtual_ns;
    uint32_t failed;                   /* ranks that were told of a failure */
    uint32_t played[HUNT_FAULT_KINDS]; /* faults that did something */
};

/* -- scenario.c -------------------------------------------------------------------------------- */

void hunt_draw(struct hunt_scenario *scenario, uint64_t seed);
void hunt_print(const struct hunt_scenario *scenario, FILE *to);
const char *hunt_fault_name(enum hunt_fault_kind kind);

/* -- play.c, shrink.c -------------------------------------------------------------------------- */

/* Runs it. `log` NULL: no log of events. */
void hunt_play(const struct hunt_scenario *scenario, FILE *log, struct hunt_outcome *outcome);

/* Makes a failing scenario smaller while it fails. */
void hunt_shrink(struct hunt_scenario *scenario, struct hunt_outcome *outcome);

#endif
