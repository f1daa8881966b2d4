/* The meeting of launchers, for nodes that are started by one command each. */
#include "launch/meet.h"

#include <stdlib.h>

int gyre_meeting_hold(struct gyre_meeting *meeting, int node, struct gyre_launch_job *job,
                      struct gyre_trouble *trouble)
{
    (void)meeting;
    (void)node;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "%d nodes are one command each: not possible yet, use --hosts",
                            job->layout.nodes);
}

void gyre_meeting_move(struct gyre_meeting *meeting, struct gyre_crew *crew)
{
    for (int i = 0; i < meeting->ears; i++)
        crew->ear[i] = meeting->ear[i];
    meeting->ears = 0;
}

void gyre_meeting_end(struct gyre_meeting *meeting)
{
    for (int i = 0; i < meeting->ears; i++)
        gyre_ear_close(&meeting->ear[i]);
    free(meeting->ear);
    *meeting = (struct gyre_meeting){0};
}
