/* The offline checker: builds one schedule for all n ranks in one process, follows every byte, and
 * so proves the schedule.
 *
 * What holds if it returns 0:
 *   - every SEND has exactly one RECV of equal length in the same round of its peer, and the other
 *     way round; hence no deadlock, even where a send waits for its receive and each pair of ranks
 *     shares one first-in-first-out channel;
 *   - every byte of every OUTPUT is the one that the verb wants there, of the right rank or summed
 *     over every rank exactly once and marked FINAL exactly once; an all-reduce in one bracketing
 *     that is the same on all ranks (so they end bitwise equal);
 *   - an algorithm that declares rank_order adds each element from left to right over ranks
 *     0 … n-1, in one REDUCE where the slice is narrow;
 *   - all of this whether a rank works in place or not, each rank choosing for itself: no byte is
 *     written twice or written and read by two steps of a round, and no INPUT is read after its
 *     OUTPUT has been overwritten. The table in collectives/schedule/verbs.h says where buffers
 *     lie;
 *   - only buffers that the rank has are named, and in them only this slice's parts of blocks;
 *   - nothing undefined or out of bounds is read, INPUT is never written, and a step moves whole
 *     elements;
 *   - the extent is honest (rounds and the fullest rank's scratch exact, the rest enough) and so is
 *     sent_bytes(). */
#ifndef GYRE_COLLECTIVES_PROVE_CHECK_H
#define GYRE_COLLECTIVES_PROVE_CHECK_H

#include "base/status.h"
#include "collectives/schedule/schedule.h"

/* Checks all n ranks of `slice`; its rank and in_place are ignored. An all-to-all, which is told
 * who works in place, is checked with nobody, everybody and every other rank. 0; GYRE_INVALID with
 * the first defect in `trouble`, naming rank, round and step; or -ENOMEM. Time grows with the
 * number of steps of all ranks, not with the count. */
int gyre_check_schedule(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                        struct gyre_trouble *trouble);

/* Checks ranks that differ in more than their number (the blocks of an all-to-all, in_place):
 * of_rank[r] is rank r's own slice, n of them. */
int gyre_check_ranks(const struct gyre_algorithm *algorithm, const struct gyre_slice *of_rank,
                     struct gyre_trouble *trouble);

#endif
