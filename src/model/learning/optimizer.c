/* See optimizer.h. Constants are doubles until they meet a float, as in Python. */
#include "model/learning/optimizer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const gyre_optimizer_names[] = {
    [GYRE_SGD] = "sgd", [GYRE_ADAM] = "adam", [GYRE_ADAMW] = "adamw", NULL};

struct gyre_optimizer_settings gyre_optimizer_defaults(enum gyre_optimizer_kind kind)
{
    return (struct gyre_optimizer_settings){
        .kind = kind,
        .weight_decay = kind == GYRE_ADAMW ? 0.01 : 0,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
    };
}

/* -- settings ---------------------------------------------------------------------------------- */

static int check_range(const char *name, double value, double end, struct gyre_trouble *trouble)
{
    if (value >= 0 && value < end)
        return 0;
    if (isinf(end))
        return gyre_trouble_set(trouble, GYRE_INVALID, "%s is %g: expected 0 or more", name, value);
    return gyre_trouble_set(trouble, GYRE_INVALID, "%s is %g: expected 0 or more and less than %g",
                            name, value, end);
}

static int check_sgd(const struct gyre_optimizer_settings *s, struct gyre_trouble *trouble)
{
    int status = check_range("momentum", s->momentum, INFINITY, trouble);
    if (!status && !isfinite(s->dampening))
        status = gyre_trouble_set(trouble, GYRE_INVALID, "dampening is %g: expected a number",
                                  s->dampening);
    if (!status && s->nesterov && (s->momentum == 0 || s->dampening != 0))
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "nesterov with momentum %g and dampening %g: it needs a momentum "
                                  "and no dampening",
                                  s->momentum, s->dampening);
    return status;
}

int gyre_optimizer_check(const struct gyre_optimizer_settings *s, struct gyre_trouble *trouble)
{
    int status = check_range("weight decay", s->weight_decay, INFINITY, trouble);
    if (status)
        return status;
    if (s->kind == GYRE_SGD)
        return check_sgd(s, trouble);
    status = check_range("beta1", s->beta1, 1, trouble);
    if (!status)
        status = check_range("beta2", s->beta2, 1, trouble);
    if (!status)
        status = check_range("epsilon", s->epsilon, INFINITY, trouble);
    return status;
}

/* -- making and ending ------------------------------------------------------------------------- */

int gyre_optimizer_states(const struct gyre_optimizer_settings *settings, const char *name[2])
{
    const bool sgd = settings->kind == GYRE_SGD;
    name[0] = sgd ? "momentum_buffer" : "exp_avg";
    name[1] = "exp_avg_sq";
    return sgd ? settings->momentum != 0 : 2;
}

int gyre_optimizer_create(struct gyre_optimizer **out, struct gyre_processor *on,
                          const struct gyre_optimizer_settings *settings, size_t count,
                          struct gyre_trouble *trouble)
{
    int status = gyre_optimizer_check(settings, trouble);
    if (status)
        return status;
    struct gyre_optimizer *optimizer = calloc(1, sizeof *optimizer);
    if (!optimizer)
        goto fail;
    optimizer->settings = *settings;
    optimizer->on = on;
    optimizer->count = count;
    optimizer->states = gyre_optimizer_states(settings, optimizer->state_name);
    for (int i = 0; i < optimizer->states; i++) {
        optimizer->state[i] = gyre_processor_alloc(on, count * sizeof(float), trouble,
                                                   "the optimiser's %s of %zu numbers",
                                                   optimizer->state_name[i], count);
        if (!optimizer->state[i])
            goto fail;
    }
    *out = optimizer;
    return 0;
fail:
    gyre_optimizer_destroy(optimizer);
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for an optimiser of %zu numbers", count);
}

void gyre_optimizer_destroy(struct gyre_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int i = 0; i < optimizer->states; i++)
        optimizer->on->table->free(optimizer->on, optimizer->state[i]);
    free(optimizer->known);
    free(optimizer);
}

/* -- state, seen from the host ----------------------------------------------------------------- */

int gyre_optimizer_read(const struct gyre_optimizer *optimizer, int state, size_t first,
                        size_t count, float *to, struct gyre_trouble *trouble)
{
    return optimizer->on->table->get(optimizer->on, to, optimizer->state[state] + first,
                                     count * sizeof(float), trouble);
}

int gyre_optimizer_write(struct gyre_optimizer *optimizer, int state, size_t first, size_t count,
                         const float *from, struct gyre_trouble *trouble)
{
    return optimizer->on->table->put(optimizer->on, optimizer->state[state] + first, from,
                                     count * sizeof(float), trouble);
}

/* -- steps ------------------------------------------------------------------------------------- */

struct gyre_update gyre_optimizer_constants(const struct gyre_optimizer_settings *s, double rate,
                                            int64_t t)
{
    struct gyre_update u = {.rate = (float)rate, .weight_decay = (float)s->weight_decay};
    if (s->kind == GYRE_SGD) {
        u.first = t == 1;
        u.momentum = (float)s->momentum;
        u.fresh = u.first ? 1 : (float)(1 - s->dampening);
        u.nesterov = s->nesterov;
        return u;
    }
    if (s->kind == GYRE_ADAMW)
        u.weight_decay = (float)(rate * s->weight_decay);
    u.rate = (float)(rate / (1 - pow(s->beta1, (double)t)));
    u.beta1 = (float)s->beta1;
    u.beta2 = (float)s->beta2;
    u.rest1 = (float)(1 - s->beta1);
    u.rest2 = (float)(1 - s->beta2);
    u.root_of_bias2 = (float)sqrt(1 - pow(s->beta2, (double)t));
    u.epsilon = (float)s->epsilon;
    return u;
}

void gyre_optimizer_begin(struct gyre_optimizer *optimizer, double rate)
{
    optimizer->update = gyre_optimizer_constants(&optimizer->settings, rate, ++optimizer->steps);
}

void gyre_optimizer_apply(const struct gyre_optimizer *optimizer, size_t first, size_t count,
                          float *value, const float *gradient, float factor)
{
    const struct gyre_processor_table *table = optimizer->on->table;
    struct gyre_update constants = optimizer->update;
    float *m = optimizer->state[0], *v = optimizer->state[1];
    constants.factor = factor;
    m = m ? m + first : NULL;
    v = v ? v + first : NULL;
    if (optimizer->settings.kind == GYRE_SGD)
        table->sgd(optimizer->on, value, gradient, m, v, count, &constants);
    else if (optimizer->settings.kind == GYRE_ADAM)
        table->adam(optimizer->on, value, gradient, m, v, count, &constants);
    else
        table->adamw(optimizer->on, value, gradient, m, v, count, &constants);
}

/* -- all at once ------------------------------------------------------------------------------- */

static uint64_t stretch_end(const struct gyre_optimizer *optimizer,
                            const struct gyre_step_span *stretch, size_t count, size_t s)
{
    return s + 1 < count ? stretch[s + 1].at : optimizer->count;
}

/* Memory for as many on both sides, at the first step and where they are more than before. */
static int allocate_stretches(struct gyre_optimizer *optimizer, size_t count,
                              struct gyre_trouble *trouble)
{
    const size_t bytes = count * sizeof *optimizer->known;
    free(optimizer->known);
    optimizer->known = calloc(count, sizeof *optimizer->known);
    optimizer->stretches.stretch =
        gyre_processor_alloc(optimizer->on, bytes, trouble, "the places of %zu parameters", count);
    optimizer->stretches.count = count;
    optimizer->stretches.numbers = optimizer->count;
    return optimizer->known && optimizer->stretches.stretch
               ? 0
               : gyre_trouble_set(trouble, -ENOMEM, "no memory for an optimiser's step");
}

/* Whether the last step on a device had these stretches. */
static bool knows_stretches(const struct gyre_optimizer *optimizer,
                            const struct gyre_step_span *stretch, size_t count)
{
    return optimizer->known && optimizer->stretches.count == count &&
           memcmp(optimizer->known, stretch, count * sizeof *stretch) == 0;
}

/* They seldom change: in the wait of a first step, and with the ranks. */
static int tell_stretches(struct gyre_optimizer *optimizer, const struct gyre_step_span *stretch,
                          size_t count, struct gyre_trouble *trouble)
{
    const size_t bytes = count * sizeof *stretch;
    int status = 0;
    if (knows_stretches(optimizer, stretch, count))
        return 0;
    if (!optimizer->known || optimizer->stretches.count != count)
        status = allocate_stretches(optimizer, count, trouble);
    if (status)
        return status;
    memcpy(optimizer->known, stretch, bytes);
    return optimizer->on->table->put(optimizer->on, (void *)(uintptr_t)optimizer->stretches.stretch,
                                     stretch, bytes, trouble);
}

static int step_at_once(struct gyre_optimizer *optimizer, const struct gyre_step_span *stretch,
                        size_t count, const struct gyre_step_constants *constants, bool judged,
                        struct gyre_trouble *trouble)
{
    static const enum gyre_step_rule rule[] = {
        [GYRE_SGD] = GYRE_RULE_SGD, [GYRE_ADAM] = GYRE_RULE_ADAM, [GYRE_ADAMW] = GYRE_RULE_ADAMW};
    int status = count ? tell_stretches(optimizer, stretch, count, trouble) : 0;
    if (!status && count)
        optimizer->on->table->step_all(optimizer->on, rule[optimizer->settings.kind],
                                       &optimizer->stretches, optimizer->state[0],
                                       optimizer->state[1], constants, judged);
    return status;
}

int gyre_optimizer_apply_all(struct gyre_optimizer *optimizer, const struct gyre_step_span *stretch,
                             size_t count, float factor, struct gyre_trouble *trouble)
{
    const struct gyre_processor_table *table = optimizer->on->table;
    struct gyre_step_constants constants = {.update = {optimizer->update}};
    constants.update[0].factor = factor;
    for (size_t s = 0; !table->step_all && s < count; s++)
        gyre_optimizer_apply(optimizer, stretch[s].at,
                             stretch_end(optimizer, stretch, count, s) - stretch[s].at,
                             stretch[s].value, stretch[s].gradient, factor);
    return table->step_all ? step_at_once(optimizer, stretch, count, &constants, false, trouble)
                           : 0;
}

struct gyre_step_constants gyre_optimizer_judged_by(const struct gyre_optimizer *optimizer,
                                                    double rate, const struct gyre_verdict *verdict)
{
    const struct gyre_optimizer_settings *s = &optimizer->settings;
    const int64_t t = optimizer->steps + 1;
    return (struct gyre_step_constants){
        .update = {gyre_optimizer_constants(s, rate, t), gyre_optimizer_constants(s, rate, t + 1)},
        .verdict = verdict,
        .known = (uint64_t)optimizer->steps};
}

int gyre_optimizer_apply_judged(struct gyre_optimizer *optimizer,
                                const struct gyre_step_span *stretch, size_t count,
                                const struct gyre_step_constants *constants,
                                struct gyre_trouble *trouble)
{
    return step_at_once(optimizer, stretch, count, constants, true, trouble);
}
