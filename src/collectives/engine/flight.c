/* Operations in flight: a table of places, and their order.
 *
 *     op[]      [ 7 ][ 9 ][   ][ 8 ]      a place is used from start to release
 *     order[]     7    8    9             by sequence, from start to end
 *
 * An operation ends when its work is done and its OUTPUT is in the caller's buffer. Tested by
 * tests/sim/engine.c and tests/sim/mesh.c. */
#include "collectives/engine/flight.h"

#include "collectives/mapped/device/exchange_stream.h"
#include "collectives/mapped/device/push_stream.h"
#include "collectives/mapped/device/window.h"
#include "collectives/mapped/device/words.h"

#include <errno.h>
#include <string.h>

static uint32_t free_operation_place(const struct gyre_engine *engine)
{
    uint32_t place = 0;
    while (place < GYRE_OPS_MAX && engine->op[place].used)
        place++;
    return place;
}

bool gyre_engine_has_room(const struct gyre_engine *engine)
{
    return free_operation_place(engine) < GYRE_OPS_MAX;
}

struct gyre_operation *gyre_engine_start(struct gyre_engine *engine, struct gyre_plan *plan,
                                         const void *input, void *output)
{
    uint32_t place = free_operation_place(engine);
    if (place == GYRE_OPS_MAX)
        return NULL;
    struct gyre_operation *op = &engine->op[place];
    uint64_t sequence = ++engine->sequence;
    *op = (struct gyre_operation){.plan = plan,
                                  .input = input,
                                  .output = output,
                                  .sequence = sequence,
                                  .fingerprint = gyre_engine_fingerprint(engine, plan, sequence),
                                  .status = GYRE_AGAIN,
                                  .used = true};
    gyre_engine_remember(engine, op->fingerprint);
    engine->order[engine->orders++] = op;
    if (engine->failed)
        gyre_engine_end(engine, op, engine->failed);
    return op;
}

void gyre_engine_let_stream_go(struct gyre_engine *engine, struct gyre_operation *op)
{
    if (op->alone && op->stream_wait.word)
        gyre_words_fill(engine->mesh, op->turn);
    gyre_stream_wait_give(&op->stream_wait);
}

static void give_table(struct gyre_engine *engine, struct gyre_operation *op)
{
    if (!op->captured)
        gyre_late_give(&engine->mirrors.tables, op->table);
    op->table = NULL;
}

uint64_t gyre_engine_last_turn(const struct gyre_engine *engine)
{
    uint64_t turn = engine->mesh->turn;
    for (uint32_t i = 0; i < engine->orders; i++) {
        const struct gyre_operation *op = engine->order[i];
        turn += !op->begun &&
                (op->plan->form == GYRE_FORM_EXCHANGE || op->plan->form == GYRE_FORM_PUSH);
    }
    return turn;
}

static int post_on_stream(struct gyre_engine *engine, struct gyre_operation *op, void *stream,
                          bool captured, struct gyre_trouble *trouble)
{
    if (captured)
        return gyre_push_capture(engine->mesh, op, stream, trouble);
    if (!op->direct)
        return gyre_mirror_post_on(op->mirror, engine->mirrors.fold_queue, stream, &op->stream_wait,
                                   trouble);
    const uint64_t turn = gyre_engine_last_turn(engine);
    return op->plan->form == GYRE_FORM_PUSH
               ? gyre_push_post_on(engine->mesh, op, turn, stream, trouble)
               : gyre_exchange_post_on(engine->mesh, op, turn, stream, trouble);
}

int gyre_engine_bind_stream(struct gyre_engine *engine, struct gyre_operation *op, void *stream,
                            bool captured, struct gyre_trouble *trouble)
{
    if (op->status != GYRE_AGAIN) /* ended as it began, so nothing would let the stream go on */
        return gyre_trouble_set(trouble, op->status, "the job has failed before");
    int status = post_on_stream(engine, op, stream, captured, trouble);
    op->held = status == 0;
    op->awaits_stream = op->held && !captured;
    if (status)
        gyre_engine_let_stream_go(engine, op);
    if (status)
        give_table(engine, op);
    return status;
}

/* -- ends -------------------------------------------------------------------------------------- */

static void count_end(struct gyre_engine *engine)
{
    uint32_t ends = atomic_load_explicit(&engine->ends, memory_order_relaxed);
    atomic_store_explicit(&engine->ends, ends + 1, memory_order_release);
}

void gyre_engine_end(struct gyre_engine *engine, struct gyre_operation *op, int status)
{
    op->status = status;
    gyre_record_ended(op->record, status);
    uint32_t i = 0;
    while (engine->order[i] != op)
        i++;
    memmove(&engine->order[i], &engine->order[i + 1],
            (--engine->orders - i) * sizeof(engine->order[0]));
    count_end(engine);
    gyre_engine_let_stream_go(engine, op);
    if (gyre_operation_is_ahead(op))
        engine->mesh->ahead--;
    if (op->held)
        gyre_engine_release(engine, op);
}

void gyre_engine_finish(struct gyre_engine *engine, struct gyre_operation *op, int status)
{
    if ((op->mirror || op->window) && !status)
        op->giving = true;
    else
        gyre_engine_end(engine, op, status);
}

void gyre_engine_release(struct gyre_engine *engine, struct gyre_operation *op)
{
    gyre_mirror_release(op->mirror);
    gyre_window_release(op->window);
    give_table(engine, op);
    op->mirror = NULL;
    op->window = NULL;
    op->used = false;
    count_end(engine);
}

/* -- faults ------------------------------------------------------------------------------------ */

void gyre_engine_fault(struct gyre_engine *engine, int status, uint32_t peer, bool echo,
                       const struct gyre_trouble *trouble)
{
    gyre_fault_record(&engine->fault, status, peer, echo, trouble);
}

/* Altered bytes are a cause. A lost link, or a mismatch, may follow from something else. */
static bool may_be_echo(int status)
{
    return status != GYRE_CORRUPT;
}

/* What a rank lacks for a link is its own lack, and a cause. Links that are made at their first use
 * can fail so in the middle of a job. */
static bool is_own_lack(int status)
{
    return status == -ENOMEM || status == -EIO;
}

static void record_link_fault(struct gyre_engine *engine, uint32_t peer,
                              struct gyre_trouble *trouble)
{
    const uint32_t own = gyre_engine_world(engine, engine->rank);
    const int status = trouble->status;
    const bool lacks = is_own_lack(status);
    if (lacks)
        gyre_trouble_wrap(trouble, "rank %u", own);
    gyre_engine_fault(engine, status, lacks ? own : peer, !lacks && may_be_echo(status), trouble);
}

void gyre_engine_link_failed(struct gyre_engine *engine, uint32_t peer, int status)
{
    struct gyre_trouble trouble = {0};
    int told = gyre_link_state(engine->links, peer, &trouble);
    if (!told && status == GYRE_PEER_LOST)
        status = gyre_trouble_set(&trouble, GYRE_MISMATCH,
                                  "rank %u has left by gyre_finalize(), but rank %u still needs it",
                                  peer, gyre_engine_world(engine, engine->rank));
    else if (!trouble.status)
        gyre_trouble_set(&trouble, status, "the link to rank %u failed: %s", peer,
                         gyre_status_name(status));
    record_link_fault(engine, peer, &trouble);
}

void gyre_engine_post_failed(struct gyre_engine *engine, int status)
{
    struct gyre_trouble trouble = {0};
    uint32_t peer = UINT32_MAX;
    if (!gyre_links_fault(engine->links, &peer, &trouble))
        gyre_trouble_set(&trouble, status, "a transfer failed: %s", gyre_status_name(status));
    record_link_fault(engine, peer, &trouble);
}
