/* The two ends of each message. */
#ifndef GYRE_CLI_TRACE_READING_PAIRS_H
#define GYRE_CLI_TRACE_READING_PAIRS_H

#include "cli/trace/reading/timeline.h"

/* Finds the other end of every message whose ends have both been read. */
int gyre_pairs_find(struct gyre_timeline *timeline, struct gyre_trouble *trouble);

/* Tells where in a message's bar both ends had begun. After the clocks have been set. */
void gyre_pairs_tell_waits(struct gyre_timeline *timeline);

#endif
