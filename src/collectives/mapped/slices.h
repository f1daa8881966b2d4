/* The places of the bytes of a PUSH's slice: in a buffer that is mapped here, or in a stage or an
 * inbox. And how far all ranks are with the slices. */
#ifndef GYRE_COLLECTIVES_MAPPED_SLICES_H
#define GYRE_COLLECTIVES_MAPPED_SLICES_H

#include "collectives/mapped/mesh.h"

/* How far a rank is in the current turn, itself included. */
static inline const struct gyre_slice_progress *gyre_slices_progress(const struct gyre_mesh *mesh,
                                                                     uint32_t rank)
{
    return &mesh->board[rank]->progress[mesh->at % GYRE_BOARD_SLOTS];
}

/* Tells peers how many slices this rank has folded into all outputs. */
static inline void gyre_slices_tell_pushed(struct gyre_mesh *mesh, uint64_t slices)
{
    mesh->current.pushed = slices;
    atomic_store_explicit(&mesh->mine->progress[mesh->at % GYRE_BOARD_SLOTS].pushed, slices,
                          memory_order_release);
}

/* Bytes from the beginning of a block to the slice's part of it. */
static inline uint64_t gyre_slices_base(const struct gyre_plan *plan, uint64_t slice)
{
    return slice * plan->slice_count * plan->element;
}

/* Bytes from one block of the slice to the next in a stage or an inbox. */
static inline uint64_t gyre_slices_pitch(const struct gyre_plan *plan, uint64_t slice)
{
    return gyre_plan_slice_count(plan, slice) * plan->element;
}

/* The place where `rank` shows a slice of an INPUT that peers cannot map. */
static inline const uint8_t *gyre_slices_stage(const struct gyre_mesh *mesh,
                                               const struct gyre_plan *plan, uint32_t rank,
                                               uint64_t slice)
{
    uint64_t slot = slice % GYRE_STAGE_SLOTS;
    return plan->push.stage_in_inbox ? mesh->inbox[rank]->stage[slot]
                                     : mesh->board[rank]->stage[slot];
}

/* The address from which bytes of a rank's INPUT are read: in the buffer, or in its stage. */
static inline const uint8_t *gyre_slices_source(const struct gyre_mesh *mesh,
                                                const struct gyre_plan *plan,
                                                struct gyre_block_ref ref, uint64_t slice)
{
    bool scatters = gyre_verb_scatters(plan->shape.verb);
    const uint8_t *input = mesh->current.input[ref.rank];
    if (input)
        return input + gyre_slices_base(plan, slice) +
               (scatters ? gyre_plan_block_at(plan, ref.block) : 0) + ref.offset;
    return gyre_slices_stage(mesh, plan, ref.rank, slice) +
           ref.block * gyre_slices_pitch(plan, slice) + ref.offset;
}

/* The address to which bytes of a rank's OUTPUT are written: in the buffer, or in its inbox. */
static inline uint8_t *gyre_slices_destination(const struct gyre_mesh *mesh,
                                               const struct gyre_plan *plan,
                                               struct gyre_block_ref ref, uint64_t slice)
{
    uint8_t *output = mesh->current.output[ref.rank];
    if (output)
        return output + gyre_slices_base(plan, slice) + gyre_plan_block_at(plan, ref.block) +
               ref.offset;
    return mesh->inbox[ref.rank]->stage[slice % GYRE_STAGE_SLOTS] +
           ref.block * gyre_slices_pitch(plan, slice) + ref.offset;
}

/* Slices that every rank has pushed; looks at peers only as far as `enough` asks. */
uint64_t gyre_slices_pushed_by_all(struct gyre_mesh *mesh, uint64_t enough);

/* Whether all ranks have pushed every slice of the turn, and this rank has drained them. */
bool gyre_slices_over(struct gyre_mesh *mesh, const struct gyre_plan *plan);

#endif
