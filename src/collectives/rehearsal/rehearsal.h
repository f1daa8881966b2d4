/* The time of an operation, rehearsed message by message.
 *
 * The schedules of all ranks are rehearsed by the engine's rules, without a byte of data: lanes
 * take slices, a round ends when the rank's own steps have ended, short messages leave as credit
 * allows and long ones wait for their grant, and every machine has one way out and one way in,
 * which all its messages share, one after the other:
 *
 *     rank 0  lane 0 ─round─▶ ┐ frames            way out  ─latency─▶  way in ▶ rank 1
 *             lane 1 ─round─▶ ┘ of a pair  ──▶  ▐▐▐▐▐▐▐▐                ▐▐▐▐  ▶ rank 2
 *
 * The prices are those of collectives/choose/cost.h, which sums them up by a formula where this
 * would take too long. All numbers are whole picoseconds, so all machines compute the same. */
#ifndef GYRE_COLLECTIVES_REHEARSAL_REHEARSAL_H
#define GYRE_COLLECTIVES_REHEARSAL_REHEARSAL_H

#include "collectives/choose/cost.h"

struct gyre_rehearsal {
    const struct gyre_algorithm *algorithm;
    struct gyre_slice whole; /* the operation in one slice; its rank and in_place are ignored */
    uint64_t slice_count;    /* elements of each slice but the last */
    uint32_t lanes;
    const struct gyre_link_kinds *link_kinds;
    /* The longest message between nodes that waits for no grant; 0: GYRE_COST_UNASKED. */
    uint64_t unasked;
    /* The most messages and rounds of ranks that are rehearsed: the work of a rehearsal. */
    uint64_t work_most;
};

/* Finds the time in picoseconds; GYRE_COST_NEVER: it takes more work than is allowed, or links of
 * the kind GYRE_LINK_MAPPED. Of an operation of many slices the first ones are rehearsed, and the
 * others follow at the same pace. *work: what was done. GYRE_INVALID: ranks wait for each other for
 * ever; -ENOMEM. */
int gyre_rehearse(const struct gyre_rehearsal *rehearsal, uint64_t *ps, uint64_t *work);

#endif
