/* Start a job's ranks, pass their output on, and end all of them when one fails. The room behind
 * `gyre run`. */
#ifndef GYRE_LAUNCH_LAUNCH_H
#define GYRE_LAUNCH_LAUNCH_H

#include "launch/options.h"

/* Blocks until the job has ended. Returns the exit code: 0, the first failing rank's, 128 + n for
 * signal n, 126 or 127 if the program cannot be started. The last line on standard error then names
 * the first failure. A negative status with the story where nothing was started. Uses the process's
 * signal mask and standard streams: one launch at a time. */
int gyre_launch(const struct gyre_launch_options *options, struct gyre_trouble *trouble);

#endif
