/* How far all ranks are with the slices. The counts of peers are kept: a count is read again only
 * while a larger one is needed. Tested by tests/sim/mesh.c. */
#include "collectives/mapped/slices.h"

#include "collectives/mapped/turn.h"

uint64_t gyre_slices_pushed_by_all(struct gyre_mesh *mesh, uint64_t enough)
{
    struct gyre_turn *turn = &mesh->current;
    if (turn->seen_pushed >= enough)
        return turn->seen_pushed;
    uint64_t least = turn->pushed;
    for (uint32_t rank = 0; rank < mesh->n && least > turn->seen_pushed; rank++) {
        if (rank == mesh->rank)
            continue;
        uint64_t pushed =
            rank < turn->resolved || gyre_line_state(mesh, rank, turn->op->fingerprint) == 0
                ? atomic_load_explicit(&gyre_slices_progress(mesh, rank)->pushed,
                                       memory_order_acquire)
                : 0;
        least = pushed < least ? pushed : least;
    }
    turn->seen_pushed = least;
    return least;
}

bool gyre_slices_over(struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    const struct gyre_turn *turn = &mesh->current;
    return turn->pushed == plan->slices && turn->drained == plan->slices &&
           gyre_slices_pushed_by_all(mesh, plan->slices) == plan->slices;
}
