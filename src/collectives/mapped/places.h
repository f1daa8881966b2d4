/* The lines of a PUSH: where each rank's buffers are. */
#ifndef GYRE_COLLECTIVES_MAPPED_PLACES_H
#define GYRE_COLLECTIVES_MAPPED_PLACES_H

#include "collectives/mapped/mesh.h"

/* Finds where peers can map this rank's buffers, if peers read or write them. */
void gyre_places_find(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                      struct gyre_announcement *places);

/* Writes this rank's line of the operation's turn. */
void gyre_places_announce(struct gyre_mesh *mesh, struct gyre_operation *op,
                          const struct gyre_announcement *places);

/* Makes these places this rank's of the turn under way. */
void gyre_places_take(struct gyre_mesh *mesh, struct gyre_operation *op,
                      const struct gyre_announcement *places);

/* Reads the lines that have come; true if any had. When all are read, every rank knows which ranks
 * copy. */
bool gyre_places_resolve(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Takes this rank's part from the device to the host, because some rank's buffers are not a
 * device's. The line stays: it says already that nothing is staged. 0, or the status of the mesh's
 * fault. */
int gyre_places_leave_device(struct gyre_mesh *mesh, struct gyre_operation *op);

#endif
