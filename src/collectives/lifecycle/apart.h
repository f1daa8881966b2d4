/* Parts of a communicator as groups of their own. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_APART_H
#define GYRE_COLLECTIVES_LIFECYCLE_APART_H

#include "collectives/comm/communicator.h"

/* As gyre_split_apart(), on a communicator without an open group, whose process has no other rank.
 * *part is the communicator of a whole job. */
int gyre_comm_split_apart(struct gyre_comm *comm, int color, int key, struct gyre_comm **part,
                          struct gyre_trouble *trouble);

#endif
