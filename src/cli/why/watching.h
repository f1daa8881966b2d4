/* The ranks of a living job, once a second. */
#ifndef GYRE_CLI_WHY_WATCHING_H
#define GYRE_CLI_WHY_WATCHING_H

#include "cli/why/trail.h"

/* Prints so many tables, the first after a second; 0: until no process of the job is left. The
 * trails are read again for each. */
void gyre_top_run(struct gyre_trails *trails, const char *job, uint64_t times);

#endif
