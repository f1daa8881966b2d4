/* PUSH by a device. */
#ifndef GYRE_COLLECTIVES_MAPPED_DEVICE_PUSH_H
#define GYRE_COLLECTIVES_MAPPED_DEVICE_PUSH_H

#include "collectives/mapped/mesh.h"

/* Whether a device could run this PUSH here, if every rank's can. Binds the plan for devices. */
bool gyre_push_suits_device(const struct gyre_mesh *mesh, struct gyre_plan *plan,
                            const struct gyre_request *request);

/* Why this operation can be no part of a graph; NULL: it can be. May make a window, and block. */
const char *gyre_push_bars_graph(struct gyre_mesh *mesh, struct gyre_plan *plan,
                                 const struct gyre_request *request);

/* Runs this rank's part of an operation that devices run. True if anything moved. */
bool gyre_push_on_device(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Whether all ranks have written all outputs. */
bool gyre_push_is_over(const struct gyre_mesh *mesh, const struct gyre_operation *op);

#endif
