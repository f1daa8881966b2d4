/* Which operation's turn it is. Turns follow the order of operations.
 *
 *     order[]        7 alone    8 alone    9 alone    10           11 alone
 *     line written   yes        yes        yes        no           no
 *                    ▲                     ▲          ▲
 *                    ends first            resolved   begins when 9 has ended, 11 behind it
 *                    of all                next
 *
 * One whose stream runs the turn (mapped/device/push_stream.h) is *ahead*: it begins as soon as all
 * before it have begun, so that it is resolved before its stream comes. So is one of a graph, whose
 * turn only tells where the buffers are. The host runs the others one at a time.
 *
 * Tested by tests/sim/mesh.c, with streams by tests/program/cuda/alone/push.c. */
#include "collectives/engine/turns.h"

#include "collectives/mapped/device/alone.h"
#include "collectives/mapped/mapped.h"

static bool takes_turn(const struct gyre_operation *op)
{
    return (op->plan->form == GYRE_FORM_EXCHANGE || op->plan->form == GYRE_FORM_PUSH) &&
           !op->giving;
}

/* The first operation whose turn has begun and is not over; NULL: there is none. */
static struct gyre_operation *first_begun(const struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < engine->orders; i++)
        if (takes_turn(engine->order[i]))
            return engine->order[i]->begun ? engine->order[i] : NULL;
    return NULL;
}

static bool begin_turn(struct gyre_engine *engine, struct gyre_operation *op, bool under_way)
{
    bool next = gyre_operation_is_ahead(op) || (!under_way && gyre_engine_due(op));
    return next && gyre_mapped_begin(engine->mesh, op);
}

/* Begins the turns that may begin. */
static bool begin_turns(struct gyre_engine *engine)
{
    bool under_way = false, moved = false;
    for (uint32_t i = 0; i < engine->orders; i++) {
        struct gyre_operation *op = engine->order[i];
        const bool begun = op->begun;
        if (!takes_turn(op))
            continue;
        if (!op->begun && !begin_turn(engine, op, under_way))
            break;
        moved |= op->begun != begun;
        under_way = true;
    }
    return moved;
}

/* Makes the turn of the first operation that is ahead and not resolved the one under way. */
static void take_unresolved(struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < engine->orders; i++) {
        struct gyre_operation *op = engine->order[i];
        if (takes_turn(op) && op->begun && gyre_operation_is_ahead(op) && !op->resolved) {
            gyre_mapped_take(engine->mesh, op);
            return;
        }
    }
}

/* Ends operations whose streams have run their turns, and those of graphs, in their order. */
static bool end_passed(struct gyre_engine *engine)
{
    struct gyre_operation *op;
    bool moved = false;
    while ((op = first_begun(engine)) && op->resolved && gyre_mapped_passes(engine->mesh, op)) {
        gyre_engine_finish(engine, op, 0);
        moved = true;
    }
    return moved;
}

/* Learns how far streams have come that run their turns: peers may wait for what they write, and
 * nobody else rings. */
static bool look_at_streams(const struct gyre_engine *engine)
{
    bool moved = false;
    for (uint32_t i = 0; i < engine->orders; i++)
        moved |= engine->order[i]->alone && gyre_alone_look(engine->order[i]);
    return moved;
}

bool gyre_turns_run(struct gyre_engine *engine)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_operation *ended = NULL;
    if (engine->fault.status)
        return false;
    bool moved = begin_turns(engine);
    if (mesh->ahead && !mesh->current.op)
        take_unresolved(engine);
    moved |= gyre_mapped_run(mesh, &ended);
    if (ended)
        gyre_engine_finish(engine, ended, 0);
    if (mesh->ahead) {
        moved |= look_at_streams(engine);
        moved |= end_passed(engine);
    }
    if (moved)
        gyre_domain_ring(mesh->domain);
    return moved;
}

void gyre_turns_note_waits(const struct gyre_engine *engine)
{
    const struct gyre_operation *op = first_begun(engine);
    if (op)
        gyre_record_waits(op->record, gyre_mapped_waits_on(engine->mesh, op));
}
