/* Between the crew's loop (children.c) and the way it ends (children_outcome.c). Private to the room. */
#ifndef GYRE_LAUNCH_CHILDREN_INSIDE_H
#define GYRE_LAUNCH_CHILDREN_INSIDE_H

#include "launch/children.h"

/* Phases. end: asks all to end by this signal and gives them time; kill: does not ask. */
void gyre_crew_enter(struct gyre_crew *crew, enum gyre_crew_phase phase, int limit_ms);
void gyre_crew_signal(struct gyre_crew *crew, int number);
void gyre_crew_end(struct gyre_crew *crew, int number);
void gyre_crew_kill(struct gyre_crew *crew);

/* Tells the other launchers, but the one that told us, once there is something to tell. */
void gyre_crew_announce(struct gyre_crew *crew, const struct gyre_ear *teller);

/* Makes this the first failure unless there is one beyond doubt. `teller` is the launcher that told
 * us of it, NULL: seen here. */
void gyre_crew_decide(struct gyre_crew *crew, int code, const char *text,
                      const struct gyre_ear *teller);
void gyre_crew_judge(struct gyre_crew *crew, int index);       /* of a child that was reaped */
void gyre_crew_hear_report(struct gyre_crew *crew, int index); /* of a launcher behind ssh */
void gyre_crew_report(struct gyre_crew *crew);                 /* one line to standard error */

#endif
