/* The engine: operations in order, plans in a cache, and two ways to run a plan.
 *
 *     start ─▶ order[] ─▶ STEPS             lanes post rounds on links and fold between them
 *                    └──▶ EXCHANGE, PUSH    turns on shared memory, strictly in order
 *     run   ─▶ completions ─▶ lanes ─▶ op->status
 *
 *     engine.c    the entry: an engine's life, a turn of everything, and failure
 *     plans.c     the plans that are kept
 *     steps.c     lanes over links
 *     turns.c     turns on shared memory
 *     flight.c    operations in flight, and faults
 *
 * What lies below reports: lanes and mapped memory record a fault, mapped memory names the
 * operation whose turn is over, and the engine draws the consequences. Operations on links may
 * overlap. Lanes are given out in the order of sequence, so two ranks never hold lanes for
 * different operations while each waits for the other's. Tested by tests/sim/engine.c and
 * tests/sim/mesh.c. */
#include "collectives/engine/engine.h"

#include "base/clock.h"
#include "collectives/engine/steps.h"
#include "collectives/engine/turns.h"
#include "collectives/mapped/device/push_stream.h"
#include "collectives/mapped/device/window.h"
#include "collectives/mapped/device/words.h"
#include "collectives/mapped/mapped.h"

#include <errno.h>
#include <stdlib.h>

#define FOLDS_NS UINT64_C(2000000000) /* that folds of a failed job are waited for */

int gyre_engine_create(const struct gyre_engine_options *options, struct gyre_engine **out,
                       struct gyre_trouble *trouble)
{
    struct gyre_engine *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for an engine");
    engine->rank = options->rank;
    engine->n = options->n;
    engine->comm = options->comm;
    engine->world = options->world;
    engine->links = options->links;
    engine->mesh = options->mesh;
    engine->mirrors = (struct gyre_mirror_pool){
        .fold_queue = options->fold_queue, .n = options->n, .rank = options->rank};
    engine->scratch_domain = options->scratch_domain;
    engine->planning = (struct gyre_plan_options){.n = options->n,
                                                  .rank = options->rank,
                                                  .mapped = options->mesh != NULL,
                                                  .layout = options->layout,
                                                  .near = options->near,
                                                  .far = options->far,
                                                  .preference = options->preference,
                                                  .algorithm = options->algorithm,
                                                  .slice_bytes = options->slice_bytes,
                                                  .lanes = options->lanes};
    engine->device = gyre_device_of(GYRE_MEMORY_HOST);
    int status = engine->device->queue_create(0, &engine->queue, trouble);
    if (status) {
        free(engine);
        return status;
    }
    if (engine->mesh)
        gyre_mesh_attach(engine->mesh, &engine->fault, &engine->mirrors);
    *out = engine;
    return 0;
}

void gyre_engine_drop_windows(struct gyre_engine *engine, bool share_no_more)
{
    if (!engine->mesh)
        return;
    gyre_captured_end(engine->mesh, gyre_now_ns() + FOLDS_NS);
    gyre_words_drop(engine->mesh);
    gyre_windows_drop(engine->mesh, share_no_more);
}

void gyre_engine_part(struct gyre_engine *engine)
{
    gyre_engine_drop_windows(engine, false);
    gyre_steps_deinit(engine);
    engine->scratch_domain = NULL;
}

void gyre_engine_destroy(struct gyre_engine *engine)
{
    if (!engine)
        return;
    gyre_steps_deinit(engine);
    gyre_mirror_pool_deinit(&engine->mirrors);
    gyre_plans_drop(engine);
    engine->device->queue_destroy(engine->queue);
    free(engine);
}

/* -- turns of the engine ----------------------------------------------------------------------- */

/* Copies OUTPUT back from the host mirror, to the caller's buffer or to a window; true if anything
 * moved. Lanes have copied their slices back; on mapped memory some may be left. */
static bool leave_mirror(struct gyre_operation *op)
{
    bool moved =
        op->plan->form != GYRE_FORM_STEPS && gyre_mirror_give_before(op->mirror, op->plan->slices);
    if (!gyre_mirror_over(op->mirror))
        return moved;
    gyre_mirror_release(op->mirror);
    op->mirror = NULL;
    return true;
}

/* Copies OUTPUT back, and ends the operation when all is back; true if anything moved. */
static bool give_back(struct gyre_engine *engine, struct gyre_operation *op)
{
    bool moved = op->mirror && leave_mirror(op);
    if (op->mirror || (op->window && !gyre_window_given(op->window)))
        return moved;
    gyre_engine_end(engine, op, 0);
    return true;
}

/* Brings INPUT to where the operation reads it; true if anything moved. */
static bool bring_input(const struct gyre_operation *op)
{
    return op->mirror ? gyre_mirror_run(op->mirror) : op->window && gyre_window_run(op->window);
}

static bool run_mirrors(struct gyre_engine *engine)
{
    const struct gyre_fold_queue *fold_queue = engine->mirrors.fold_queue;
    bool moved = false;
    if (fold_queue->status)
        gyre_engine_fault(engine, fold_queue->status, gyre_engine_world(engine, engine->rank),
                          false, &fold_queue->trouble);
    for (uint32_t i = 0; i < engine->orders && !engine->fault.status;) {
        struct gyre_operation *op = engine->order[i];
        if (gyre_engine_due(op))
            moved |= op->giving ? give_back(engine, op) : bring_input(op);
        i += i < engine->orders && engine->order[i] == op;
    }
    return moved;
}

bool gyre_engine_run(struct gyre_engine *engine)
{
    bool moved = engine->mirrors.fold_queue && run_mirrors(engine);
    moved |= gyre_steps_run(engine);
    if (engine->mesh)
        moved |= gyre_turns_run(engine);
    return moved;
}

void gyre_engine_note_waits(struct gyre_engine *engine)
{
    gyre_steps_note_waits(engine);
    if (engine->mesh)
        gyre_turns_note_waits(engine);
}

struct gyre_operation *gyre_engine_adopt(struct gyre_engine *engine, struct gyre_plan *plan,
                                         const void *input, void *output, bool begun)
{
    engine->sequence--;
    struct gyre_operation *op = gyre_engine_start(engine, plan, input, output);
    if (!op)
        engine->sequence++;
    else if (begun)
        gyre_mapped_adopt(engine->mesh, op);
    return op;
}

/* -- failure ----------------------------------------------------------------------------------- */

/* Waits for streams that fold into peers' memory, but not for ever, and keeps others from
 * folding. */
static void stop_folds(struct gyre_engine *engine)
{
    uint64_t limit = gyre_now_ns() + FOLDS_NS;
    for (uint32_t i = 0; i < engine->orders; i++)
        gyre_push_stop(engine->mesh, engine->order[i], limit);
    if (engine->mesh)
        gyre_captured_stop(engine->mesh, limit);
}

/* Lets streams go. What the fold queue still writes comes first; the wait is short, unless a stream
 * that has to go holds the queue up. */
void gyre_engine_let_streams_go(struct gyre_engine *engine)
{
    if (engine->mirrors.fold_queue)
        gyre_fold_queue_settle(engine->mirrors.fold_queue);
    stop_folds(engine);
    for (uint32_t i = 0; i < engine->orders; i++)
        gyre_engine_let_stream_go(engine, engine->order[i]);
}

void gyre_engine_fail(struct gyre_engine *engine, int status)
{
    if (engine->failed)
        return;
    engine->failed = status;
    gyre_steps_drop(engine);
    gyre_engine_let_streams_go(engine);
    if (engine->mirrors.fold_queue)
        gyre_fold_queue_settle(engine->mirrors.fold_queue);
    for (uint32_t i = 0; i < engine->orders; i++)
        gyre_mapped_drop(engine->mesh, engine->order[i]);
    if (engine->mesh)
        gyre_captured_detach(engine->mesh);
    while (engine->orders)
        gyre_engine_end(engine, engine->order[0], status);
}
