/* PUSH by the processor. */
#ifndef GYRE_COLLECTIVES_MAPPED_PUSH_H
#define GYRE_COLLECTIVES_MAPPED_PUSH_H

#include "collectives/mapped/mesh.h"

/* Runs this rank's part of the operation as far as it gets. True if anything moved. */
bool gyre_push_run(struct gyre_mesh *mesh, struct gyre_operation *op);

#endif
