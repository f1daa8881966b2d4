/* The launchers of several nodes find each other before they start anything. */
#ifndef GYRE_LAUNCH_MEET_H
#define GYRE_LAUNCH_MEET_H

#include "launch/start.h"

struct gyre_meeting {
    int launcher_lines; /* node 0: one for each other node; other nodes: one, to node 0 */
    struct gyre_launcher_line *launcher_line; /* owned until moved */
};

/* Blocks until the launchers of all nodes of job->seating have met at job->master_addr and
 * master_port, at most GYRE_JOIN_TIMEOUT (default 5 min). Fills in the sizes of the other nodes,
 * the job's id from node 0, and how often the job was restarted. Otherwise returns a negative
 * status with its trouble. */
int gyre_meeting_hold(struct gyre_meeting *meeting, int node, struct gyre_launch_job *job,
                      struct gyre_trouble *trouble);

/* Moves the launchers' lines to a set of children created for as many lines. A meeting that was not
 * held has no lines. */
void gyre_meeting_move(struct gyre_meeting *meeting, struct gyre_children *all);
void gyre_meeting_end(struct gyre_meeting *meeting);

#endif
