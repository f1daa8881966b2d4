/* Operations on memory that all ranks share: one turn each, in order.
 *
 *     next operation ─▶ its line is free ─▶ begin ─▶ EXCHANGE   payloads in the lines
 *                       (16 turns later)        └──▶ PUSH       places in the lines
 *                                                        └─▶ finished = turn ─▶ next
 *
 * An operation whose stream runs the turn has its line written ahead, and is looked after once in
 * the middle: its turn is the one under way while the lines of peers are read.
 *
 *     mapped.c                  the entry: begins, runs and ends turns
 *     exchange.c                EXCHANGE
 *     push.c                    PUSH by the processor
 *     places.c                  the lines of a PUSH: where each rank's buffers are
 *     slices.c                  the bytes of a slice, and how far all ranks are
 *     turn.c                    when a line may be written, and arithmetic
 *     mesh.c                    boards and inboxes of all ranks, as board.h lays them out
 *     device/push.c             PUSH by a device
 *     device/push_stream.c      PUSH in the order of a stream, which may run the turn alone
 *     device/alone.c            the books of turns that streams run
 *     device/exchange_stream.c  EXCHANGE in the order of a stream, which runs the turn alone
 *     device/moves.c            the moves of a PUSH as a device's folds
 *     device/words.c            words in inboxes: how far ranks are in turns of devices
 *     device/window.c           device memory that peers map, in place of what they cannot
 *
 * Tested by tests/sim/mesh.c. */
#include "collectives/mapped/mapped.h"

#include "collectives/mapped/device/alone.h"
#include "collectives/mapped/device/exchange_stream.h"
#include "collectives/mapped/device/push.h"
#include "collectives/mapped/device/push_stream.h"
#include "collectives/mapped/device/window.h"
#include "collectives/mapped/device/words.h"
#include "collectives/mapped/exchange.h"
#include "collectives/mapped/places.h"
#include "collectives/mapped/push.h"
#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"

/* Whether the INPUT is where the turn reads it. A PUSH asks for each slice when it needs the
 * slice. */
static bool input_is_here(const struct gyre_operation *op)
{
    if (!gyre_window_ready(op->window))
        return false;
    return !op->mirror || op->plan->form == GYRE_FORM_PUSH || gyre_mirror_ready(op->mirror, 0);
}

static bool may_begin(struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    if (op->alone)
        return true; /* its stream would not be, where the line was not free */
    if (op->captured)
        return gyre_turn_is_free(mesh, mesh->turn + 1);
    return input_is_here(op) && gyre_turn_is_free(mesh, mesh->turn + 1) &&
           (!op->direct || gyre_words_are_free(mesh, mesh->turn + 1));
}

/* Makes the operation's turn the one under way. */
static void take_turn(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    mesh->at = op->turn;
    turn->op = op;
    turn->resolved = turn->move = 0;
    turn->pushed = turn->seen_pushed = turn->done = 0;
    turn->ticket = 0;
}

static void begin_push(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_announcement places;
    gyre_places_find(mesh, op, &places);
    gyre_places_announce(mesh, op, &places);
    if (gyre_operation_is_ahead(op))
        return;
    gyre_places_take(mesh, op, &places);
    if (op->direct)
        gyre_words_tell(mesh, GYRE_WORD_ARRIVED, op->turn);
}

bool gyre_mapped_begin(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    if (!may_begin(mesh, op))
        return false;
    op->turn = ++mesh->turn;
    op->begun = true;
    if (!gyre_operation_is_ahead(op))
        take_turn(mesh, op);
    if (op->plan->form == GYRE_FORM_PUSH)
        begin_push(mesh, op);
    else if (op->alone)
        gyre_exchange_announce(mesh, op);
    else
        gyre_exchange_publish(mesh, op->plan, op->input, op->fingerprint);
    return true;
}

void gyre_mapped_take(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_announcement places;
    take_turn(mesh, op);
    if (op->plan->form != GYRE_FORM_PUSH)
        return;
    gyre_places_find(mesh, op, &places);
    gyre_places_take(mesh, op, &places);
}

void gyre_mapped_adopt(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    op->turn = mesh->turn;
    op->begun = true;
    mesh->current = (struct gyre_turn){.op = op};
}

static bool run_exchange_turn(struct gyre_mesh *mesh, struct gyre_operation *op, bool *over)
{
    struct gyre_op_name name = {op->sequence, op->fingerprint};
    *over = false;
    if (op->alone)
        return gyre_exchange_resolve(mesh, op);
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
    if (!gyre_operation_is_ahead(op))
        return gyre_push_on_device(mesh, op) || moved;
    gyre_push_resolve(mesh, op);
    mesh->current.op = NULL;
    return true;
}

static bool run_push_turn(struct gyre_mesh *mesh, struct gyre_operation *op, bool *over)
{
    bool moved = op->direct ? run_push_on_device(mesh, op) : gyre_push_run(mesh, op);
    *over = !op->direct ? gyre_slices_over(mesh, op->plan)
                        : !gyre_operation_is_ahead(op) && gyre_push_is_over(mesh, op);
    if (*over)
        gyre_turn_end(mesh, op->turn);
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

static bool is_passed(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    if (op->captured)
        return true;
    return op->plan->form == GYRE_FORM_PUSH ? gyre_push_is_over(mesh, op)
                                            : op->steps == GYRE_ALONE_FOLDED;
}

bool gyre_mapped_passes(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    if (!is_passed(mesh, op))
        return false;
    gyre_turn_end(mesh, op->turn);
    return true;
}

uint32_t gyre_mapped_waits_on(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    if (!op->resolved)
        return gyre_turn_waits_on(mesh, op->turn);
    if (op->plan->form == GYRE_FORM_EXCHANGE)
        return gyre_exchange_waits_on(mesh, op);
    const uint32_t rank = gyre_words_wait_on(mesh, GYRE_WORD_ARRIVED, op->turn);
    return rank == GYRE_RECORD_NOBODY ? gyre_words_wait_on(mesh, GYRE_WORD_PUSHED, op->turn) : rank;
}

/* Whether a peer may have begun to write into this rank's OUTPUT. Who writes has read the lines of
 * all ranks, and a rank that ended without one will never write it. */
static bool may_be_written(const struct gyre_mesh *mesh, uint64_t turn)
{
    bool all_dead = true, all_came = true;
    for (uint32_t rank = 0; rank < mesh->n; rank++) {
        if (rank == mesh->rank)
            continue;
        bool ended = gyre_domain_peer_ended(mesh->domain, gyre_mesh_world(mesh, rank));
        bool came = atomic_load_explicit(&gyre_peer_line(mesh, rank, turn)->stamp,
                                         memory_order_acquire) == turn;
        all_dead &= ended;
        all_came &= !ended || came;
    }
    return !all_dead && all_came;
}

/* A peer that is not known to be dead may be stopped in the middle of a write. The peer keeps the
 * old memory; this rank goes on in new memory of the same content at the same address. A window is
 * the library's own, and is not used again: there the peer may write. */
void gyre_mapped_drop(struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    if (op->begun && op->output_region && !op->window && !op->giving &&
        may_be_written(mesh, op->turn))
        gyre_domain_detach(mesh->domain, op->output_region);
}
