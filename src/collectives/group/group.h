/* Groups of calls that are started together. */
#ifndef GYRE_COLLECTIVES_GROUP_GROUP_H
#define GYRE_COLLECTIVES_GROUP_GROUP_H

#include "collectives/comm/communicator.h"

/* As gyre_group_start() and gyre_group_end(), on a communicator that is well. */
int gyre_group_open(struct gyre_comm *comm);
int gyre_group_close(struct gyre_comm *comm);

/* A communicator ends: GYRE_INVALID if it has an open group, which peers are told of. */
int gyre_group_left_open(struct gyre_comm *comm);

#endif
