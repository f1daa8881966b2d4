/* What the ranks give and receive in one call, and whether it arrived. */
#ifndef GYRE_BENCH_HARNESS_DATA_H
#define GYRE_BENCH_HARNESS_DATA_H

#include "harness/bench.h"

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

#endif
