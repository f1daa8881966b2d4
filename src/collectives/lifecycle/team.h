/* Threads that act for several ranks of a process at once, where each waits for the others: when
 * they join, and when they end. All are made before the first rank joins, because a rank that could
 * not leave with the others would keep them waiting. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_TEAM_H
#define GYRE_COLLECTIVES_LIFECYCLE_TEAM_H

struct gyre_team;

/* Makes a team for `count` tasks: a thread for each but one, which the caller of gyre_team_run()
 * does. 0; -ENOMEM, -EAGAIN. */
int gyre_team_make(struct gyre_team **team, int count);

/* Calls work(context, i) for every i below `count`, all at once, and returns when all have
 * returned. */
void gyre_team_run(struct gyre_team *team, void (*work)(void *context, int i), void *context);

/* Ends the threads. NULL allowed. */
void gyre_team_end(struct gyre_team *team);

#endif
