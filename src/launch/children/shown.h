/* What of all ranks' lines stands on the screen, so that nothing is told twice.
 *
 * Failures of Gyre's own on its ranks ("gyre train: …", "gyre_init: …") are often the same on each
 * of them, or a wall of lines. Those that are equal but for the numbers of ranks and processes are
 * shown once, and of others the first few. */
#ifndef GYRE_LAUNCH_CHILDREN_SHOWN_H
#define GYRE_LAUNCH_CHILDREN_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_SHOWN_RECENT   16 /* lines that a reader still has before him */
#define GYRE_SHOWN_FAILURES 8  /* failures of the tool that are shown */

struct gyre_shown {
    uint64_t recent[GYRE_SHOWN_RECENT]; /* a ring of lines */
    uint64_t failure[GYRE_SHOWN_FAILURES];
    unsigned lines, failures; /* shown */
    unsigned left_out;        /* failures that were not, and are like none that was */
};

/* Shall this line, without a rank before it, be shown? Notes one that shall. */
bool gyre_shown_admit(struct gyre_shown *shown, const char *line, size_t length);

/* Does a line with this text, which may have a rank before it, still stand on the screen? */
bool gyre_shown_recently(const struct gyre_shown *shown, const char *text);

#endif
