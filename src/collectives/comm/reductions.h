/* Reductions that the caller made: gyre_op_scaled() and gyre_op_user(). */
#ifndef GYRE_COLLECTIVES_COMM_REDUCTIONS_H
#define GYRE_COLLECTIVES_COMM_REDUCTIONS_H

#include "collectives/comm/communicator.h"
#include "collectives/plan/request.h"

/* The reduction of that number; NULL: the communicator has none. */
struct gyre_reduction *gyre_reduction_find(struct gyre_comm *comm, enum gyre_op op);

/* A free place; NULL: all are taken. */
struct gyre_reduction *gyre_reduction_free_place(struct gyre_comm *comm);

/* Puts the caller's own reduction into the shape. */
int gyre_reduction_resolve(struct gyre_comm *comm, const char *call, struct gyre_shape *shape);

/* Multiplies INPUT where the shape's reduction says so, into OUTPUT or into a buffer that the
 * caller frees after the operation. */
int gyre_reduction_scale(struct gyre_comm *comm, struct gyre_request *request, void **buffer);

#endif
