/* Collects calls of a group until its end, on a communicator whose group is open. */
#ifndef GYRE_COLLECTIVES_GROUP_COLLECT_H
#define GYRE_COLLECTIVES_GROUP_COLLECT_H

#include "collectives/comm/communicator.h"
#include "collectives/plan/request.h"

struct gyre_all_to_all_v_call;

/* Collects a call. The group takes over `buffer`; tables are copied. `work` NULL: the group's end
 * waits for the call. */
int gyre_group_add(struct gyre_comm *comm, const struct gyre_request *request, void *buffer,
                   struct gyre_work **work);
int gyre_group_add_all_to_all_v(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                                struct gyre_work **work);

/* Adds a started message, for which the group's end waits. */
int gyre_group_add_message(struct gyre_comm *comm, struct gyre_message *message);

#endif
