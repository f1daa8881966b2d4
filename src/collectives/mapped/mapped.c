/* Operations on memory that all ranks share: one turn each, in order.
 *
 *     next operation ─▶ its line is free ─▶ begin ─▶ EXCHANGE   payloads in the lines
 *                       (16 turns later)        └──▶ PUSH       places in the lines
 *                                                        └─▶ finished = turn ─▶ next
 *
 *     mapped.c        the entry: begins, runs and ends turns
 *     exchange.c      EXCHANGE
 *     push.c          PUSH by the processor
 *     push_device.c   PUSH by a device
 *     places.c        the lines of a PUSH: where each rank's buffers are
 *     slices.c        the bytes of a slice, and how far all ranks are
 *     turn.c          when a line may be written, and arithmetic
 *     window.c        device memory that peers map, in place of what they cannot
 *     mesh.c          boards and inboxes of all ranks, as board.h lays them out
 *
 * Tested by tests/sim/mesh.c. */
#include "collectives/mapped/mapped.h"

#include "collectives/mapped/exchange.h"
#include "collectives/mapped/places.h"
#include "collectives/mapped/push.h"
#include "collectives/mapped/push_device.h"
#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"
#include "collectives/mapped/window.h"

/* Whether the INPUT is where the turn reads it. A PUSH asks for each slice when it needs the
 * slice. */
static bool input_is_here(const struct gyre_operation *op)
{
    if (!gyre_window_ready(op->window))
        return false;
    return !op->mirror || op->plan->form == GYRE_FORM_PUSH || gyre_mirror_ready(op->mirror, 0);
}

bool gyre_mapped_begin(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    if (!op || !input_is_here(op) || !gyre_turn_is_free(mesh, mesh->turn + 1))
        return false;
    mesh->turn++;
    struct gyre_turn *turn = &mesh->current;
    turn->op = op;
    turn->resolved = turn->move = 0;
    turn->pushed = turn->seen_pushed = turn->done = 0;
    turn->announced = false;
    turn->ticket = 0;
    if (op->plan->form == GYRE_FORM_PUSH)
        gyre_places_announce(mesh, op);
    else
        gyre_exchange_publish(mesh, op->plan, op->input, op->fingerprint);
    return true;
}

void gyre_mapped_adopt(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    mesh->current = (struct gyre_turn){.op = op};
}

static bool run_exchange_turn(struct gyre_mesh *mesh, const struct gyre_operation *op, bool *over)
{
    struct gyre_op_name name = {op->sequence, op->fingerprint};
    *over = gyre_exchange_finish(mesh, op->plan, op->input, op->output, name, 0) == 0;
    return *over;
}

/* Runs a PUSH that a device may run. Nothing is done before all lines are read: the lines say
 * whether devices run it. */
static bool run_push_on_device(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    bool moved = gyre_places_resolve(mesh, op);
    if (mesh->current.resolved < mesh->n)
        return moved;
    if (mesh->current.devices != UINT64_MAX >> (64 - mesh->n))
        return gyre_places_leave_device(mesh, op) == 0;
    return gyre_push_on_device(mesh, op) || moved;
}

static bool run_push_turn(struct gyre_mesh *mesh, struct gyre_operation *op, bool *over)
{
    bool moved = op->direct ? run_push_on_device(mesh, op) : gyre_push_run(mesh, op);
    *over = gyre_slices_over(mesh, op->plan);
    if (*over)
        gyre_turn_end(mesh);
    return moved || *over;
}

bool gyre_mapped_run(struct gyre_mesh *mesh, struct gyre_operation **ended)
{
    struct gyre_operation *op = mesh->current.op;
    bool over;
    if (!op)
        return false;
    bool moved = op->plan->form == GYRE_FORM_PUSH ? run_push_turn(mesh, op, &over)
                                                  : run_exchange_turn(mesh, op, &over);
    if (over) {
        mesh->current.op = NULL;
        *ended = op;
    }
    return moved;
}

/* Whether a peer may have begun to write into this rank's OUTPUT. Who writes has read the lines of
 * all ranks, and a rank that ended without one will never write it. */
static bool may_be_written(const struct gyre_mesh *mesh)
{
    bool all_dead = true, all_came = true;
    for (uint32_t rank = 0; rank < mesh->n; rank++) {
        if (rank == mesh->rank)
            continue;
        bool ended = gyre_domain_peer_ended(mesh->domain, gyre_mesh_world(mesh, rank));
        bool came = atomic_load_explicit(&gyre_peer_line(mesh, rank, mesh->turn)->stamp,
                                         memory_order_acquire) == mesh->turn;
        all_dead &= ended;
        all_came &= !ended || came;
    }
    return !all_dead && all_came;
}

/* Drops the turn. A peer that is not known to be dead may be stopped in the middle of a write. The
 * peer keeps the old memory; this rank goes on in new memory of the same content at the same
 * address. A window is the library's own, and is not used again: there the peer may write. */
void gyre_mapped_drop(struct gyre_mesh *mesh)
{
    struct gyre_turn *turn = &mesh->current;
    if (!turn->op || turn->op->plan->form != GYRE_FORM_PUSH || !turn->output_region ||
        turn->op->window)
        return;
    if (may_be_written(mesh))
        gyre_domain_detach(mesh->domain, turn->output_region);
}
