/* A replica's optimiser and loss scale, by PyTorch's names:
 *
 *     "optimizer.exp_avg.0.weight"   [64, 13]     whole, whichever ranks hold pieces of it
 *     "optimizer.step"               []
 *     "scaler.scale", "scaler._growth_tracker"    also where no loss is scaled
 *
 * Before the first step there is no optimiser. It is saved as zeros, and loading leaves its state
 * with the replica until it is made. Tested by tests/program/ddp/checkpoint.c. */
#include "checkpoint/run/engine.h"
#include "checkpoint/run/inside.h"
#include "model/network/state.h"

#include <errno.h>
#include <string.h>

struct bound_optimizer {
    struct gyre_bound bound;
    struct gyre_replica *replica;
    struct gyre_whole_states states; /* in a pass */
    int64_t steps, growth;
    double scale;
};

enum { STEPS, GROWTH, SCALE, NUMBERS }; /* the first items, then states */

/* -- listed ------------------------------------------------------------------------------------ */

static void list_scaler(struct bound_optimizer *b, struct gyre_run_pass *pass)
{
    const struct gyre_replica *r = b->replica;
    const struct gyre_run_form whole = {GYRE_GENERATION_TRAINING, GYRE_STORED_I64, 0, NULL};
    const struct gyre_run_form real = {GYRE_GENERATION_TRAINING, GYRE_STORED_F64, 0, NULL};
    b->steps = r->optimizer ? r->optimizer->steps : r->resumed_steps;
    b->growth = r->scaler.growth_tracker;
    b->scale = (double)r->scaler.scale;
    gyre_run_items_add(&pass->items, whole, &b->steps, "optimizer.step");
    gyre_run_items_add(&pass->items, whole, &b->growth, "scaler._growth_tracker");
    gyre_run_items_add(&pass->items, real, &b->scale, "scaler.scale");
}

static void list_states(struct bound_optimizer *b, struct gyre_run_pass *pass)
{
    const char *name[2];
    int states = gyre_optimizer_states(&b->replica->settings, name);
    for (int s = 0; s < states; s++) {
        float *at = b->states.whole[s];
        for (int i = 0; i < b->replica->parameters; i++) {
            const struct gyre_ddp_parameter *as = &b->replica->host_item[i];
            const struct gyre_run_form form = {GYRE_GENERATION_TRAINING, GYRE_STORED_F32,
                                               (uint32_t)as->dimensions, as->shape};
            gyre_run_items_add(&pass->items, form, at, "optimizer.%s.%s", name[s], as->name);
            at = at ? at + b->replica->parameter[i]->count : NULL;
        }
    }
}

static int list_optimizer(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_optimizer *b = (struct bound_optimizer *)bound;
    if (gyre_replica_allocate_states(b->replica, &b->states))
        return gyre_trouble_set(&pass->trouble, -ENOMEM, "no memory for the optimiser's state");
    list_scaler(b, pass);
    list_states(b, pass);
    return 0;
}

/* -- examined ---------------------------------------------------------------------------------- */

static int examine_optimizer(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_optimizer *b = (struct bound_optimizer *)bound;
    const struct gyre_run_item *item = &pass->items.item[bound->first];
    struct gyre_scaler scaler = b->replica->scaler;
    int64_t steps;
    double scale;
    if (!pass->loading)
        return 0;
    memcpy(&steps, item[STEPS].found, sizeof steps);
    memcpy(&scale, item[SCALE].found, sizeof scale);
    scaler.scale = (float)scale;
    if (steps < 0)
        return gyre_trouble_set(&pass->trouble, GYRE_INVALID,
                                "\"optimizer.step\" of the checkpoint is %lld", (long long)steps);
    return gyre_scaler_check(&scaler, &pass->trouble);
}

/* -- moved ------------------------------------------------------------------------------------- */

static int collect_optimizer(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_optimizer *b = (struct bound_optimizer *)bound;
    return gyre_replica_collect_states(b->replica, &b->states, &pass->trouble);
}

/* To the optimiser, or to whoever makes it. */
static int give_states(struct bound_optimizer *b, struct gyre_trouble *trouble)
{
    struct gyre_replica *r = b->replica;
    if (r->optimizer) {
        r->optimizer->steps = b->steps;
        return gyre_replica_spread_states(r, &b->states, trouble);
    }
    gyre_whole_states_free(&r->resumed);
    r->resumed = b->states;
    r->resumed_steps = b->steps;
    b->states = (struct gyre_whole_states){0};
    return 0;
}

static int give_optimizer(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_optimizer *b = (struct bound_optimizer *)bound;
    struct gyre_scaler *scaler = &b->replica->scaler;
    int64_t whole[] = {b->steps, b->growth};
    int status = gyre_broadcast(bound->comm, whole, whole, 2, GYRE_I64, 0);
    if (!status)
        status = gyre_broadcast(bound->comm, &b->scale, &b->scale, 1, GYRE_F64, 0);
    if (status)
        return status;
    b->steps = whole[0];
    b->replica->updated = gyre_ddp_result(b->replica->ddp)->number;
    if (scaler->enabled) {
        scaler->growth_tracker = (int32_t)whole[1];
        scaler->scale = (float)b->scale;
    }
    return give_states(b, &pass->trouble);
}

static void release_optimizer(struct gyre_bound *bound)
{
    gyre_whole_states_free(&((struct bound_optimizer *)bound)->states);
}

int gyre_run_add_optimizer(struct gyre_checkpoint *c, struct gyre_replica *replica)
{
    static const struct gyre_bound_kind kind = {.list = list_optimizer,
                                                .examine = examine_optimizer,
                                                .collect = collect_optimizer,
                                                .give = give_optimizer,
                                                .release = release_optimizer};
    struct bound_optimizer *b = gyre_run_bind(c, &kind, sizeof *b);
    if (b)
        b->replica = replica;
    return b ? 0 : -ENOMEM;
}
