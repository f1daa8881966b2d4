/* PUSH by a device. */
#ifndef GYRE_COLLECTIVES_MAPPED_PUSH_DEVICE_H
#define GYRE_COLLECTIVES_MAPPED_PUSH_DEVICE_H

#include "collectives/mapped/mesh.h"

/* Whether a device could run this PUSH here, if every rank's can. Binds the plan for devices. */
bool gyre_push_suits_device(const struct gyre_mesh *mesh, struct gyre_plan *plan,
                            const struct gyre_request *request);

/* Runs this rank's part of an operation that devices run. True if anything moved. */
bool gyre_push_on_device(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Puts an operation that devices may run on the caller's stream. Where the folds have no place
 * there the stream has words alone, and the operation posts its folds itself. */
int gyre_push_post_on(const struct gyre_mesh *mesh, struct gyre_operation *op, void *stream,
                      struct gyre_trouble *trouble);

#endif
