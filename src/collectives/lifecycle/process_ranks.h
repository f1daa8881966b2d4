/* Several ranks in one process. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_PROCESS_RANKS_H
#define GYRE_COLLECTIVES_LIFECYCLE_PROCESS_RANKS_H

#include "collectives/comm/communicator.h"

#define GYRE_PROCESS_RANKS_MAX 64

struct gyre_process_ranks {
    pthread_mutex_t lock;
    int count, left;          /* ranks; those that were finalized, which stay until all are */
    struct gyre_comm *groups; /* with a group that is open, or that waits for other ranks' */
    struct gyre_comm *rank[]; /* their worlds */
};

/* Makes the worlds of `count` ranks; devices and options as gyre_init_in_process() has them. On
 * failure nothing is held. */
int gyre_process_ranks_init(struct gyre_comm **comms, int count, const int *devices,
                            const struct gyre_options *options, struct gyre_trouble *trouble);

/* One rank ends its world. All worlds of the process are ended by the last of them to leave. */
int gyre_process_ranks_leave(struct gyre_comm *world, struct gyre_trouble *trouble);

#endif
