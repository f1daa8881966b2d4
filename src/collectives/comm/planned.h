/* A communicator whose operations all go by one algorithm, for tools that time a schedule. */
#ifndef GYRE_COLLECTIVES_COMM_PLANNED_H
#define GYRE_COLLECTIVES_COMM_PLANNED_H

#include "collectives/comm/communicator.h"

/* Lets every operation that has no plan yet run by this algorithm, round by round over messages, in
 * one slice and one lane. Every rank calls it alike, before the communicator's first operation.
 * All calls: not the owner. */
void gyre_comm_plan_by(struct gyre_comm *comm, const struct gyre_algorithm *algorithm);

/* Runs an operation of this shape to its end; its arguments have been checked. */
int gyre_comm_run_planned(struct gyre_comm *comm, const struct gyre_shape *shape, void *input,
                          void *output);

#endif
