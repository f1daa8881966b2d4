/* The end of a replica's step: loss scale, optimiser, values to all ranks. */
#ifndef GYRE_MODEL_NETWORK_UPDATE_H
#define GYRE_MODEL_NETWORK_UPDATE_H

#include "model/network/replica.h"

/* Lists this rank's pieces and makes the optimiser for them, with the state of `resumed`, which is
 * collective. A failure without a story in `trouble` is the communicator's. */
int gyre_replica_make_optimizer(struct gyre_replica *replica, struct gyre_trouble *trouble);

/* Lists the pieces, where their values and gradients lie now, for the optimiser that is made. */
void gyre_replica_list_stretches(struct gyre_replica *replica);

/* Ends a step behind gyre_ddp_wait(). The optimiser, made in the first, steps over the pieces with
 * gradients without the loss scale, and all ranks get all values; or, where a gradient is not
 * finite or a rank asked for it, the step is left out. Then the loss scale follows. A failure
 * without a story in `trouble` is the engine's. */
int gyre_replica_update(struct gyre_replica *replica, double rate, struct gyre_trouble *trouble);

#endif
