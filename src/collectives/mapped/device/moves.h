/* The moves of a PUSH as folds of a device: launched now, or put on a stream before their addresses
 * are known. */
#ifndef GYRE_COLLECTIVES_MAPPED_DEVICE_MOVES_H
#define GYRE_COLLECTIVES_MAPPED_DEVICE_MOVES_H

#include "collectives/mapped/mesh.h"

/* Posts a move of the turn under way to the fold queue. Returns the last ticket. */
uint64_t gyre_moves_launch(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                           const struct gyre_move *move);

/* Puts the folds of all moves on the stream, by the operation's table, which has nothing to do
 * yet. */
int gyre_moves_post_on(const struct gyre_mesh *mesh, const struct gyre_operation *op, void *stream,
                       struct gyre_trouble *trouble);

/* Fills the operation's table with the addresses of the turn under way. */
void gyre_moves_fill(const struct gyre_mesh *mesh, const struct gyre_operation *op);

/* Leaves the table nothing to do. */
void gyre_moves_empty(const struct gyre_mesh *mesh, const struct gyre_operation *op);

/* Puts a copy on the stream, by a kernel, so that the copy stands on no copy engine. */
int gyre_moves_copy_on(const struct gyre_mesh *mesh, void *stream, void *to, const void *from,
                       uint64_t bytes, struct gyre_trouble *trouble);

/* Puts the moves of an EXCHANGE on the stream, whose INPUTs are in the payloads of its turn. */
int gyre_moves_exchange_on(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                           void *stream, struct gyre_trouble *trouble);

#endif
