/* The offline checker: builds one schedule for all n ranks in one process, follows every byte, and
 * so proves the schedule.
 *
 * What holds if the checker returns 0:
 *   - Every SEND has exactly one RECV of equal length in the same round of its peer, and the other
 *     way round. Hence there is no deadlock, even where a send waits for its receive and each pair
 *     of ranks shares one first-in-first-out channel.
 *   - Every byte of every OUTPUT is the one that the verb wants there: of the right rank, or summed
 *     over every rank exactly once and marked FINAL exactly once. An all-reduce has one bracketing
 *     on all ranks, so ranks end bitwise equal.
 *   - An algorithm that declares rank_order adds each element from left to right over ranks
 *     0 … n-1, in one REDUCE where the slice is narrow.
 *   - All rules hold whether a rank works in place or not, each rank choosing for itself: no byte
 *     is written twice, or written and read, by two steps of a round, and no INPUT is read after
 *     its OUTPUT has been overwritten. The table in collectives/schedule/verbs.h says where buffers
 *     lie.
 *   - Steps name only buffers that the rank has, and in them only this slice's parts of blocks.
 *   - Nothing undefined or out of bounds is read, INPUT is never written, and a step moves whole
 *     elements.
 *   - The extent is right (rounds and the scratch of the fullest rank exact, the rest enough), and
 *     so is sent_bytes(). */
#ifndef GYRE_COLLECTIVES_PROVE_CHECK_H
#define GYRE_COLLECTIVES_PROVE_CHECK_H

#include "base/status.h"
#include "collectives/schedule/schedule.h"

/* Checks all n ranks of `slice`, whose rank and in_place are ignored. An all-to-all depends on who
 * works in place: it is checked with no rank, every rank and every other rank. 0; GYRE_INVALID with
 * the first defect in `trouble`, naming rank, round and step; or -ENOMEM. Time grows with the
 * number of steps of all ranks, not with the count. */
int gyre_check_schedule(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                        struct gyre_trouble *trouble);

/* Checks ranks that differ in more than their number (the blocks of an all-to-all, in_place):
 * of_rank[r] is rank r's own slice; there are n. */
int gyre_check_ranks(const struct gyre_algorithm *algorithm, const struct gyre_slice *of_rank,
                     struct gyre_trouble *trouble);

#endif
