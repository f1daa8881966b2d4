/* The networks of gyre/model.h: a replica (replica.h), what is asked of it looked at, and failures
 * told by gyre_error(NULL).
 *
 *   network.c   networks
 *   samples.c   data sets
 *   file.c      values in a file
 *   update.c    the end of a step, for the trainer too
 *   state.c     the optimiser's state of all ranks
 *   replica.c   values and engine, for the trainer too
 *   late.c      steps that are graphs, for the trainer too
 *
 * The caller ends a step by gyre_ddp_wait(), so values and gradients are bound anew in each call.
 * Learning promises the loss when it returns, so it begins and ends the batch whose launches are
 * graphs; wait and update are launches. */
#include "ddp/engine.h"
#include "model/learning/init.h"
#include "model/network/file.h"
#include "model/network/late.h"
#include "model/network/network.h"
#include "model/network/update.h"

#include <errno.h>
#include <gyre/model.h>
#include <math.h>
#include <stdlib.h>

struct gyre_network {
    struct gyre_replica replica;
    uint64_t batch;
};

/* This thread's record of failures, empty. */
static struct gyre_trouble *fresh_trouble(void)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    trouble->status = 0;
    trouble->text[0] = 0;
    return trouble;
}

/* A failure of the engine: the communicator has the story, unless this thread was told already. */
static int told(struct gyre_network *network, int status)
{
    const char *story = gyre_error(network->replica.comm);
    if (status < 0 && !gyre_thread_trouble()->status)
        gyre_trouble_set(fresh_trouble(), status, "%s", *story ? story : gyre_status_name(status));
    return status;
}

static int check_network_options(const struct gyre_network_options *options)
{
    if (gyre_check_size("gyre_network_options", options->size, sizeof *options,
                        gyre_thread_trouble()))
        return GYRE_INVALID;
    if ((unsigned)options->method > GYRE_NETWORK_ADAMW)
        return gyre_refuse("gyre_network_options.method %d is unknown", (int)options->method);
    if (options->precision != GYRE_F32 && options->precision != GYRE_BF16 &&
        options->precision != GYRE_F16)
        return gyre_refuse("gyre_network_options.precision %d: GYRE_F32, GYRE_BF16 or GYRE_F16 is "
                           "expected",
                           (int)options->precision);
    if (options->device < -1)
        return gyre_refuse("gyre_network_options.device %d: the number of a CUDA device, or -1 for "
                           "the CPU, is expected",
                           options->device);
    return 0;
}

/* -- construction ------------------------------------------------------------------------------ */

static struct gyre_optimizer_settings settings_of(const struct gyre_network_options *options)
{
    static const enum gyre_optimizer_kind kind[] = {GYRE_SGD, GYRE_ADAM, GYRE_ADAMW};
    struct gyre_optimizer_settings settings = gyre_optimizer_defaults(kind[options->method]);
    if (!(options->weight_decay < 0))
        settings.weight_decay = options->weight_decay;
    settings.momentum = options->momentum;
    settings.dampening = options->dampening;
    settings.nesterov = options->nesterov;
    settings.beta1 = options->beta1;
    settings.beta2 = options->beta2;
    settings.epsilon = options->epsilon;
    return settings;
}

static struct gyre_model_settings model_settings_of(const struct gyre_network_options *options)
{
    static const enum gyre_precision precision[] = {[GYRE_F32] = GYRE_PRECISION_F32,
                                                    [GYRE_BF16] = GYRE_PRECISION_BF16,
                                                    [GYRE_F16] = GYRE_PRECISION_F16};
    struct gyre_model_settings settings = {.batch = options->batch,
                                           .precision = precision[options->precision]};
    if (options->device >= 0) {
        settings.kind = GYRE_MEMORY_CUDA;
        settings.device = options->device;
    }
    return settings;
}

static int start_values(struct gyre_replica *r, const struct gyre_network_options *options)
{
    gyre_init_parameters(r->parameter, r->parameters, options->seed);
    gyre_init_buffers(r->buffer, r->buffers);
    return options->file ? gyre_replica_load(r, options->file, fresh_trouble()) : 0;
}

/* Takes the model over, also where it fails. */
static int make_network(struct gyre_network **out, struct gyre_model *model,
                        const struct gyre_network_options *options)
{
    struct gyre_network *n = calloc(1, sizeof *n);
    if (!n) {
        gyre_model_destroy(model);
        return gyre_trouble_set(fresh_trouble(), -ENOMEM, "no memory for a network");
    }
    n->batch = options->batch;
    const struct gyre_optimizer_settings settings = settings_of(options);
    int status = gyre_replica_init(&n->replica, model, &settings, fresh_trouble());
    n->replica.late.repeats = true;
    if (!status)
        status = gyre_optimizer_check(&settings, fresh_trouble()); /* not in the first update */
    if (!status)
        status = start_values(&n->replica, options);
    if (status)
        gyre_network_destroy(n);
    else
        *out = n;
    return status;
}

int gyre_network_perceptron(struct gyre_network **network, const uint64_t *widths, int count,
                            const struct gyre_network_options *options)
{
    const struct gyre_network_options standard = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_model *model;
    if (!network)
        return gyre_refuse("gyre_network_perceptron: nowhere to put the network (NULL)");
    *network = NULL;
    if (!widths)
        return gyre_refuse("gyre_network_perceptron: no widths (NULL)");
    options = options ? options : &standard;
    int status = check_network_options(options);
    if (status)
        return status;
    const struct gyre_model_settings settings = model_settings_of(options);
    status = gyre_mlp_create(&model, widths, count, &settings, fresh_trouble());
    return status ? status : make_network(network, model, options);
}

int gyre_network_convnet(struct gyre_network **network, uint64_t channels, uint64_t height,
                         uint64_t width, uint64_t classes,
                         const struct gyre_network_options *options)
{
    const struct gyre_network_options standard = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_model *model;
    if (!network)
        return gyre_refuse("gyre_network_convnet: nowhere to put the network (NULL)");
    *network = NULL;
    options = options ? options : &standard;
    int status = check_network_options(options);
    if (status)
        return status;
    const struct gyre_model_settings settings = model_settings_of(options);
    status = gyre_convnet_create(&model, (struct gyre_volume){channels, height, width}, classes,
                                 &settings, fresh_trouble());
    return status ? status : make_network(network, model, options);
}

void gyre_network_destroy(struct gyre_network *network)
{
    if (!network)
        return;
    gyre_replica_deinit(&network->replica);
    free(network);
}

struct gyre_replica *gyre_network_replica(struct gyre_network *network)
{
    return &network->replica;
}

uint64_t gyre_network_inputs(const struct gyre_network *network)
{
    return network ? gyre_volume_count(gyre_model_input(network->replica.model)) : 0;
}

uint64_t gyre_network_outputs(const struct gyre_network *network)
{
    return network ? gyre_model_outputs(network->replica.model) : 0;
}

int gyre_network_parameters(struct gyre_network *network, const struct gyre_ddp_parameter **list)
{
    *list = network ? network->replica.host_item : NULL;
    if (!network)
        return 0;
    gyre_replica_bind(&network->replica);
    return gyre_replica_values_home(&network->replica, fresh_trouble())
               ? 0
               : network->replica.parameters;
}

/* -- the engine -------------------------------------------------------------------------------- */

static int check_join(struct gyre_network *n, struct gyre_comm *comm,
                      const struct gyre_ddp_options *options)
{
    if (!n || !comm)
        return gyre_refuse("gyre_network_join: the %s is NULL", n ? "communicator" : "network");
    if (n->replica.ddp)
        return gyre_refuse("gyre_network_join: the network has an engine already");
    if (options && options->buffers.count)
        return gyre_refuse("gyre_network_join: %d buffers, but the network brings its own",
                           options->buffers.count);
    if (options && options->stream)
        return gyre_refuse("gyre_network_join: a stream, but the network computes on its own");
    return 0;
}

int gyre_network_join(struct gyre_network *n, struct gyre_comm *comm,
                      const struct gyre_ddp_options *options, struct gyre_ddp **ddp)
{
    const struct gyre_ddp_options standard = GYRE_DDP_OPTIONS_INIT;
    if (!ddp)
        return gyre_refuse("gyre_network_join: nowhere to put the engine (NULL)");
    *ddp = NULL;
    int status = check_join(n, comm, options);
    if (status)
        return status;
    fresh_trouble();
    status = gyre_replica_join(&n->replica, comm, options ? options : &standard);
    *ddp = n->replica.ddp;
    return told(n, status);
}

/* -- a step ------------------------------------------------------------------------------------ */

static int check_batch(const char *call, const struct gyre_network *n, const float *x,
                       uint64_t samples, const void *wanted)
{
    if (!n)
        return gyre_refuse("%s: the network is NULL", call);
    if (samples > n->batch)
        return gyre_refuse("%s: %llu rows, but gyre_network_options.batch was %llu", call,
                           (unsigned long long)samples, (unsigned long long)n->batch);
    if (samples && (!x || !wanted))
        return gyre_refuse("%s: %llu rows at NULL", call, (unsigned long long)samples);
    return 0;
}

static int check_row_labels(const char *call, const struct gyre_network *n, uint64_t samples,
                            const int64_t *labels)
{
    const uint64_t outputs = gyre_network_outputs(n);
    for (uint64_t i = 0; i < samples; i++)
        if ((uint64_t)labels[i] >= outputs)
            return gyre_refuse("%s: label %lld of row %llu; there are classes 0 … %llu", call,
                               (long long)labels[i], (unsigned long long)i,
                               (unsigned long long)outputs - 1);
    return 0;
}

/* Forward, loss, backward. The host then waits for the loss. */
static int learn_rows(struct gyre_replica *r, const float *x, uint64_t samples,
                      struct gyre_wanted wanted)
{
    struct gyre_loss loss = {0};
    gyre_replica_bind(r);
    gyre_replica_clear_loss(r);
    int status = gyre_replica_forward(r, x, samples, true, wanted, fresh_trouble());
    if (!status)
        status = gyre_replica_backward(r, gyre_ddp_adds(r->ddp), true, fresh_trouble());
    if (!status)
        status = gyre_late_end_batch(r, fresh_trouble());
    if (!status)
        status = gyre_replica_take_loss(r, &loss, fresh_trouble());
    if (!status)
        status = gyre_ddp_add(r->ddp, GYRE_NETWORK_LOSS, loss.sum);
    return status ? status : gyre_ddp_add(r->ddp, GYRE_NETWORK_RIGHT, (double)loss.right);
}

/* The engine refuses a step within another, whose reductions may be under way. */
static int learn(struct gyre_network *n, const float *x, uint64_t samples,
                 struct gyre_wanted wanted)
{
    struct gyre_replica *r = &n->replica;
    fresh_trouble();
    if (samples && !gyre_ddp_in_step(r->ddp))
        gyre_late_begin(r, x, samples);
    int status = gyre_ddp_begin(r->ddp, samples);
    if (!status && samples)
        status = learn_rows(r, x, samples, wanted);
    if (status)
        gyre_repeat_give_up(&r->late.repeat);
    return told(n, status);
}

int gyre_network_learn_classes(struct gyre_network *n, const float *x, uint64_t samples,
                               const int64_t *labels)
{
    int status = check_batch(__func__, n, x, samples, labels);
    if (!status && !n->replica.ddp)
        status = gyre_refuse("%s: gyre_network_join() comes first", __func__);
    if (!status)
        status = check_row_labels(__func__, n, samples, labels);
    return status ? status : learn(n, x, samples, (struct gyre_wanted){.labels = labels});
}

int gyre_network_learn_targets(struct gyre_network *n, const float *x, uint64_t samples,
                               const float *targets)
{
    int status = check_batch(__func__, n, x, samples, targets);
    if (!status && !n->replica.ddp)
        status = gyre_refuse("%s: gyre_network_join() comes first", __func__);
    return status ? status : learn(n, x, samples, (struct gyre_wanted){.targets = targets});
}

int gyre_network_update(struct gyre_network *n, double rate)
{
    if (!n || !n->replica.ddp)
        return gyre_refuse("gyre_network_update: %s",
                           n ? "gyre_network_join() comes first" : "the network is NULL");
    const struct gyre_ddp_result *result = gyre_ddp_result(n->replica.ddp);
    if (result->number == n->replica.updated)
        return gyre_refuse("gyre_network_update: step %llu was applied already; the next one ends "
                           "by gyre_ddp_wait()",
                           (unsigned long long)result->number);
    if (!(rate >= 0) || isinf(rate))
        return gyre_refuse("gyre_network_update: learning rate %g: expected 0 or more", rate);
    n->replica.updated = result->number;
    return result->samples ? told(n, gyre_replica_update(&n->replica, rate, fresh_trouble())) : 0;
}

double gyre_network_loss_scale(const struct gyre_network *n)
{
    return n ? (double)gyre_scaler_scale(&n->replica.scaler) : 1;
}

/* -- evaluation -------------------------------------------------------------------------------- */

int gyre_network_predict(struct gyre_network *n, const float *x, uint64_t samples,
                         const float **outputs)
{
    int status = check_batch(__func__, n, x, samples, outputs);
    if (status)
        return status;
    gyre_replica_bind(&n->replica);
    return gyre_replica_predict(&n->replica, x, samples, outputs, fresh_trouble());
}

static int score_all(struct gyre_network *n, const float *x, uint64_t samples,
                     struct gyre_wanted wanted, struct gyre_network_score *score)
{
    struct gyre_loss loss = {0};
    int status = 0;
    gyre_replica_bind(&n->replica);
    gyre_replica_clear_loss(&n->replica);
    if (samples)
        status = gyre_replica_forward(&n->replica, x, samples, false, wanted, fresh_trouble());
    if (!status)
        status = gyre_replica_take_loss(&n->replica, &loss, fresh_trouble());
    if (status)
        return status;
    score->loss += loss.sum;
    score->samples += loss.samples;
    score->right += loss.right;
    return 0;
}

int gyre_network_score_classes(struct gyre_network *n, const float *x, uint64_t samples,
                               const int64_t *labels, struct gyre_network_score *score)
{
    int status = check_batch(__func__, n, x, samples, labels);
    if (!status)
        status = check_row_labels(__func__, n, samples, labels);
    return status ? status
                  : score_all(n, x, samples, (struct gyre_wanted){.labels = labels}, score);
}

int gyre_network_score_targets(struct gyre_network *n, const float *x, uint64_t samples,
                               const float *targets, struct gyre_network_score *score)
{
    int status = check_batch(__func__, n, x, samples, targets);
    return status ? status
                  : score_all(n, x, samples, (struct gyre_wanted){.targets = targets}, score);
}

/* -- files ------------------------------------------------------------------------------------- */

int gyre_network_save(struct gyre_network *n, const char *path)
{
    if (!n || !path)
        return gyre_refuse("gyre_network_save: the %s is NULL", n ? "path" : "network");
    return gyre_replica_save(&n->replica, path, fresh_trouble());
}

int gyre_network_load(struct gyre_network *n, const char *path)
{
    if (!n || !path)
        return gyre_refuse("gyre_network_load: the %s is NULL", n ? "path" : "network");
    return gyre_replica_load(&n->replica, path, fresh_trouble());
}
