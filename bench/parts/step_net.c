/* See step_net.h. One step is what src/train/step.c makes of it:
 *
 *     begin ─▶ forward ─▶ loss ─▶ backward (tells each gradient when ready) ─▶ wait ─▶ update
 *
 * With communication off gradients are put, not added, although the engine would add them up: a
 * product that adds reads its result too, and the figure would no longer be that of the same
 * step. */
#include "parts/step_net.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/size.h"
#include "model/learning/init.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define ALIGN 64u
#define SEED  1

/* Small enough that random labels, which teach nothing, leave the losses finite. */
#define RATE 1e-3

static int no_memory(struct step_net *net)
{
    return gyre_trouble_set(&net->trouble, -ENOMEM, "no memory for the model");
}

/* What the library said. */
static int pass_on(struct step_net *net, int status)
{
    return status ? gyre_trouble_set(&net->trouble, status, "%s", gyre_error(net->comm)) : 0;
}

/* -- open -------------------------------------------------------------------------------------- */

static int place_values(struct step_net *net)
{
    uint64_t floats = 0, at = 0;
    net->parameters = gyre_model_parameters(net->model, &net->parameter);
    for (int i = 0; i < net->parameters; i++) {
        net->weights += net->parameter[i]->count;
        floats += gyre_round_up(net->parameter[i]->count, ALIGN / sizeof(float));
    }
    net->values = aligned_alloc(ALIGN, (floats + ALIGN) * sizeof(float));
    if (!net->values)
        return no_memory(net);
    for (int i = 0; i < net->parameters; i++) {
        net->parameter[i]->value = net->values + at;
        at += gyre_round_up(net->parameter[i]->count, ALIGN / sizeof(float));
    }
    gyre_init_parameters(net->parameter, net->parameters, SEED);
    return 0;
}

static int make_data(struct step_net *net)
{
    const struct step_settings *s = net->settings;
    size_t numbers = s->batch * s->width[0];
    struct gyre_rng rng;
    gyre_rng_seed(&rng, SEED + (uint64_t)gyre_rank(net->comm));
    net->x = malloc((numbers + 1) * sizeof *net->x);
    net->labels = malloc(s->batch * sizeof *net->labels);
    if (!net->x || !net->labels)
        return no_memory(net);
    for (size_t i = 0; i < numbers; i++)
        net->x[i] = (float)(gyre_rng_next(&rng) >> 40) * 0x1p-24f;
    for (size_t i = 0; i < s->batch; i++)
        net->labels[i] = (int64_t)(gyre_rng_below(&rng, s->width[s->widths - 1]));
    if (s->plant)
        net->x[numbers - 1] = NAN;
    return 0;
}

static int make_engine(struct step_net *net)
{
    struct gyre_ddp_options options = GYRE_DDP_OPTIONS_INIT;
    struct gyre_ddp_parameter *all = calloc((size_t)net->parameters, sizeof *all);
    if (!all)
        return no_memory(net);
    for (int i = 0; i < net->parameters; i++) {
        const struct gyre_parameter *p = net->parameter[i];
        all[i] = (struct gyre_ddp_parameter){
            .name = p->name, .type = GYRE_F32, .dimensions = p->dims, .value = p->value};
        for (int d = 0; d < p->dims; d++)
            all[i].shape[d] = p->shape[d];
    }
    options.bucket_cap = net->settings->bucket;
    options.unscaled = 1;
    options.compare_every = -1; /* silent steps leave ranks with other moments of Adam */
    int status = gyre_ddp_create(&net->ddp, net->comm, all, net->parameters, &options);
    free(all);
    return pass_on(net, status);
}

static void tell_ready(void *context, struct gyre_parameter *parameter)
{
    struct step_net *net = context;
    int i = net->parameters - 1;
    while (i > 0 && net->parameter[i] != parameter)
        i--;
    int status = gyre_ddp_ready(net->ddp, i);
    net->told = net->told ? net->told : status;
}

int step_net_open(struct step_net *net, struct gyre_comm *comm,
                  const struct step_settings *settings)
{
    struct gyre_model_settings model = {settings->batch, GYRE_PRECISION_F32};
    struct gyre_optimizer_settings optimizer = gyre_optimizer_defaults(settings->optimizer);
    *net = (struct step_net){.comm = comm, .settings = settings, .ops = gyre_ops(), .finite = true};
    int status =
        gyre_mlp_create(&net->model, settings->width, settings->widths, &model, &net->trouble);
    if (!status)
        status = place_values(net);
    if (!status)
        status = make_data(net);
    if (!status)
        status = make_engine(net);
    if (!status)
        status = gyre_optimizer_create(&net->optimizer, &optimizer, net->weights, &net->trouble);
    if (!status)
        gyre_model_connect(net->model,
                           &(struct gyre_model_calls){.ready = tell_ready, .ready_context = net});
    return status;
}

void step_net_close(struct step_net *net)
{
    gyre_optimizer_destroy(net->optimizer);
    gyre_ddp_destroy(net->ddp);
    gyre_model_destroy(net->model);
    free(net->values);
    free(net->x);
    free(net->labels);
    *net = (struct step_net){0};
}

/* -- a step ------------------------------------------------------------------------------------ */

static int compute(struct step_net *net, struct gyre_loss *loss)
{
    const struct step_settings *s = net->settings;
    const float *outputs;
    for (int i = 0; i < net->parameters; i++)
        net->parameter[i]->gradient = gyre_ddp_gradient(net->ddp, i);
    int status = gyre_model_forward(net->model, net->x, s->batch, true, &outputs, &net->trouble);
    if (!status)
        status = gyre_loss_cross_entropy(
            net->ops, outputs, net->labels, s->batch, s->width[s->widths - 1], 1,
            gyre_model_output_gradient(net->model), loss, &net->trouble);
    if (!status)
        status = gyre_model_backward(net->model, false, &net->trouble);
    return status ? status : pass_on(net, net->told);
}

static void update(struct step_net *net, double factor, double rate)
{
    size_t at = 0;
    gyre_optimizer_begin(net->optimizer, rate);
    for (int i = 0; i < net->parameters; i++) {
        const struct gyre_parameter *p = net->parameter[i];
        gyre_optimizer_apply(net->optimizer, at, p->count, p->value, gyre_ddp_gradient(net->ddp, i),
                             (float)factor);
        at += p->count;
    }
}

static int run_one(struct step_net *net, bool travels)
{
    struct gyre_loss loss = {0};
    double factor = 1.0 / (double)net->settings->batch;
    int status = pass_on(net, gyre_ddp_begin(net->ddp, net->settings->batch));
    if (!status)
        status = compute(net, &loss);
    if (!status)
        status = pass_on(net, gyre_ddp_add(net->ddp, 0, loss.sum));
    if (!status)
        status = pass_on(net, gyre_ddp_wait(net->ddp));
    if (status)
        return status;
    net->finite &= isfinite(loss.sum) != 0;
    if (travels) {
        const struct gyre_ddp_result *result = gyre_ddp_result(net->ddp);
        net->finite &= isfinite(result->sum[0]) && !result->nonfinite;
        factor = result->factor;
    }
    update(net, factor, travels ? RATE : 0);
    return 0;
}

int step_net_run(struct step_net *net, int steps, double *waited)
{
    int status = 0;
    for (int i = 0; !status && i < steps; i++) {
        status = run_one(net, true);
        if (waited)
            waited[i] = (double)gyre_ddp_result(net->ddp)->waited_ns / 1e9;
    }
    return status;
}

int step_net_run_silent(struct step_net *net, int steps, double *seconds)
{
    int status = pass_on(net, gyre_ddp_no_sync(net->ddp, 1));
    uint64_t since = gyre_now_ns();
    for (int i = 0; !status && i < steps; i++)
        status = run_one(net, false);
    *seconds = (double)(gyre_now_ns() - since) / 1e9;
    if (!status)
        status = pass_on(net, gyre_ddp_no_sync(net->ddp, 0));
    return status ? status : run_one(net, true);
}
