/* N ranks on this machine, started by the bench itself. */
#ifndef GYRE_BENCH_HARNESS_LOCAL_H
#define GYRE_BENCH_HARNESS_LOCAL_H

#include <stdbool.h>

/* Runs this program again `ranks` times with the same words but --ranks, and waits for all. Each is
 * kept on a core of its own, if there are enough, and it is to be `pinned`. When
 * one fails the others are killed. The exit code of the first that failed, 0 when none did; 1 with
 * a message when they cannot be started. */
int bench_run_locally(int ranks, bool pinned, int argc, char **argv);

#endif
