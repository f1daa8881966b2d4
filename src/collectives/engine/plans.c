/* The plans of a communicator. A plan is made once and kept. The last plan is found at a glance,
 * the others by their shapes. The least recently used idle plan makes room for a new one. Tested by
 * tests/program/collectives/counts.c. */
#include "collectives/engine/plans.h"

#include "collectives/engine/steps.h"

#include <errno.h>

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
    engine->extent = gyre_extent_larger(engine->extent, plan->steps.extent);
    status = gyre_steps_fit(engine, plan->steps.lanes);
    return status ? gyre_trouble_set(
                        trouble, status, "no memory for %llu bytes of scratch in %u lanes",
                        (unsigned long long)engine->extent.scratch_bytes, plan->steps.lanes)
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

void gyre_plans_drop(struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < GYRE_PLANS_MAX; i++)
        gyre_plan_destroy(engine->plan[i]);
}
