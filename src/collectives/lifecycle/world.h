/* The communicator of a whole job. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_WORLD_H
#define GYRE_COLLECTIVES_LIFECYCLE_WORLD_H

#include "collectives/comm/communicator.h"

/* Makes what needs no peer. On failure nothing is held. */
int gyre_world_create(const struct gyre_domain_options *options, struct gyre_comm **world,
                      struct gyre_trouble *trouble);

/* Joins the job, which may block. `made_by` is the call, alike on all ranks. The world is to be
 * freed where this fails, too. */
int gyre_world_meet(struct gyre_comm *world, const char *made_by, struct gyre_trouble *trouble);

/* The first failure so far; 0: none. */
int gyre_world_status(const struct gyre_comm *world, struct gyre_trouble *trouble);

/* Ends a world, after its work or at once. Both return its first failure, up to the last
 * goodbye. */
int gyre_world_end(struct gyre_comm *world, struct gyre_trouble *trouble);
int gyre_world_free(struct gyre_comm *world, struct gyre_trouble *trouble);

#endif
