/* One row, timed and checked. */
#ifndef GYRE_BENCH_HARNESS_MEASURE_H
#define GYRE_BENCH_HARNESS_MEASURE_H

#include "harness/bench.h"

/* Times and checks one row, of `bytes` or what count makes of them. A call that fails ends the
 * program. */
void bench_measure_row(struct bench *bench, const struct bench_call *call, uint64_t bytes,
                       struct bench_row *row);
void bench_row_release(struct bench_row *row);
void bench_warm_up(struct bench *bench, const struct bench_call *call);

#endif
