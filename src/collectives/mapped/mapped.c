/* Operations on memory that all ranks share: one turn each, in order.
 *
 *     next operation ─▶ its line is free ─▶ begin ─▶ EXCHANGE  (exchange.c): payloads in the lines
 *                       (16 turns later)        └──▶ PUSH      (push.c): places in the lines
 *                                                        └─▶ finished = turn ─▶ next
 *
 * What both need is here: when a line may be written again, and how bytes are folded or copied. */
#include "collectives/mapped/inside.h"
#include "collectives/staging/host_mirror.h"

#include "base/copy.h"

#include <string.h>

/* -- lines ------------------------------------------------------------------------------------- */

bool gyre_turn_look(struct gyre_mesh *mesh, uint64_t turn)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t rank = 0; rank < mesh->n; rank++) {
        uint64_t finished =
            atomic_load_explicit(&mesh->board[rank]->finished, memory_order_acquire);
        least = finished < least && rank != mesh->rank ? finished : least;
    }
    mesh->safe = least;
    return turn <= mesh->safe + GYRE_BOARD_SLOTS;
}

void gyre_turn_mismatch(struct gyre_engine *engine, uint32_t rank, uint64_t sequence)
{
    struct gyre_trouble trouble = {0};
    uint32_t peer = gyre_engine_world(engine, rank);
    gyre_trouble_set(&trouble, GYRE_MISMATCH,
                     "rank %u and rank %u called different operations as number %llu: compare "
                     "operation, count, type, "
                     "reduction and root on both, also of the operations before",
                     gyre_engine_world(engine, engine->rank), peer, (unsigned long long)sequence);
    gyre_engine_fault(engine, GYRE_MISMATCH, peer, true, &trouble);
}

/* -- arithmetic -------------------------------------------------------------------------------- */

/* gyre_copy() is the best for a few bytes; for many it may fall to a tenth where source and
 * destination stand at different distances from a line, as blocks of odd length do, and it reads
 * the source anew for every destination. */
void gyre_mapped_copy(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                      const void *from, uint64_t bytes, bool stream)
{
    struct gyre_fold_task task = {.destination = to,
                                  .destinations = destinations,
                                  .source = &from,
                                  .sources = 1,
                                  .count = bytes,
                                  .stream = stream};
    if (bytes > GYRE_EXCHANGE_MAX)
        plan->copy(&task, NULL);
    for (uint32_t d = 0; bytes <= GYRE_EXCHANGE_MAX && d < destinations; d++)
        gyre_copy(to[d], from, bytes);
}

/* A fold of one source is a copy, bit by bit, and none onto itself. */
static void copy_out(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                     const void *from, uint64_t bytes, bool stream)
{
    void *apart[GYRE_PEERS_MAPPED_MAX];
    uint32_t count = 0;
    for (uint32_t d = 0; d < destinations; d++)
        if (to[d] != from)
            apart[count++] = to[d];
    if (count)
        gyre_mapped_copy(plan, apart, count, from, bytes, stream);
}

/* In place, and where a stage is the inbox, the lines that are written have just been read: storing
 * around the cache would only throw them out of it. */
bool gyre_mapped_overwrites(void *const *to, uint32_t destinations, const void *const *from,
                            uint32_t sources)
{
    for (uint32_t d = 0; d < destinations; d++)
        for (uint32_t s = 0; s < sources; s++)
            if (to[d] == from[s])
                return true;
    return false;
}

void gyre_mapped_fold(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                      const void *const *from, uint32_t sources, uint64_t bytes, bool stream)
{
    struct gyre_fold_task task = {
        .destination = to,
        .destinations = destinations,
        .source = from,
        .sources = sources,
        .count = gyre_plan_elements(plan, bytes),
        .context = plan->shape.context,
        .divisor = plan->divisor,
        .stream = stream && !gyre_mapped_overwrites(to, destinations, from, sources)};
    if (sources > 1 || plan->divisor)
        plan->fold(&task, NULL);
    else
        copy_out(plan, to, destinations, from[0], bytes, stream);
}

uint64_t gyre_part_unequal(const struct gyre_plan *plan, uint64_t slice, uint32_t block,
                           uint64_t offset, uint64_t length)
{
    uint64_t begin = slice * plan->slice_count * plan->element + offset;
    uint64_t end = plan->blocks.count[block] * plan->element;
    uint64_t left = end > begin ? end - begin : 0;
    return left < length ? left : length;
}

/* -- turns ------------------------------------------------------------------------------------- */

static struct gyre_operation *next_mapped(const struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < engine->orders; i++) {
        struct gyre_operation *op = engine->order[i];
        bool mapped = op->plan->form == GYRE_FORM_EXCHANGE || op->plan->form == GYRE_FORM_PUSH;
        if (mapped && !op->giving)
            return op;
    }
    return NULL;
}

void gyre_turn_finish(struct gyre_engine *engine, struct gyre_operation *op)
{
    gyre_turn_end(engine->mesh);
    engine->mesh->current.op = NULL;
    gyre_engine_finish(engine, op, 0);
}

/* A PUSH looks for each slice when it needs it. */
static bool input_is_here(const struct gyre_operation *op)
{
    return !op->mirror || op->plan->form == GYRE_FORM_PUSH || gyre_mirror_ready(op->mirror, 0);
}

static bool begin_turn(struct gyre_engine *engine)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_operation *op = next_mapped(engine);
    if (!op || !gyre_engine_due(engine, op) || !input_is_here(op) ||
        !gyre_turn_is_free(mesh, mesh->turn + 1))
        return false;
    mesh->turn++;
    struct gyre_turn *turn = &mesh->current;
    turn->op = op;
    turn->resolved = turn->move = 0;
    turn->pushed = turn->seen_pushed = turn->done = 0;
    turn->announced = false;
    turn->ticket = 0;
    if (op->plan->form == GYRE_FORM_PUSH)
        gyre_push_announce(mesh, op);
    else
        gyre_exchange_publish(mesh, op->plan, op->input, op->fingerprint);
    return true;
}

static bool run_exchange(struct gyre_engine *engine, struct gyre_operation *op)
{
    if (gyre_exchange_finish(engine, op->plan, op->input, op->output,
                             (struct gyre_op_name){op->sequence, op->fingerprint}, 0))
        return false;
    engine->mesh->current.op = NULL;
    gyre_engine_finish(engine, op, 0);
    return true;
}

bool gyre_mapped_poll(struct gyre_engine *engine)
{
    struct gyre_mesh *mesh = engine->mesh;
    if (engine->fault.status)
        return false;
    bool moved = !mesh->current.op && begin_turn(engine);
    struct gyre_operation *op = mesh->current.op;
    if (op)
        moved |=
            op->plan->form == GYRE_FORM_PUSH ? gyre_push_run(engine, op) : run_exchange(engine, op);
    if (moved)
        gyre_domain_ring(mesh->domain);
    return moved;
}

/* A peer that is not known to be dead may be stopped in the middle of a write. It keeps the old
 * memory; we go on in new memory of the same content at the same address. */
void gyre_mapped_drop(struct gyre_engine *engine)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_turn *turn = &mesh->current;
    if (!turn->op || turn->op->plan->form != GYRE_FORM_PUSH || !turn->output_region)
        return;
    bool all_dead = true;
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        all_dead &=
            rank == mesh->rank || gyre_domain_peer_ended(mesh->domain, gyre_mesh_world(mesh, rank));
    if (!all_dead)
        gyre_domain_detach(mesh->domain, turn->output_region);
}
