/* The clocks of a job's hosts, brought together. */
#ifndef GYRE_CLI_TRACE_READING_CLOCKS_H
#define GYRE_CLI_TRACE_READING_CLOCKS_H

#include "cli/trace/reading/timeline.h"

/* Turns the ticks of all bars into nanoseconds of the wall clock of the first rank's host. */
int gyre_clocks_set(struct gyre_timeline *timeline, struct gyre_trouble *trouble);

/* Finds the first and the last time of all bars. */
void gyre_clocks_find_span(struct gyre_timeline *timeline);

/* Says how good the clocks are: one sentence. */
void gyre_clocks_text(const struct gyre_timeline *timeline, char *out, size_t room);

#endif
