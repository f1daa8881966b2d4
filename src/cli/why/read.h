/* The records of one job. */
#ifndef GYRE_CLI_WHY_READ_H
#define GYRE_CLI_WHY_READ_H

#include "cli/why/trail.h"

/* Reads *.gyrerec of a folder, or the processes of the job whose name, id (its beginning) or one of
 * whose process ids is `where`. GYRE_INVALID with its trouble: nothing was found. */
int gyre_trails_read(struct gyre_trails *trails, const char *where, struct gyre_trouble *trouble);
void gyre_trails_free(struct gyre_trails *trails);

#endif
