/* Starts a job's ranks, passes on their output, and ends all when one fails: `gyre run`. */
#ifndef GYRE_LAUNCH_LAUNCH_H
#define GYRE_LAUNCH_LAUNCH_H

#include "launch/options.h"

/* Blocks until the job has ended and returns its exit code: 0, the code of the first rank that
 * failed, 128 + n for signal n, 126 or 127 if the program cannot be started. The last line on
 * standard error then names the first failure. A job that fails is started again as often as the
 * options allow, unless a signal ended it or its program was used wrongly (2, 126, 127). A negative
 * status with its trouble says that nothing runs: the first start failed, or a later one. Uses the
 * process's signal mask and standard streams: one launch at a time. */
int gyre_launch(const struct gyre_launch_options *options, struct gyre_trouble *trouble);

#endif
