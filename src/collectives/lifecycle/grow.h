/* Processes join a communicator that lives. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_GROW_H
#define GYRE_COLLECTIVES_LIFECYCLE_GROW_H

#include "collectives/comm/communicator.h"

/* As gyre_grow(), on the communicator of a whole job. */
int gyre_world_grow(struct gyre_comm *world, uint32_t most, struct gyre_comm **larger,
                    struct gyre_trouble *trouble);

/* Whether gyre_init() with these options is to do what gyre_join() does: the launcher has started
 * this process in a job that runs. */
int gyre_world_joins(const struct gyre_options *options, bool *joins, struct gyre_trouble *trouble);

/* As gyre_join(). */
int gyre_world_join(const struct gyre_options *options, struct gyre_comm **world,
                    struct gyre_trouble *trouble);

#endif
