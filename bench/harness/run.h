/* One run of a bench: ranks, rows, ceiling, footer. */
#ifndef GYRE_BENCH_HARNESS_RUN_H
#define GYRE_BENCH_HARNESS_RUN_H

#include "harness/bench.h"

/* What this program measures: each file of collectives/ defines its own. */
extern const struct bench_verb bench_verb;

/* The whole program, from flags to exit code. */
int bench_main(int argc, char **argv, const struct bench_verb *verb);

/* What stands before and behind any bench. bench_enter: flags, --ranks, gyre_init, buffers; -1 to
 * go on, else the exit code. bench_leave: all ranks together, gyre_finalize; the exit code, 0 if
 * `well`, or `code`. */
int bench_enter(int argc, char **argv, struct bench *bench);
int bench_leave(struct bench *bench, bool well);
int bench_leave_with(struct bench *bench, int code);

#endif
