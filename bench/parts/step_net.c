/* See step_net.h. A step is that of src/train/step.c:
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

static int make_replica(struct step_net *net)
{
    const struct step_settings *s = net->settings;
    struct gyre_model_settings settings = {s->batch, GYRE_PRECISION_F32};
    struct gyre_model *model;
    int status = gyre_mlp_create(&model, s->width, s->widths, &settings, &net->trouble);
    if (status)
        return status;
    struct gyre_optimizer_settings optimizer = gyre_optimizer_defaults(s->optimizer);
    if (gyre_replica_init(&net->replica, model, &optimizer, &net->trouble))
        return no_memory(net);
    for (int i = 0; i < net->replica.parameters; i++)
        net->weights += net->replica.parameter[i]->count;
    gyre_init_parameters(net->replica.parameter, net->replica.parameters, SEED);
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
    options.bucket_cap = net->settings->bucket;
    options.unscaled = 1;
    options.compare_every = -1; /* silent steps leave ranks with other moments of Adam */
    int status = pass_on(net, gyre_replica_join(&net->replica, net->comm, &options));
    if (!status) /* pieces are whole parameters, which no cut changes */
        status = gyre_replica_make_optimizer(&net->replica, &net->trouble);
    return status;
}

int step_net_open(struct step_net *net, struct gyre_comm *comm,
                  const struct step_settings *settings)
{
    *net = (struct step_net){.comm = comm, .settings = settings, .finite = true};
    int status = make_replica(net);
    if (!status)
        status = make_data(net);
    return status ? status : make_engine(net);
}

void step_net_close(struct step_net *net)
{
    gyre_replica_deinit(&net->replica);
    free(net->x);
    free(net->labels);
    *net = (struct step_net){0};
}

/* -- a step ------------------------------------------------------------------------------------ */

static int compute(struct step_net *net, struct gyre_loss *loss)
{
    const struct gyre_wanted wanted = {.labels = net->labels};
    gyre_replica_bind(&net->replica);
    int status = gyre_replica_forward(&net->replica, net->x, net->settings->batch, true, wanted,
                                      &net->trouble);
    if (!status)
        status = gyre_replica_backward(&net->replica, false, true, &net->trouble);
    if (!status)
        status = gyre_replica_take_loss(&net->replica, loss, &net->trouble);
    return pass_on(net, status);
}

static int run_one(struct step_net *net, bool travels)
{
    struct gyre_loss loss = {0};
    int status = pass_on(net, gyre_ddp_begin(net->replica.ddp, net->settings->batch));
    if (!status)
        status = compute(net, &loss);
    if (!status)
        status = pass_on(net, gyre_ddp_add(net->replica.ddp, 0, loss.sum));
    if (!status)
        status = pass_on(net, gyre_ddp_wait(net->replica.ddp));
    if (status)
        return status;
    net->finite &= isfinite(loss.sum) != 0;
    if (travels) {
        const struct gyre_ddp_result *result = gyre_ddp_result(net->replica.ddp);
        net->finite &= isfinite(result->sum[0]) && !result->nonfinite;
    }
    status = gyre_replica_update(&net->replica, travels ? RATE : 0, &net->trouble);
    return *net->trouble.text ? status : pass_on(net, status);
}

int step_net_run(struct step_net *net, int steps, double *waited)
{
    int status = 0;
    for (int i = 0; !status && i < steps; i++) {
        status = run_one(net, true);
        if (waited)
            waited[i] = (double)gyre_ddp_result(net->replica.ddp)->waited_ns / 1e9;
    }
    return status;
}

int step_net_run_silent(struct step_net *net, int steps, double *seconds)
{
    int status = pass_on(net, gyre_ddp_no_sync(net->replica.ddp, 1));
    uint64_t since = gyre_now_ns();
    for (int i = 0; !status && i < steps; i++)
        status = run_one(net, false);
    *seconds = (double)(gyre_now_ns() - since) / 1e9;
    if (!status)
        status = pass_on(net, gyre_ddp_no_sync(net->replica.ddp, 0));
    return status ? status : run_one(net, true);
}
