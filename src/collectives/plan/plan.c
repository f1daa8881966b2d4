/* Makes a plan, once per shape: select, cut, bind, and give the plan its form.
 *
 *     plan.c           the entry
 *     question.c       selection: the question to the chooser
 *     bind.c           from a schedule to moves on mapped memory
 *     bind_safety.c    whether the moves may run in place
 *     bind_pack.c      one rank's part of the moves
 *     shape.c          lengths and places that follow from a shape
 *     store_policy.c   how a PUSH stores
 *
 * Allocation is allowed here and nowhere later. */
#include "collectives/plan/plan.h"

#include "base/machine/cpu.h"
#include "base/rng.h"
#include "base/size.h"
#include "collectives/plan/question.h"
#include "transport/stream/signature.h"

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
                               .rounds_partials = gyre_shape_rounds_partials(&plan->shape),
                               .first = index * plan->slice_count,
                               .stride = plan->shape.count,
                               .out = plan->blocks,
                               .count = gyre_plan_slice_count(plan, index)};
}

/* Cuts into slices of equal size, a multiple of 64 elements so that blocks stay aligned. The last
 * slice takes the rest and is up to twice as long, so that no slice is too short for the form of
 * the others. There is at least one slice, even for no elements. */
static void cut(struct gyre_plan *plan, uint64_t slice_bytes)
{
    plan->slice_count = gyre_slice_elements(plan->shape.count, plan->element, slice_bytes);
    plan->slices = plan->slice_count ? plan->shape.count / plan->slice_count : 1;
}

struct gyre_extent gyre_extent_larger(struct gyre_extent a, struct gyre_extent b)
{
    return (struct gyre_extent){a.rounds > b.rounds ? a.rounds : b.rounds,
                                a.scratch_bytes > b.scratch_bytes ? a.scratch_bytes
                                                                  : b.scratch_bytes,
                                a.step_max > b.step_max ? a.step_max : b.step_max,
                                a.source_max > b.source_max ? a.source_max : b.source_max};
}

/* The extent that serves this rank in place and out of place. */
static struct gyre_extent extent_of(const struct gyre_plan *plan, struct gyre_slice slice)
{
    struct gyre_extent apart = plan->algorithm->extent(&slice);
    slice.in_place = true;
    return gyre_extent_larger(apart, plan->algorithm->extent(&slice));
}

/* -- binding ----------------------------------------------------------------------------------- */

/* Binds a full slice and the last one; *binding holds for both. False: one does not bind, or this
 * rank lacks the memory, and then the plan fails: its peers, who have it, take another form. */
static bool bind_both(const struct gyre_plan *plan, const struct gyre_plan_options *options,
                      enum gyre_copier copier, struct gyre_rank_moves **full,
                      struct gyre_rank_moves **last, struct gyre_binding *binding)
{
    struct gyre_slice first = gyre_plan_slice(plan, options->n, options->rank, 0);
    struct gyre_slice end = gyre_plan_slice(plan, options->n, options->rank, plan->slices - 1);
    struct gyre_binding of_first, of_end;
    *full = gyre_bind_rank_moves(plan->algorithm, &first, copier, &of_first);
    *last = gyre_bind_rank_moves(plan->algorithm, &end, copier, &of_end);
    binding->lacks_memory = of_first.lacks_memory || of_end.lacks_memory;
    if (*full && *last) {
        binding->stays_at_home = of_first.stays_at_home && of_end.stays_at_home;
        binding->safe_in_place = of_first.safe_in_place && of_end.safe_in_place;
        return true;
    }
    free(*full);
    free(*last);
    *full = *last = NULL;
    return false;
}

/* The longest INPUT of any rank: the root's, where only the root has one. */
static uint64_t longest_input(const struct gyre_shape *shape, uint32_t n)
{
    uint64_t blocks = gyre_verb_scatters(shape->verb) ? n : 1;
    return blocks * shape->count * gyre_type_size(shape->type);
}

/* Binds both kinds of slice. Where all blocks end at one rank, that rank would copy alone: the
 * senders copy together. */
static bool bind_moves(const struct gyre_plan *plan, const struct gyre_plan_options *options,
                       bool to_one, struct gyre_plan_push *push, struct gyre_binding *binding)
{
    bool bound = false;
    *push = (struct gyre_plan_push){.copier = GYRE_SENDER_COPIES};
    if (to_one)
        bound = bind_both(plan, options, push->copier, &push->full, &push->last, binding);
    if (!bound && !(to_one && binding->lacks_memory)) {
        push->copier = GYRE_RECEIVER_COPIES;
        bound = bind_both(plan, options, push->copier, &push->full, &push->last, binding);
    }
    push->read_by_peers = bound && (push->full->reads || push->last->reads);
    push->written_by_peers = bound && (push->full->writes || push->last->writes);
    return bound;
}

/* Binds the spread of an all-gather: each INPUT is read once if its rank writes it into all
 * OUTPUTs. This pays where all OUTPUTs can be mapped; else written blocks go through inboxes, and
 * are copied twice. */
static int bind_spread(struct gyre_plan *plan, const struct gyre_plan_options *options)
{
    struct gyre_plan_push *push = &plan->push;
    struct gyre_binding binding;
    if (plan->shape.verb != GYRE_VERB_ALL_GATHER)
        return 0;
    if (!bind_both(plan, options, GYRE_SENDER_COPIES, &push->spread_full, &push->spread_last,
                   &binding))
        return binding.lacks_memory ? -ENOMEM : 0;
    if (!binding.safe_in_place) {
        free(push->spread_full);
        free(push->spread_last);
        push->spread_full = push->spread_last = NULL;
    }
    return 0;
}

/* Whether the blocks that peers write of a slice may take the place of the blocks that they read.
 * Each is one block then, and a slot is like a buffer of a rank that runs in place. */
static bool can_stage_in_inbox(const struct gyre_plan *plan, const struct gyre_binding *binding)
{
    return binding->safe_in_place && gyre_verb_reduces(plan->shape.verb) &&
           !gyre_verb_scatters(plan->shape.verb);
}

/* -- forms ------------------------------------------------------------------------------------- */

static void form_steps(struct gyre_plan *plan, const struct gyre_plan_options *options,
                       uint32_t lanes)
{
    struct gyre_slice full = gyre_plan_slice(plan, options->n, options->rank, 0);
    struct gyre_slice last = gyre_plan_slice(plan, options->n, options->rank, plan->slices - 1);
    uint32_t most = plan->slices < GYRE_LANES_MAX ? (uint32_t)plan->slices : GYRE_LANES_MAX;
    plan->form = GYRE_FORM_STEPS;
    plan->steps.lanes = lanes < most ? lanes : most;
    plan->steps.extent = gyre_extent_larger(extent_of(plan, full), extent_of(plan, last));
}

static void form_exchange(struct gyre_plan *plan, const struct gyre_plan_options *options,
                          const struct gyre_plan_push *bound)
{
    plan->form = GYRE_FORM_EXCHANGE;
    plan->exchange.moves = bound->full;
    plan->exchange.line_bytes = longest_input(&plan->shape, options->n);
    plan->exchange.published_bytes = bound->read_by_peers ? plan->input_bytes : 0;
    free(bound->last);
}

static int form_push(struct gyre_plan *plan, const struct gyre_plan_options *options,
                     const struct gyre_plan_push *bound, const struct gyre_binding *binding)
{
    struct gyre_plan_push *push = &plan->push;
    plan->form = GYRE_FORM_PUSH;
    *push = *bound;
    push->stage_in_place = !binding->safe_in_place;
    push->stage_in_inbox = can_stage_in_inbox(plan, binding);
    if (!plan->stream && !plan->shape.fold)
        push->store_policy = calloc(1, sizeof(*push->store_policy)); /* NULL: without a policy */
    return bind_spread(plan, options);
}

static int choose_form(struct gyre_plan *plan, const struct gyre_plan_options *options,
                       uint32_t lanes)
{
    struct gyre_plan_push bound;
    struct gyre_binding binding = {0};
    bool small = plan->slices == 1 && !plan->shape.in_graph &&
                 longest_input(&plan->shape, options->n) <= GYRE_EXCHANGE_MAX;
    bool to_one = !small && plan->shape.verb == GYRE_VERB_GATHER;
    if (!options->mapped || !bind_moves(plan, options, to_one, &bound, &binding)) {
        if (binding.lacks_memory)
            return -ENOMEM;
        form_steps(plan, options, lanes);
    } else if (small && binding.stays_at_home) {
        form_exchange(plan, options, &bound);
    } else if (binding.safe_in_place || binding.stays_at_home) {
        return form_push(plan, options, &bound, &binding);
    } else {
        free(bound.full);
        free(bound.last);
        form_steps(plan, options, lanes);
    }
    return 0;
}

static uint64_t fingerprint(const struct gyre_plan *plan, uint32_t n)
{
    uint64_t value = gyre_mix64(plan->signature) ^ gyre_shape_hash(&plan->shape, n);
    for (const char *c = plan->algorithm->name; *c; c++)
        value = gyre_mix64(value + (uint8_t)*c);
    return gyre_mix64(gyre_mix64(value) ^ plan->slice_count ^ ((uint64_t)plan->form << 60));
}

/* The bytes of all buffers of all ranks. */
static uint64_t shape_all_bytes(const struct gyre_shape *shape, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < n; rank++)
        bytes += gyre_shape_input_bytes(shape, n, rank) + gyre_shape_output_bytes(shape, n, rank);
    return bytes;
}

/* Copies the caller's tables of unequal blocks, which end with its call. */
static int copy_blocks(struct gyre_plan *plan, uint32_t n, struct gyre_trouble *trouble)
{
    const struct gyre_shape given = plan->shape;
    uint64_t *count = malloc(2 * (uint64_t)n * sizeof(*count));
    if (!count)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a plan of %u ranks", n);
    uint64_t *at = count + n;
    for (uint32_t block = 0; block < n; block++) {
        count[block] = given.blocks.count[block];
        at[block] = gyre_shape_block_at(&given, block);
    }
    plan->blocks = (struct gyre_blocks){at, count};
    plan->shape.blocks = (struct gyre_blocks){given.blocks.at ? at : NULL, count};
    return 0;
}

static enum gyre_signature_verb told_verb(const struct gyre_shape *shape)
{
    if (shape->barrier)
        return GYRE_SIGNATURE_BARRIER;
    return shape->blocks.count ? GYRE_SIGNATURE_ALL_GATHER_V
                               : (enum gyre_signature_verb)shape->verb;
}

/* The reduction's number for messages. A scaled sum and a function may have one number on two
 * ranks, and are not the same. */
static uint32_t told_op(const struct gyre_shape *shape)
{
    bool scaled = shape->fold && !shape->in_order;
    return shape->op + (scaled ? GYRE_SIGNATURE_SCALED - GYRE_SIGNATURE_FUNCTION : 0);
}

/* Fills in the fields that follow from the choice of an algorithm and from the shape. */
static int settle_plan(struct gyre_plan *plan, const struct gyre_plan_options *options,
                       const struct gyre_choice *choice)
{
    const struct gyre_shape *shape = &plan->shape;
    const struct gyre_reduce_table *table =
        gyre_reduce_table_for(GYRE_MEMORY_HOST, shape->count * plan->element);
    plan->algorithm = choice->algorithm;
    plan->small = choice->small;
    plan->fold = shape->fold ? shape->fold : table->fold[shape->type][shape->op];
    plan->copy = table->fold[GYRE_U8][GYRE_MAX]; /* the maximum of one byte is that byte */
    plan->divisor = gyre_verb_reduces(shape->verb) && shape->op == GYRE_AVG ? options->n : 0;
    plan->stream = shape_all_bytes(shape, options->n) > gyre_cpu_cache_bytes();
    plan->signature =
        gyre_signature_pack(told_verb(shape), shape->type, told_op(shape), shape->root) |
        gyre_signature_calls(shape->calls);
    plan->input_bytes = gyre_shape_input_bytes(shape, options->n, options->rank);
    plan->output_bytes = gyre_shape_output_bytes(shape, options->n, options->rank);
    plan->in_place = gyre_shape_distance(shape, options->rank);
    cut(plan, choice->slice_bytes);
    int status = choose_form(plan, options, choice->lanes);
    plan->fingerprint = fingerprint(plan, options->n);
    return status;
}

int gyre_plan_create(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                     struct gyre_plan **out, struct gyre_trouble *trouble)
{
    struct gyre_plan *plan = calloc(1, sizeof(*plan));
    struct gyre_shape question = *shape;
    struct gyre_choice choice;
    if (!plan)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a plan");
    plan->shape = *shape;
    plan->element = (uint32_t)gyre_type_size(shape->type);
    plan->layout = options->layout;
    int status = shape->blocks.count ? copy_blocks(plan, options->n, trouble) : 0;
    question.blocks = plan->blocks;
    if (!status)
        status = gyre_select(&question, options, &choice, trouble);
    if (!status && (status = settle_plan(plan, options, &choice)))
        gyre_trouble_set(trouble, status, "no memory to bind a plan of %u ranks", options->n);
    if (status) {
        gyre_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return 0;
}

bool gyre_plan_bind_whole(struct gyre_plan *plan, uint32_t n, uint32_t rank)
{
    struct gyre_slice slice = gyre_plan_slice(plan, n, rank, 0);
    struct gyre_plan_push *push = &plan->push;
    struct gyre_binding binding;
    if (push->whole)
        return true;
    slice.count = plan->shape.count;
    push->whole = gyre_bind_rank_moves(plan->algorithm, &slice, push->copier, &binding);
    if (!push->whole || binding.safe_in_place || binding.stays_at_home)
        return push->whole;
    free(push->whole);
    push->whole = NULL;
    return false;
}

static void push_destroy(struct gyre_plan_push *push)
{
    free(push->full);
    free(push->last);
    free(push->spread_full);
    free(push->spread_last);
    free(push->whole);
    free(push->store_policy);
}

void gyre_plan_destroy(struct gyre_plan *plan)
{
    if (!plan)
        return;
    if (plan->form == GYRE_FORM_EXCHANGE)
        free(plan->exchange.moves);
    if (plan->form == GYRE_FORM_PUSH)
        push_destroy(&plan->push);
    free((uint64_t *)(uintptr_t)plan->blocks.count);
    free(plan);
}
