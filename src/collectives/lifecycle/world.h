/* The communicator of a whole job. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_WORLD_H
#define GYRE_COLLECTIVES_LIFECYCLE_WORLD_H

#include "collectives/comm/communicator.h"

/* Makes the parts of a world that need no peer. On failure nothing is held. */
int gyre_world_create(const struct gyre_domain_options *options, struct gyre_comm **world,
                      struct gyre_trouble *trouble);

/* Joins the job, which may block. `made_by` is the name of the call, the same on all ranks. The
 * caller frees the world where this fails, too. */
int gyre_world_meet(struct gyre_comm *world, const char *made_by, struct gyre_trouble *trouble);

/* Writes the settings that must be equal on all ranks, with the name of the call. */
#define GYRE_WORLD_CONFIGURATION (GYRE_PREFERENCE_TEXT + 120)
void gyre_world_configuration(const struct gyre_comm *world, const char *made_by,
                              char text[GYRE_WORLD_CONFIGURATION]);

struct gyre_request;

/* Runs an operation of all ranks. `trouble` gets why it fails: the world's failure, or what this
 * rank lacked to begin. */
int gyre_world_run(struct gyre_comm *world, const struct gyre_request *request,
                   struct gyre_trouble *trouble);

/* The first failure so far; 0: none. */
int gyre_world_status(const struct gyre_comm *world, struct gyre_trouble *trouble);

/* End a world: end() after its work, free() at once. Both return its first failure, up to the last
 * goodbye. */
int gyre_world_end(struct gyre_comm *world, struct gyre_trouble *trouble);
int gyre_world_free(struct gyre_comm *world, struct gyre_trouble *trouble);

#endif
