/* What this machine can do at most, beside what was reached. */
#ifndef GYRE_BENCH_CEILING_CEILING_H
#define GYRE_BENCH_CEILING_CEILING_H

#include "harness/bench.h"

/* Looks how fast this machine is at present, and keeps the best of all samples. Collective. */
void bench_ceiling_sample(struct bench *bench);

/* Samples again while a row is above them. Collective. */
void bench_ceiling_settle(struct bench *bench);

/* Prints what this machine can do at most with the largest size, and the share that was reached.
 * False if more was reached than is possible. */
bool bench_ceiling_report(struct bench *bench);

#endif
