/* The children's end (children_outcome.c), as their loop (children.c) calls it. */
#ifndef GYRE_LAUNCH_CHILDREN_INSIDE_H
#define GYRE_LAUNCH_CHILDREN_INSIDE_H

#include "launch/children.h"

/* Changes of phase. end: asks all to end by this signal and gives them time. kill: kills all. */
void gyre_children_enter(struct gyre_children *all, enum gyre_children_phase phase, int limit_ms);
void gyre_children_signal(struct gyre_children *all, int number);
void gyre_children_end(struct gyre_children *all, int number);
void gyre_children_kill(struct gyre_children *all);

/* Tells the first failure to all other launchers but `teller`, once. */
void gyre_children_announce(struct gyre_children *all, const struct gyre_launcher_line *teller);

/* Makes this the first failure unless one is beyond doubt. `teller` is the launcher that told the
 * failure, NULL: it was seen here. */
void gyre_children_decide(struct gyre_children *all, int code, const char *text,
                          const struct gyre_launcher_line *teller);
void gyre_children_judge(struct gyre_children *all, int index); /* of a child that was reaped */
void gyre_children_hear_report(struct gyre_children *all, int index); /* of a launcher behind ssh */
void gyre_children_report(struct gyre_children *all); /* one line to standard error */

#endif
