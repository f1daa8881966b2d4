/* EXCHANGE; also as the shortest way of a blocking call on an idle engine: no operation, no
 * queue. */
#ifndef GYRE_COLLECTIVES_MAPPED_EXCHANGE_H
#define GYRE_COLLECTIVES_MAPPED_EXCHANGE_H

#include "collectives/mapped/turn.h"

/* Where a rank shows its INPUT of a turn to devices, and to all where the line has no room. */
static inline uint8_t *gyre_exchange_payload(const struct gyre_mesh *mesh, uint32_t rank,
                                             uint64_t turn)
{
    return mesh->inbox[rank]->payload[turn % GYRE_BOARD_SLOTS];
}

/* Bytes from the beginning of a rank's INPUT, or of its copy, to what a move reads. */
static inline uint64_t gyre_exchange_at(const struct gyre_plan *plan,
                                        const struct gyre_block_ref *ref)
{
    return ref->block * plan->shape.count * plan->element + ref->offset;
}

/* Writes this rank's line of the turn that has begun. */
void gyre_exchange_publish(struct gyre_mesh *mesh, const struct gyre_plan *plan, const void *input,
                           uint64_t fingerprint);

/* Begins a turn. GYRE_AGAIN: its line is not free. */
int gyre_exchange_begin(struct gyre_mesh *mesh, const struct gyre_plan *plan, const void *input,
                        struct gyre_op_name name);

/* Ends the turn: folds what peers have published. GYRE_AGAIN: a peer's line has not come after
 * `spins` looks. Negative: the mesh's fault. */
int gyre_exchange_finish(struct gyre_mesh *mesh, const struct gyre_plan *plan, const void *input,
                         void *output, struct gyre_op_name name, uint32_t spins);

/* Whether begin (or, once begun, finish) would move now. An idle waiter asks before it sleeps. */
bool gyre_exchange_ready(struct gyre_mesh *mesh, const struct gyre_plan *plan,
                         struct gyre_op_name name, bool begun);

#endif
