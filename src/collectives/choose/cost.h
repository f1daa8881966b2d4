/* What a schedule will cost. A schedule is data, so its rounds are walked and priced, and a new
 * algorithm is judged without a word about the algorithm here. */
#ifndef GYRE_COLLECTIVES_CHOOSE_COST_H
#define GYRE_COLLECTIVES_CHOOSE_COST_H

#include "collectives/schedule/schedule.h"
#include "collectives/choose/tuning.h"

#define GYRE_COST_NEVER UINT64_MAX

/* Bytes of the longest message that is sent unasked: over sockets; between ranks of a node. The
 * numbers are tcp's and shm's whichever driver serves a pair, for prices must be equal on all
 * ranks. */
#define GYRE_COST_UNASKED      (64u * 1024)
#define GYRE_COST_UNASKED_NEAR (16u * 1024)

/* Which kind of link runs between whom, and the prices; equal on all ranks. */
struct gyre_link_kinds {
    enum gyre_link_kind near, far; /* to ranks of the own node, and to the others */
    const struct gyre_tuning *tuning;
};

/* A time in picoseconds, and the network's part of that time. */
struct gyre_cost_time {
    uint64_t all, network;
};

/* The cost of one slice. */
struct gyre_cost {
    struct gyre_cost_time path; /* from the start of its first round to the end of its last */
    struct gyre_cost_time busy; /* how long the fullest rank's links are occupied */
    uint64_t work; /* ps: how long the fullest rank's core folds and moves bytes of inner links */
};

/* Storage of a walk, kept over many of them. Zero it before the first. */
struct gyre_walk {
    struct gyre_round round;
};

/* Walks the rounds of the slice's schedule as a sample of the ranks sees them: all up to 16, few of
 * more. Ends early with path GYRE_COST_NEVER once it is dearer than `limit`. 0, -ENOMEM, or
 * GYRE_INVALID where a round has more steps than the extent says. */
int gyre_cost_slice(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                    const struct gyre_link_kinds *link_kinds, uint64_t limit,
                    struct gyre_walk *walk, struct gyre_cost *cost);
void gyre_walk_deinit(struct gyre_walk *walk);

/* An operation of `count` elements, cut into slices of `slice_count` that take `slice_bytes` each
 * of the cache, `lanes` at a time. In picoseconds. */
uint64_t gyre_cost_total(const struct gyre_cost *slice, uint64_t count, uint64_t slice_count,
                         uint64_t slice_bytes, uint32_t lanes, const struct gyre_tuning *tuning);

#endif
