/* A timeline as JSON for Perfetto (ui.perfetto.dev) and chrome://tracing. */
#ifndef GYRE_CLI_TRACE_CHROME_H
#define GYRE_CLI_TRACE_CHROME_H

#include "cli/trace/reading/timeline.h"

#include <stdio.h>

void gyre_chrome_put(FILE *out, const struct gyre_timeline *timeline);

#endif
