/* The ranks of one process, as local.c and collectives/group/group.c see them. */
#ifndef GYRE_COLLECTIVES_COMM_LOCAL_INSIDE_H
#define GYRE_COLLECTIVES_COMM_LOCAL_INSIDE_H

#include "collectives/comm/comm.h"

#include <stdlib.h>

#define GYRE_LOCAL_MAX 64

struct gyre_local {
    pthread_mutex_t lock;
    int count, left;          /* ranks; those that were finalized, which stay until all are */
    struct gyre_comm *groups; /* with a group that is open, or that waits for other ranks' */
    struct gyre_comm *rank[]; /* their worlds */
};

static inline struct gyre_local *gyre_local_create(int count)
{
    struct gyre_local *local =
        calloc(1, sizeof(*local) + (size_t)count * sizeof(struct gyre_comm *));
    if (local) {
        local->count = count;
        pthread_mutex_init(&local->lock, NULL);
    }
    return local;
}

static inline void gyre_local_free(struct gyre_local *local)
{
    pthread_mutex_destroy(&local->lock);
    free(local);
}

#endif
