/* An engine's values, as the model, and what it keeps where gradients travel as another type: the
 * wire's scale, and of each rank what the type could not hold (the feedback).
 *
 *     model      "0.weight"                 [64, 13]            rank 0's, given to all
 *     training   "wire.feedback.0.weight"   [ranks, 832]        each rank's own
 *                "wire.scale"               []
 *
 * Another number of ranks begins with a feedback of zeros. Addresses are asked for in each pass,
 * because the first step may move them. What is a device's passes through host memory. Tested by
 * tests/program/ddp/checkpoint.c and tests/program/cuda/train.sh. */
#include "base/types.h"
#include "checkpoint/run/engine.h"
#include "checkpoint/run/inside.h"
#include "ddp/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bound_engine {
    struct gyre_bound bound;
    struct gyre_ddp *const *ddp;
    struct gyre_ddp *own; /* what `ddp` points to, where the caller has given the engine itself */
    double scale;
    float *gathered; /* rank 0, while a pass saves the feedback of all ranks */
    uint8_t *home;   /* in a pass, where values are a device's: all of them, one after the other */
    uint64_t *at;    /* the same: where each begins */
    float *room;     /* the same: for one parameter */
};

static const char feedback_name[] = "wire.feedback.%s";

/* -- listed ------------------------------------------------------------------------------------ */

static int check_engine(const struct bound_engine *b, struct gyre_trouble *trouble)
{
    const struct gyre_ddp *ddp = *b->ddp;
    if (!ddp)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the network has no engine: gyre_network_join() comes first");
    if (gyre_ddp_comm(ddp) != b->bound.comm)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "the engine has another communicator than the checkpoint");
    if (gyre_ddp_in_step(ddp))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "within a step: gyre_ddp_wait() and the update come first");
    return 0;
}

static bool keeps_feedback(struct gyre_ddp *ddp)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(ddp, &item), i = 0;
    while (i < items && !gyre_ddp_feedback(ddp, (int)i))
        i++;
    return i < items;
}

/* Does this pass move the feedback? Alike on all ranks. */
static bool moves_feedback(const struct bound_engine *b, const struct gyre_run_pass *pass)
{
    if (!keeps_feedback(*b->ddp))
        return false;
    return pass->loading ? pass->wired && pass->world == (uint64_t)gyre_size(b->bound.comm)
                         : gyre_ddp_wire_scale(*b->ddp) > 0;
}

static uint64_t value_bytes(const struct gyre_ddp_item *item)
{
    return item->elements * gyre_type_size(item->type);
}

/* In host memory. */
static void *value_at(const struct bound_engine *b, uint32_t i)
{
    return b->home ? b->home + b->at[i] : gyre_ddp_value(*b->ddp, (int)i);
}

static int allocate_home(struct bound_engine *b)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    uint64_t all = 0, most = 1;
    b->at = calloc((size_t)items + 1, sizeof *b->at);
    for (uint32_t i = 0; b->at && i < items; i++) {
        b->at[i] = all;
        all += value_bytes(&item[i]);
        most = value_bytes(&item[i]) > most ? value_bytes(&item[i]) : most;
    }
    b->home = malloc(all + 1);
    b->room = calloc(1, most);
    return b->at && b->home && b->room ? 0 : -ENOMEM;
}

/* Where values are a device's: memory for them, and to save them, their numbers. */
static int bring_values_home(struct bound_engine *b, struct gyre_run_pass *pass)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    int status = 0;
    if (!gyre_ddp_on_device(*b->ddp))
        return 0;
    if (allocate_home(b))
        return gyre_trouble_set(&pass->trouble, -ENOMEM, "no memory for a copy of the values");
    for (uint32_t i = 0; !status && i < items; i++)
        status = gyre_ddp_bring_home(*b->ddp, value_at(b, i), gyre_ddp_value(*b->ddp, (int)i),
                                     value_bytes(&item[i]));
    return status ? gyre_trouble_set(&pass->trouble, status, "%s", gyre_error(NULL)) : 0;
}

static int list_values(struct bound_engine *b, struct gyre_run_pass *pass)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    int status = bring_values_home(b, pass);
    for (uint32_t i = 0; !status && i < items; i++) {
        const struct gyre_run_form form = {
            GYRE_GENERATION_MODEL, item[i].type == GYRE_F64 ? GYRE_STORED_F64 : GYRE_STORED_F32,
            (uint32_t)item[i].dimensions, item[i].shape};
        gyre_run_items_add(&pass->items, form, value_at(b, i), "%s", item[i].name);
    }
    return status;
}

/* Elements of all parameters that have a feedback. */
static uint64_t feedback_elements(struct gyre_ddp *ddp)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(ddp, &item);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < items; i++)
        sum += gyre_ddp_feedback(ddp, (int)i) ? item[i].elements : 0;
    return sum;
}

static int list_feedback(struct bound_engine *b, struct gyre_run_pass *pass)
{
    const struct gyre_run_form number = {GYRE_GENERATION_TRAINING, GYRE_STORED_F64, 0, NULL};
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    bool gathers = !pass->loading && gyre_rank(b->bound.comm) == 0;
    if (gathers)
        b->gathered = malloc((feedback_elements(*b->ddp) * pass->world + 1) * sizeof(float));
    if (gathers && !b->gathered)
        return gyre_trouble_set(&pass->trouble, -ENOMEM, "no memory for the feedback of all ranks");
    b->scale = gyre_ddp_wire_scale(*b->ddp);
    gyre_run_items_add(&pass->items, number, &b->scale, "wire.scale");
    float *at = b->gathered;
    for (uint32_t i = 0; i < items; i++) {
        const uint64_t shape[] = {pass->world, item[i].elements};
        const struct gyre_run_form form = {GYRE_GENERATION_TRAINING, GYRE_STORED_F32, 2, shape};
        if (!gyre_ddp_feedback(*b->ddp, (int)i))
            continue;
        gyre_run_items_add(&pass->items, form, at, feedback_name, item[i].name);
        at = at ? at + shape[0] * shape[1] : NULL;
    }
    return 0;
}

static int list_engine(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_engine *b = (struct bound_engine *)bound;
    int status = check_engine(b, &pass->trouble);
    if (status)
        return status;
    status = list_values(b, pass);
    return !status && moves_feedback(b, pass) ? list_feedback(b, pass) : status;
}

/* -- examined ---------------------------------------------------------------------------------- */

static bool is_finite(const struct gyre_ddp_item *item, const void *value)
{
    uint64_t i = 0;
    if (item->type == GYRE_F64)
        while (i < item->elements && isfinite(((const double *)value)[i]))
            i++;
    else
        while (i < item->elements && isfinite(((const float *)value)[i]))
            i++;
    return i == item->elements;
}

/* What cannot be used shall not take the place of what can. */
static int refuse_unusable(const struct bound_engine *b, struct gyre_run_pass *pass)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    for (uint32_t i = 0; i < items; i++)
        if (!is_finite(&item[i], value_at(b, i)))
            return gyre_trouble_set(
                &pass->trouble, GYRE_INVALID,
                "step %llu: '%.200s' holds a NaN or an infinity and is not saved; what was saved "
                "before is there still: lower the learning rate, or clip gradients",
                (unsigned long long)pass->step, item[i].name);
    return 0;
}

static int examine_engine(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_engine *b = (struct bound_engine *)bound;
    int exponent;
    if (!pass->loading)
        return refuse_unusable(b, pass);
    if (!moves_feedback(b, pass))
        return 0;
    const struct gyre_ddp_item *item;
    double scale;
    memcpy(&scale, pass->items.item[bound->first + gyre_ddp_items(*b->ddp, &item)].found,
           sizeof scale);
    if (!(scale > 0) || !isfinite(scale) || frexp(scale, &exponent) != 0.5)
        return gyre_trouble_set(&pass->trouble, GYRE_INVALID,
                                "\"wire.scale\" of the checkpoint is %g, which is no power of two",
                                scale);
    return 0;
}

/* -- moved ------------------------------------------------------------------------------------- */

static int collect_engine(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_engine *b = (struct bound_engine *)bound;
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    float *at = b->gathered;
    int status = 0;
    for (uint32_t i = 0; !status && moves_feedback(b, pass) && i < items; i++) {
        const float *feedback = gyre_ddp_feedback(*b->ddp, (int)i);
        if (!feedback)
            continue;
        if (b->room)
            status = gyre_ddp_bring_home(*b->ddp, b->room, feedback, value_bytes(&item[i]));
        if (!status)
            status = gyre_gather(bound->comm, b->room ? b->room : feedback, at, item[i].elements,
                                 GYRE_F32, 0);
        at = at ? at + item[i].elements * pass->world : NULL;
    }
    return status;
}

static int give_values(struct bound_engine *b)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    int status = 0;
    for (uint32_t i = 0; !status && i < items; i++) {
        void *value = value_at(b, i);
        status = gyre_broadcast(b->bound.comm, value, value, value_bytes(&item[i]), GYRE_U8, 0);
        if (!status && b->home)
            status = gyre_ddp_bring_there(*b->ddp, gyre_ddp_value(*b->ddp, (int)i), value,
                                          value_bytes(&item[i]));
    }
    return status;
}

static int give_feedback(struct bound_engine *b, const struct gyre_run_pass *pass)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    uint64_t at = b->bound.first + items + 1;
    int status = gyre_broadcast(b->bound.comm, &b->scale, &b->scale, 1, GYRE_F64, 0);
    if (!status)
        status = gyre_ddp_set_wire_scale(*b->ddp, b->scale);
    for (uint32_t i = 0; !status && i < items; i++) {
        float *feedback = gyre_ddp_feedback(*b->ddp, (int)i);
        if (!feedback)
            continue;
        status = gyre_scatter(b->bound.comm, pass->items.item[at++].found,
                              b->room ? b->room : feedback, value_bytes(&item[i]), GYRE_U8, 0);
        if (!status && b->room)
            status = gyre_ddp_bring_there(*b->ddp, feedback, b->room, value_bytes(&item[i]));
    }
    return status;
}

static int forget_feedback(struct bound_engine *b)
{
    const struct gyre_ddp_item *item;
    uint32_t items = gyre_ddp_items(*b->ddp, &item);
    int status = 0;
    for (uint32_t i = 0; !status && i < items; i++) {
        float *feedback = gyre_ddp_feedback(*b->ddp, (int)i);
        if (!feedback)
            continue;
        memset(b->room ? b->room : feedback, 0, value_bytes(&item[i]));
        if (b->room)
            status = gyre_ddp_bring_there(*b->ddp, feedback, b->room, value_bytes(&item[i]));
    }
    return status;
}

static int give_engine(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct bound_engine *b = (struct bound_engine *)bound;
    int status = give_values(b);
    bool moves = moves_feedback(b, pass);
    if (keeps_feedback(*b->ddp) && !moves) {
        bound->lost = "wire.feedback";
        int forgotten = forget_feedback(b);
        status = status ? status : forgotten;
    }
    return status || !moves ? status : give_feedback(b, pass);
}

static void release_engine(struct gyre_bound *bound)
{
    struct bound_engine *b = (struct bound_engine *)bound;
    free(b->gathered);
    free(b->home);
    free(b->at);
    free(b->room);
    b->gathered = b->room = NULL;
    b->home = NULL;
    b->at = NULL;
}

/* -- added ------------------------------------------------------------------------------------- */

static struct bound_engine *bind_engine(struct gyre_checkpoint *c)
{
    static const struct gyre_bound_kind kind = {.list = list_engine,
                                                .examine = examine_engine,
                                                .collect = collect_engine,
                                                .give = give_engine,
                                                .release = release_engine};
    return gyre_run_bind(c, &kind, sizeof(struct bound_engine));
}

int gyre_run_add_engine(struct gyre_checkpoint *c, struct gyre_ddp *const *ddp)
{
    struct bound_engine *b = bind_engine(c);
    if (b)
        b->ddp = ddp;
    return b ? 0 : -ENOMEM;
}

int gyre_checkpoint_add_ddp(struct gyre_checkpoint *c, struct gyre_ddp *ddp)
{
    if (!c || !ddp)
        return gyre_refuse("gyre_checkpoint_add_ddp: the %s is NULL", c ? "engine" : "checkpoint");
    struct bound_engine *b = bind_engine(c);
    if (!b)
        return -ENOMEM;
    b->own = ddp;
    b->ddp = &b->own;
    return 0;
}
