/* The page's inside: page.c lays out the file, data.c writes what the page plays. */
#ifndef GYRE_CLI_SHOW_PAGE_INSIDE_H
#define GYRE_CLI_SHOW_PAGE_INSIDE_H

#include "cli/show/page/page.h"

/* Proves and plays one schedule, and writes both as one JSON object. As gyre_page_write(). */
int gyre_page_put_schedule(FILE *out, const struct gyre_page_schedule *schedule,
                           struct gyre_trouble *trouble);

#endif
