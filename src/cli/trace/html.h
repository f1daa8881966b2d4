/* A timeline as a page for a browser: one file, which needs no network. */
#ifndef GYRE_CLI_TRACE_HTML_H
#define GYRE_CLI_TRACE_HTML_H

#include "cli/trace/reading/timeline.h"

#include <stdio.h>

#define GYRE_HTML_BARS_MOST 100000u /* of more, the newest are shown, and the page says so */

void gyre_html_put(FILE *out, const struct gyre_timeline *timeline);

#endif
