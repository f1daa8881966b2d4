/* The engine: operations in order, plans in a cache, and two ways to run a plan.
 *
 *   start ─▶ order[] ─▶ STEPS:    lanes (steps.c) post rounds on links, fold between them
 *                    └▶ mapped:   exchange and push (collectives/mapped/mapped.c) on shared memory, strictly in order
 *   poll  ─▶ completions ─▶ lanes ─▶ op->status
 *
 * Operations on links may overlap; lanes are given out in the order of sequence, so that two ranks
 * never hold lanes for different operations while each waits for the other's. */
#include "collectives/engine/engine.h"

#include "collectives/mapped/mesh.h"
#include "collectives/staging/host_mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COMPLETIONS 64

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
    engine->fold_queue = options->fold_queue;
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
    *out = engine;
    return 0;
}

/* -- streams ----------------------------------------------------------------------------------- */

int gyre_engine_bind_stream(struct gyre_engine *engine, struct gyre_operation *op,
                            uint64_t stream_mark, void *stream, struct gyre_trouble *trouble)
{
    op->stream_mark = stream_mark;
    int status = gyre_stream_wait_take(&op->stream_wait, trouble);
    if (!status)
        status = gyre_fold_queue_stream_wait(engine->fold_queue, stream, op->stream_wait.word,
                                             op->stream_wait.value, trouble);
    op->held = status == 0;
    if (status)
        gyre_stream_wait_give(&op->stream_wait);
    return status;
}

bool gyre_engine_due(const struct gyre_engine *engine, const struct gyre_operation *op)
{
    return !op->stream_mark || gyre_fold_queue_mark_reached(engine->fold_queue, op->stream_mark);
}

void gyre_engine_part(struct gyre_engine *engine)
{
    gyre_steps_deinit(engine);
    engine->scratch_domain = NULL;
}

void gyre_engine_destroy(struct gyre_engine *engine)
{
    if (!engine)
        return;
    gyre_steps_deinit(engine);
    gyre_mirror_deinit(engine);
    for (uint32_t i = 0; i < GYRE_PLANS_MAX; i++)
        gyre_plan_destroy(engine->plan[i]);
    engine->device->queue_destroy(engine->queue);
    free(engine);
}

/* -- plans ------------------------------------------------------------------------------------- */

static bool plan_busy(const struct gyre_engine *engine, const struct gyre_plan *plan)
{
    for (uint32_t i = 0; i < engine->orders; i++)
        if (engine->order[i]->plan == plan)
            return true;
    return false;
}

/* An empty place, or the idle plan that was used longest ago. */
static struct gyre_plan **plan_place(struct gyre_engine *engine)
{
    struct gyre_plan **oldest = NULL;
    for (uint32_t i = 0; i < GYRE_PLANS_MAX; i++) {
        if (!engine->plan[i])
            return &engine->plan[i];
        if (!plan_busy(engine, engine->plan[i]) &&
            (!oldest || engine->plan[i]->used < (*oldest)->used))
            oldest = &engine->plan[i];
    }
    return oldest;
}

static int plan_make(struct gyre_engine *engine, const struct gyre_shape *shape,
                     struct gyre_plan **out, struct gyre_trouble *trouble)
{
    struct gyre_plan **place = plan_place(engine);
    if (!place)
        return gyre_trouble_set(trouble, -EBUSY, "%u operations of different shapes are in flight",
                                GYRE_PLANS_MAX);
    struct gyre_plan *plan;
    int status = gyre_plan_create(shape, &engine->planning, &plan, trouble);
    if (status)
        return status;
    gyre_plan_destroy(*place);
    *place = *out = plan;
    if (plan->form != GYRE_FORM_STEPS)
        return 0;
    engine->extent.scratch_bytes = plan->extent.scratch_bytes > engine->extent.scratch_bytes
                                       ? plan->extent.scratch_bytes
                                       : engine->extent.scratch_bytes;
    if (plan->extent.step_max > engine->extent.step_max)
        engine->extent.step_max = plan->extent.step_max;
    if (plan->extent.source_max > engine->extent.source_max)
        engine->extent.source_max = plan->extent.source_max;
    status = gyre_steps_fit(engine, plan->lanes);
    return status ? gyre_trouble_set(trouble, status,
                                     "no memory for %llu bytes of scratch in %u lanes",
                                     (unsigned long long)engine->extent.scratch_bytes, plan->lanes)
                  : 0;
}

int gyre_engine_plan(struct gyre_engine *engine, const struct gyre_shape *shape,
                     struct gyre_plan **plan, struct gyre_trouble *trouble)
{
    struct gyre_plan *found = engine->recent;
    for (uint32_t i = 0; !(found && gyre_shape_same(&found->shape, shape, engine->n)); i++) {
        if (i == GYRE_PLANS_MAX) {
            int status = plan_make(engine, shape, &found, trouble);
            if (status) {
                engine->recent = NULL;
                return status;
            }
            break;
        }
        found = engine->plan[i];
    }
    found->used = ++engine->clock;
    engine->recent = *plan = found;
    return 0;
}

/* -- operations -------------------------------------------------------------------------------- */

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
        gyre_engine_finish(engine, op, engine->failed);
    return op;
}

static void end_operation(struct gyre_engine *engine, struct gyre_operation *op, int status)
{
    op->status = status;
    uint32_t i = 0;
    while (engine->order[i] != op)
        i++;
    memmove(&engine->order[i], &engine->order[i + 1],
            (--engine->orders - i) * sizeof(engine->order[0]));
    gyre_stream_wait_give(&op->stream_wait);
    if (op->held)
        gyre_engine_release(engine, op);
}

void gyre_engine_finish(struct gyre_engine *engine, struct gyre_operation *op, int status)
{
    if (op->mirror && !status)
        op->giving = true;
    else
        end_operation(engine, op, status);
}

void gyre_engine_release(struct gyre_engine *engine, struct gyre_operation *op)
{
    (void)engine;
    gyre_mirror_release(op->mirror);
    op->mirror = NULL;
    op->used = false;
}

void gyre_engine_fault(struct gyre_engine *engine, int status, uint32_t peer, bool echo,
                       const struct gyre_trouble *trouble)
{
    if (engine->fault.status)
        return;
    engine->fault.status = status;
    engine->fault.peer = peer;
    engine->fault.echo = echo;
    engine->fault.trouble = *trouble;
}

/* Lanes have given their slices back; on mapped memory some may be left. */
static bool give_back(struct gyre_engine *engine, struct gyre_operation *op)
{
    bool moved =
        op->plan->form != GYRE_FORM_STEPS && gyre_mirror_give_before(op->mirror, op->plan->slices);
    if (!gyre_mirror_over(op->mirror))
        return moved;
    end_operation(engine, op, 0);
    return true;
}

static bool run_mirrors(struct gyre_engine *engine)
{
    bool moved = false;
    if (engine->fold_queue->status)
        gyre_engine_fault(engine, engine->fold_queue->status,
                          gyre_engine_world(engine, engine->rank), false,
                          &engine->fold_queue->trouble);
    for (uint32_t i = 0; i < engine->orders && !engine->fault.status;) {
        struct gyre_operation *op = engine->order[i];
        if (op->mirror && gyre_engine_due(engine, op))
            moved |= op->giving ? give_back(engine, op) : gyre_mirror_run(op->mirror);
        i += i < engine->orders && engine->order[i] == op;
    }
    return moved;
}

bool gyre_engine_run(struct gyre_engine *engine)
{
    bool moved = engine->fold_queue && run_mirrors(engine);
    moved |= gyre_steps_run(engine);
    if (engine->mesh)
        moved |= gyre_mapped_poll(engine);
    return moved;
}

bool gyre_engine_poll(struct gyre_engine *engine, uint64_t now)
{
    struct gyre_completion done[COMPLETIONS];
    bool moved = gyre_engine_run(engine);
    if (!engine->links || engine->fault.status)
        return moved;
    int count = gyre_links_poll(engine->links, now, done, COMPLETIONS);
    for (int i = 0; i < count; i++)
        gyre_engine_complete(engine, &done[i]);
    return moved || count > 0;
}

/* First what the fold queue still writes; that is short, unless a stream keeps it up that has to
 * go. */
void gyre_engine_let_streams_go(struct gyre_engine *engine)
{
    if (engine->fold_queue)
        gyre_fold_queue_settle(engine->fold_queue);
    for (uint32_t i = 0; i < engine->orders; i++)
        gyre_stream_wait_give(&engine->order[i]->stream_wait);
}

void gyre_engine_fail(struct gyre_engine *engine, int status)
{
    if (engine->failed)
        return;
    engine->failed = status;
    gyre_steps_drop(engine);
    gyre_engine_let_streams_go(engine);
    if (engine->fold_queue)
        gyre_fold_queue_settle(engine->fold_queue);
    if (engine->mesh)
        gyre_mapped_drop(engine);
    while (engine->orders)
        end_operation(engine, engine->order[0], status);
}
