/* Predicts the cost of a schedule. A schedule is data, so the model walks and prices its rounds,
 * and knows no algorithm by name. */
#ifndef GYRE_COLLECTIVES_CHOOSE_COST_H
#define GYRE_COLLECTIVES_CHOOSE_COST_H

#include "collectives/schedule/schedule.h"
#include "collectives/choose/tuning.h"

#define GYRE_COST_NEVER UINT64_MAX

/* The length of the longest message that is sent without a grant, over sockets and between ranks of
 * a node. The numbers are tcp's and shm's whichever driver serves a pair, because prices must be
 * equal on all ranks. */
#define GYRE_COST_UNASKED      (64u * 1024)
#define GYRE_COST_UNASKED_NEAR (16u * 1024)

/* The kinds of links and their prices; equal on all ranks. */
struct gyre_link_kinds {
    enum gyre_link_kind near, far; /* to ranks of the own node; to the others */
    const struct gyre_tuning *tuning;
    /* One node whose way to the network is slower, and its price of a KiB; 0: there is none. */
    uint32_t slow_node;
    uint64_t slow_kib_ps;
};

/* The cost of one slice, in picoseconds. */
struct gyre_cost {
    uint64_t path; /* from the start of the slice's first round to the end of its last */
    uint64_t busy; /* how long the links of the busiest rank are occupied */
    uint64_t work; /* how long the core of the busiest rank folds and moves bytes of inner links */
};

/* The storage of a walk, kept from one walk to the next. Zero it before the first. */
struct gyre_walk {
    struct gyre_round round;
};

/* Walks the rounds of the slice's schedule for a sample of the ranks: all up to 16, a few of more.
 * Ends early with path GYRE_COST_NEVER once the cost exceeds `limit`. 0, -ENOMEM, or GYRE_INVALID
 * where a round has more steps than the extent says. */
int gyre_cost_slice(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                    const struct gyre_link_kinds *link_kinds, uint64_t limit,
                    struct gyre_walk *walk, struct gyre_cost *cost);
void gyre_walk_deinit(struct gyre_walk *walk);

/* The time in picoseconds of an operation of `count` elements, cut into slices of `slice_count`,
 * `lanes` at a time. */
uint64_t gyre_cost_total(const struct gyre_cost *slice, uint64_t count, uint64_t slice_count,
                         uint32_t lanes);

/* The price of a byte that a core moves for messages and folds, in percent: above 100 where the
 * buffers of a machine's ranks do not stay in the cache from call to call. The slice may be a part
 * of the operation: its stride says how long the whole is. */
uint64_t gyre_cost_spill(const struct gyre_slice *slice, const struct gyre_link_kinds *link_kinds);

#endif
