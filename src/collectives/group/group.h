/* Groups of calls that are started together. */
#ifndef GYRE_COLLECTIVES_GROUP_GROUP_H
#define GYRE_COLLECTIVES_GROUP_GROUP_H

#include "collectives/comm/communicator.h"

/* As gyre_group_start() and gyre_group_end(), on a communicator that is well. */
int gyre_group_open(struct gyre_comm *comm);
int gyre_group_close(struct gyre_comm *comm);

/* Checks a communicator that ends: GYRE_INVALID if it has an open group, of which peers are
 * told. */
int gyre_group_left_open(struct gyre_comm *comm);

#endif
