/* Threads that act for several ranks of a process at once, where each waits for the others: when
 * they join, and when they end. All are made before the first rank joins, because a rank that could
 * not leave with the others would keep them waiting. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_TEAM_H
#define GYRE_COLLECTIVES_LIFECYCLE_TEAM_H

#include "collectives/comm/communicator.h"

struct gyre_team;

/* A rank, and how its part went. */
struct gyre_team_task {
    struct gyre_comm *comm;
    struct gyre_trouble trouble;
    int status;
};

/* Makes a team for `count` tasks: a thread for each but one, which the caller of
 * gyre_team_meet() does. 0; -ENOMEM, -EAGAIN. */
int gyre_team_make(struct gyre_team **team, int count);

/* Joins all ranks at once, or ends them, and returns when all have joined or ended: `count` tasks.
 */
void gyre_team_meet(struct gyre_team *team, struct gyre_team_task *task);
void gyre_team_part(struct gyre_team *team, struct gyre_team_task *task);

/* Ends the threads. NULL allowed. */
void gyre_team_end(struct gyre_team *team);

#endif
