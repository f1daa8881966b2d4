/* Records as lines of JSON. */
#ifndef GYRE_CLI_WHY_LINES_H
#define GYRE_CLI_WHY_LINES_H

#include "cli/why/trail.h"

/* One line a rank, then one for each of its operations, the oldest first. */
void gyre_dump_lines(FILE *out, const struct gyre_trails *trails);

#endif
