/* Operations on memory that all ranks share. */
#ifndef GYRE_COLLECTIVES_MAPPED_MAPPED_H
#define GYRE_COLLECTIVES_MAPPED_MAPPED_H

#include "collectives/mapped/mesh.h"

/* Begins the turn of this operation, or of none where `op` is NULL; no turn is under way. False:
 * the line is not free, or the INPUT has not come. */
bool gyre_mapped_begin(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Makes the turn that gyre_exchange_begin() began the turn of this operation. */
void gyre_mapped_adopt(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Runs the turn under way, if there is one; true if anything moved. *ended becomes the turn's
 * operation when the turn is over. */
bool gyre_mapped_run(struct gyre_mesh *mesh, struct gyre_operation **ended);

/* Takes the regions of the current turn away from writers that are not known to be dead: the job
 * has failed. */
void gyre_mapped_drop(struct gyre_mesh *mesh);

#endif
