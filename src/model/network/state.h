/* The optimiser's state of all ranks as whole tensors on rank 0, which alone reads and writes
 * checkpoints.
 *
 * A rank holds a state for its pieces. One parameter after the other passes through each rank's
 * `room`, so only rank 0 ever holds all of a state:
 *
 *     rank 0   [ 0.weight │ 0.bias │ 2.weight │ … ]      whole[s], all of state s
 *     rank r   [ room ]                                  as large as the largest parameter
 */
#ifndef GYRE_MODEL_NETWORK_STATE_H
#define GYRE_MODEL_NETWORK_STATE_H

#include "model/network/replica.h"

/* Memory for all states of the replica's optimiser, made or not, as zeros; to be freed, also after
 * -ENOMEM. */
int gyre_replica_allocate_states(const struct gyre_replica *replica,
                                 struct gyre_whole_states *states);

/* Brings all states to rank 0; what replica->resumed holds, where the optimiser is not made yet.
 * Collective. A failure without a story in `trouble` is the communicator's, as below. */
int gyre_replica_collect_states(const struct gyre_replica *replica,
                                struct gyre_whole_states *states, struct gyre_trouble *trouble);

/* Gives every rank its pieces of rank 0's states, for the optimiser that it has. Collective. */
int gyre_replica_spread_states(struct gyre_replica *replica, const struct gyre_whole_states *states,
                               struct gyre_trouble *trouble);

/* Gives all ranks the optimiser's state and the loss scale of that rank. The replica is not
 * sharded, and each rank has made its optimiser. Collective. */
int gyre_replica_follow(struct gyre_replica *replica, int rank, struct gyre_trouble *trouble);

#endif
