/* Parts of a communicator as communicators of their own. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_SPLIT_H
#define GYRE_COLLECTIVES_LIFECYCLE_SPLIT_H

#include "collectives/comm/communicator.h"

/* As gyre_split(), on a communicator without an open group. */
int gyre_comm_split(struct gyre_comm *comm, int color, int key, struct gyre_comm **part);

/* Ends a part, with all its ranks, and frees it. */
int gyre_comm_end(struct gyre_comm *part);

#endif
