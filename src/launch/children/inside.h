/* Calls from the children's loop (children.c) into the rules of their end (outcome.c) and of
 * another start (restart.c). */
#ifndef GYRE_LAUNCH_CHILDREN_INSIDE_H
#define GYRE_LAUNCH_CHILDREN_INSIDE_H

#include "launch/children/children.h"

/* gyre_children_enter() changes the phase; gyre_children_signal() sends a signal to all children.
 * gyre_children_end() sends a signal and gives the children time to end. gyre_children_kill() kills
 * all children. */
void gyre_children_enter(struct gyre_children *all, enum gyre_children_phase phase, int limit_ms);
void gyre_children_signal(struct gyre_children *all, int number);
void gyre_children_end(struct gyre_children *all, int number);
void gyre_children_kill(struct gyre_children *all);

/* Tells the first failure to all other launchers but `teller`. Later calls do nothing. */
void gyre_children_announce(struct gyre_children *all, const struct gyre_launcher_line *teller);

/* Makes a failure the first failure unless a first failure is known and beyond doubt. `teller` is
 * the launcher that told the failure; NULL: the failure was seen here. */
void gyre_children_decide(struct gyre_children *all, int code, const char *text,
                          const struct gyre_launcher_line *teller);
/* Decides on the status of a child that was reaped. */
void gyre_children_judge(struct gyre_children *all, int index);
/* Decides on the report of a launcher behind ssh. */
void gyre_children_hear_report(struct gyre_children *all, int index);
/* Writes the report, one line, to standard error. */
void gyre_children_report(struct gyre_children *all);

/* Asks whether the job is started again. Called when all children have ended. */
void gyre_restart_ask(struct gyre_children *all);
/* Whether the answer is still to come from another launcher. */
bool gyre_restart_is_open(struct gyre_children *all);
/* Takes a launcher's word about it. */
void gyre_restart_hear(struct gyre_children *all, struct gyre_launcher_line *teller,
                       enum gyre_word word);
/* Takes back a YES, here and, as far as they listen, on the other launchers. */
void gyre_restart_revoke(struct gyre_children *all);

#endif
