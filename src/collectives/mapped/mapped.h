/* Operations on memory that all ranks share. */
#ifndef GYRE_COLLECTIVES_MAPPED_MAPPED_H
#define GYRE_COLLECTIVES_MAPPED_MAPPED_H

#include "collectives/mapped/mesh.h"

/* Begins the turn of the next operation. Where the operation is not ahead no turn is under way, and
 * this one is then. False: the line is not free, or the INPUT has not come. */
bool gyre_mapped_begin(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Makes the turn of an operation that is ahead, and has begun, the one under way, in which the
 * operation is resolved. */
void gyre_mapped_take(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Makes the turn that gyre_exchange_begin() began the turn of this operation. */
void gyre_mapped_adopt(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Runs the turn under way, if there is one; true if anything moved. *ended becomes the turn's
 * operation when the turn is over. */
bool gyre_mapped_run(struct gyre_mesh *mesh, struct gyre_operation **ended);

/* Ends the turn of an operation that is ahead and was resolved; false: it is not over. That of a
 * graph's is over then. */
bool gyre_mapped_passes(struct gyre_mesh *mesh, struct gyre_operation *op);

/* The first rank, by its number in the domain, for which an operation that has begun waits; for
 * none: GYRE_RECORD_NOBODY. */
uint32_t gyre_mapped_waits_on(const struct gyre_mesh *mesh, const struct gyre_operation *op);

/* Takes the OUTPUT of an operation in flight away from writers that are not known to be dead: the
 * job has failed. */
void gyre_mapped_drop(struct gyre_mesh *mesh, const struct gyre_operation *op);

#endif
