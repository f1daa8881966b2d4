/* Several ranks in one process. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_PROCESS_RANKS_H
#define GYRE_COLLECTIVES_LIFECYCLE_PROCESS_RANKS_H

#include "collectives/comm/communicator.h"

#define GYRE_PROCESS_RANKS_MAX 64

struct gyre_process_ranks {
    pthread_mutex_t lock;
    int count, left; /* ranks; finalized ranks, which stay until all are */
    /* Communicators with a group that is open, or that waits for other ranks' groups. */
    struct gyre_comm *groups;
    struct gyre_team *team;   /* joins and ends them */
    struct gyre_comm *rank[]; /* their worlds */
};

/* Makes the worlds of `count` ranks; devices and options are those of gyre_init_in_process(). On
 * failure nothing is held. */
int gyre_process_ranks_init(struct gyre_comm **comms, int count, const int *devices,
                            const struct gyre_options *options, struct gyre_trouble *trouble);

/* Ends a rank's world. The last rank of the process to leave ends the worlds of all. */
int gyre_process_ranks_leave(struct gyre_comm *world, struct gyre_trouble *trouble);

#endif
