/* EXCHANGE in the order of a caller's stream, which runs the turn alone. */
#ifndef GYRE_COLLECTIVES_MAPPED_DEVICE_EXCHANGE_STREAM_H
#define GYRE_COLLECTIVES_MAPPED_DEVICE_EXCHANGE_STREAM_H

#include "collectives/mapped/mesh.h"

/* Whether a stream can run this operation alone, as that turn. */
bool gyre_exchange_suits_stream(struct gyre_mesh *mesh, const struct gyre_plan *plan,
                                const struct gyre_request *request, uint64_t turn);

/* Puts an operation that suits its stream there; `turn` is what its turn will be. Where the stream
 * takes nothing of the operation the host runs it. */
int gyre_exchange_post_on(struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t turn,
                          void *stream, struct gyre_trouble *trouble);

/* Writes the line of an operation that is alone, ahead of its stream. */
void gyre_exchange_announce(struct gyre_mesh *mesh, const struct gyre_operation *op);

/* Reads the lines of the ranks whose INPUT the stream folds, in the turn under way. True if
 * anything moved. */
bool gyre_exchange_resolve(struct gyre_mesh *mesh, struct gyre_operation *op);

/* The first rank, by its number in the domain, for whose INPUT the stream waits; for none:
 * GYRE_RECORD_NOBODY. */
uint32_t gyre_exchange_waits_on(const struct gyre_mesh *mesh, const struct gyre_operation *op);

#endif
