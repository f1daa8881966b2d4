/* Traces, read from the files of a folder. */
#ifndef GYRE_CLI_TRACE_READING_READ_H
#define GYRE_CLI_TRACE_READING_READ_H

#include "cli/trace/reading/timeline.h"

/* Reads the traces of the job in `folder` that was started last. Bars have ticks for times. */
int gyre_timeline_read(struct gyre_timeline *timeline, const char *folder,
                       struct gyre_trouble *trouble);
void gyre_timeline_free(struct gyre_timeline *timeline);

#endif
