/* From a communicator that has lost ranks to a smaller one. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_SHRINK_H
#define GYRE_COLLECTIVES_LIFECYCLE_SHRINK_H

#include "collectives/comm/communicator.h"

/* As gyre_shrink(), on the communicator of a whole job. `leave`: this rank goes, and *smaller is
 * not written. */
int gyre_world_shrink(struct gyre_comm *world, bool leave, struct gyre_comm **smaller,
                      struct gyre_trouble *trouble);

/* As gyre_failure(), on any communicator. */
int gyre_comm_losses(struct gyre_comm *comm, struct gyre_lost_rank *losses, int room, int *count);

#endif
