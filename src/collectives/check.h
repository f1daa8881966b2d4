/* The offline checker: proves one schedule by building it for all n ranks in one process and
 * following every byte.
 *
 * What holds if it returns 0:
 *   - every SEND has exactly one RECV of equal length in the same round of its peer, and the other
 * way round; hence no deadlock, even where a send waits for its receive and each pair of ranks
 * shares one first-in-first-out channel;
 *   - all-reduce: every rank ends with every element summed over every rank exactly once, marked
 * FINAL exactly once, in one bracketing that is the same on all ranks (so they end bitwise equal);
 * broadcast: with the root's elements;
 *   - an algorithm that declares rank_order adds each element in one REDUCE over ranks 0 … n-1;
 *   - all of this whether a rank works in place or not, each rank choosing for itself: no byte is
 * written twice or written and read by two steps of a round, and no INPUT is read after its OUTPUT
 * has been overwritten;
 *   - nothing undefined or out of bounds is read, INPUT is never written, and a step moves whole
 * elements;
 *   - the extent is honest (rounds and the fullest rank's scratch exact, the rest enough) and so is
 * sent_bytes(). */
#ifndef GYRE_COLLECTIVES_CHECK_H
#define GYRE_COLLECTIVES_CHECK_H

#include "base/status.h"
#include "collectives/schedule.h"

/* Checks all n ranks of `slice`; its rank is ignored. 0; GYRE_INVALID with the first defect in
 * `trouble`, naming rank, round and step; or -ENOMEM. Time grows with the number of steps of all
 * ranks, not with the count. Not for hot paths. */
int gyre_check_schedule(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                        struct gyre_trouble *trouble);

#endif
