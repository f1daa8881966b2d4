/* Making a plan: select, cut, bind. Runs once per shape; allocation is allowed here and nowhere
 * later. */
#include "collectives/plan.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "base/size.h"
#include "collectives/select.h"
#include "transport/signature.h"

#include <errno.h>
#include <stdlib.h>

uint64_t gyre_plan_slice_count(const struct gyre_plan *plan, uint64_t index)
{
    if (index + 1 < plan->slices)
        return plan->slice_count;
    return plan->shape.count - plan->slice_count * (plan->slices - 1);
}

struct gyre_slice gyre_plan_slice(const struct gyre_plan *plan, uint32_t n, uint32_t rank,
                                  uint64_t index)
{
    return (struct gyre_slice){.verb = plan->shape.verb,
                               .n = n,
                               .rank = rank,
                               .root = plan->shape.root,
                               .element = plan->element,
                               .small = plan->small,
                               .layout = plan->layout,
                               .narrow = gyre_shape_narrow(&plan->shape),
                               .first = index * plan->slice_count,
                               .stride = plan->shape.count,
                               .count = gyre_plan_slice_count(plan, index)};
}

/* Slices of equal size, a multiple of 64 elements so that blocks stay aligned; the last takes the
 * rest and is the longest, up to twice as long, so that no slice is too short for the form of the
 * others. At least one, even for no elements. */
static void cut(struct gyre_plan *plan, uint64_t slice_bytes)
{
    plan->slice_count = gyre_slice_elements(plan->shape.count, plan->element, slice_bytes);
    plan->slices = plan->slice_count ? plan->shape.count / plan->slice_count : 1;
}

static struct gyre_extent larger(struct gyre_extent a, struct gyre_extent b)
{
    return (struct gyre_extent){a.rounds > b.rounds ? a.rounds : b.rounds,
                                a.scratch_bytes > b.scratch_bytes ? a.scratch_bytes
                                                                  : b.scratch_bytes,
                                a.step_max > b.step_max ? a.step_max : b.step_max,
                                a.source_max > b.source_max ? a.source_max : b.source_max};
}

static void measure(struct gyre_plan *plan, const struct gyre_plan_options *options)
{
    struct gyre_slice full = gyre_plan_slice(plan, options->n, options->rank, 0);
    struct gyre_slice last = gyre_plan_slice(plan, options->n, options->rank, plan->slices - 1);
    plan->extent = larger(plan->algorithm->extent(&full), plan->algorithm->extent(&last));
    if (plan->lanes > plan->slices)
        plan->lanes = (uint32_t)plan->slices;
}

/* Both kinds of slice must bind, and alike. */
static int bind(struct gyre_plan *plan, const struct gyre_plan_options *options,
                struct gyre_trouble *trouble)
{
    struct gyre_binding of_full, of_last;
    struct gyre_slice full = gyre_plan_slice(plan, options->n, options->rank, 0);
    struct gyre_slice last = gyre_plan_slice(plan, options->n, options->rank, plan->slices - 1);
    plan->form = GYRE_FORM_STEPS;
    if (!options->mapped)
        return 0;
    plan->full = calloc(1, sizeof(*plan->full));
    plan->last = calloc(1, sizeof(*plan->last));
    if (!plan->full || !plan->last)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a plan of %u ranks", options->n);
    if (!gyre_bind_fused(plan->algorithm, &full, plan->full, &of_full) ||
        !gyre_bind_fused(plan->algorithm, &last, plan->last, &of_last))
        return 0;
    bool small = plan->slices == 1 && plan->shape.count * plan->element <= GYRE_EXCHANGE_MAX;
    plan->read_by_peers = of_full.read_by_peers;
    if (small && of_full.stays_at_home)
        plan->form = GYRE_FORM_EXCHANGE;
    else if (of_full.safe_in_place && of_last.safe_in_place)
        plan->form = GYRE_FORM_PUSH;
    return 0;
}

static uint64_t fingerprint(const struct gyre_plan *plan)
{
    uint64_t value = gyre_mix64(plan->signature) ^ plan->shape.count;
    for (const char *c = plan->algorithm->name; *c; c++)
        value = gyre_mix64(value + (uint8_t)*c);
    return gyre_mix64(gyre_mix64(value) ^ plan->slice_count ^ ((uint64_t)plan->form << 60));
}

int gyre_plan_create(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                     struct gyre_plan **out, struct gyre_trouble *trouble)
{
    struct gyre_choice choice;
    int status = gyre_select(shape, options, &choice, trouble);
    if (status)
        return status;
    struct gyre_plan *plan = calloc(1, sizeof(*plan));
    if (!plan)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a plan");
    const struct gyre_reduce_table *table =
        gyre_reduce_table_for(GYRE_MEMORY_HOST, shape->count * gyre_type_size(shape->type));
    plan->shape = *shape;
    plan->algorithm = choice.algorithm;
    plan->element = (uint32_t)gyre_type_size(shape->type);
    plan->small = choice.small;
    plan->layout = options->layout;
    plan->lanes = choice.lanes < GYRE_LANES_MAX ? choice.lanes : GYRE_LANES_MAX;
    plan->fold = table->fold[shape->type][shape->op];
    plan->divisor = shape->verb == GYRE_VERB_ALL_REDUCE && shape->op == GYRE_AVG ? options->n : 0;
    plan->stream = 2 * options->n * shape->count * plan->element > gyre_cpu_cache_bytes();
    plan->signature = gyre_signature_pack(shape->barrier ? GYRE_SIGNATURE_BARRIER
                                                         : (enum gyre_signature_verb)shape->verb,
                                          shape->type, shape->op, shape->root);
    cut(plan, choice.slice_bytes);
    measure(plan, options);
    if ((status = bind(plan, options, trouble))) {
        gyre_plan_destroy(plan);
        return status;
    }
    plan->fingerprint = fingerprint(plan);
    *out = plan;
    return 0;
}

void gyre_plan_destroy(struct gyre_plan *plan)
{
    if (!plan)
        return;
    free(plan->full);
    free(plan->last);
    free(plan);
}
