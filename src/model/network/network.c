/* The outside of this room: gyre/model.h in terms of models, losses, optimisers and the engine.
 *
 *     create   values in memory of the network, PyTorch's start or a file's
 *     join     the same memory, handed to gyre_ddp_create()
 *     learn    begin ─▶ bind ─▶ forward ─▶ loss ─▶ backward ─▶ gyre_ddp_ready() of each parameter
 *     update   pieces of the engine ─▶ optimiser ─▶ gather
 *
 * The engine may move values and gradients in the wait of its first step, so addresses are asked
 * for anew in each call, and the optimiser's state is made in the first update. */
#include "model/network/network.h"

#include "model/learning/init.h"
#include "model/learning/loss.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64 /* bytes: values begin at whole lines of the cache */

struct gyre_trouble *gyre_network_trouble(void)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    trouble->status = 0;
    trouble->text[0] = 0;
    return trouble;
}

/* A failure of the engine: the communicator has its story, unless it was a refusal here, which this
 * thread was told already. */
static int told(struct gyre_network *network, int status)
{
    const char *story = gyre_error(network->comm);
    if (status < 0 && (status != GYRE_INVALID || !gyre_thread_trouble()->status))
        gyre_trouble_set(gyre_network_trouble(), status, "%s",
                         *story ? story : gyre_status_name(status));
    return status;
}

static int check_network_options(const struct gyre_network_options *options)
{
    if (options->size != sizeof *options)
        return gyre_refuse("gyre_network_options.size is %zu, this library knows %zu: set it to "
                           "sizeof(struct gyre_network_options)",
                           options->size, sizeof *options);
    if ((unsigned)options->method > GYRE_NETWORK_ADAMW)
        return gyre_refuse("gyre_network_options.method %d is unknown", (int)options->method);
    return 0;
}

/* -- values ------------------------------------------------------------------------------------ */

static size_t in_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static size_t buffer_bytes(const struct gyre_running_buffer *buffer)
{
    return buffer->count * (buffer->whole ? sizeof(int64_t) : sizeof(float));
}

static int make_memory(struct gyre_network *n)
{
    size_t bytes = LINE, items = (size_t)n->parameters + (size_t)n->buffers;
    for (int p = 0; p < n->parameters; p++)
        bytes += in_lines(n->parameter[p]->count * sizeof(float));
    for (int b = 0; b < n->buffers; b++)
        bytes += in_lines(buffer_bytes(n->buffer[b]));
    n->memory = aligned_alloc(LINE, bytes);
    n->item = calloc(items, sizeof *n->item);
    return n->memory && n->item ? 0 : -ENOMEM;
}

static void describe_network(struct gyre_network *n)
{
    uint8_t *at = n->memory;
    for (int p = 0; p < n->parameters; p++) {
        struct gyre_parameter *from = n->parameter[p];
        n->item[p] = (struct gyre_ddp_parameter){from->name, GYRE_F32, from->dims, {0}, at};
        for (int d = 0; d < from->dims; d++)
            n->item[p].shape[d] = from->shape[d];
        from->value = (float *)(void *)at;
        at += in_lines(from->count * sizeof(float));
    }
    for (int b = 0; b < n->buffers; b++) {
        struct gyre_running_buffer *from = n->buffer[b];
        n->item[n->parameters + b] = (struct gyre_ddp_parameter){
            from->name, from->whole ? GYRE_I64 : GYRE_F32, from->dims, {from->count}, at};
        from->value = at;
        at += in_lines(buffer_bytes(from));
    }
}

void gyre_network_bind(struct gyre_network *n)
{
    for (int p = 0; n->ddp && p < n->parameters; p++) {
        n->item[p].value = gyre_ddp_value(n->ddp, p);
        n->parameter[p]->value = n->item[p].value;
        n->parameter[p]->gradient = gyre_ddp_gradient(n->ddp, p);
    }
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

/* Settings that no optimiser takes are refused here, and not in the first update. */
static int check_settings(const struct gyre_optimizer_settings *settings)
{
    struct gyre_optimizer *optimizer = NULL;
    int status = gyre_optimizer_create(&optimizer, settings, 1, gyre_network_trouble());
    gyre_optimizer_destroy(optimizer);
    return status;
}

static int start_values(struct gyre_network *n, const struct gyre_network_options *options)
{
    gyre_init_parameters(n->parameter, n->parameters, options->seed);
    gyre_init_buffers(n->buffer, n->buffers);
    return options->file ? gyre_network_load(n, options->file) : 0;
}

/* Takes the model over, also where it fails. */
static int make_network(struct gyre_network **out, struct gyre_model *model,
                        const struct gyre_network_options *options)
{
    struct gyre_network *n = calloc(1, sizeof *n);
    if (!n) {
        gyre_model_destroy(model);
        return gyre_trouble_set(gyre_network_trouble(), -ENOMEM, "no memory for a network");
    }
    n->model = model;
    n->batch = options->batch;
    n->parameters = gyre_model_parameters(model, &n->parameter);
    n->buffers = gyre_model_buffers(model, &n->buffer);
    n->settings = settings_of(options);
    int status = check_settings(&n->settings);
    if (!status && make_memory(n))
        status = gyre_trouble_set(gyre_network_trouble(), -ENOMEM,
                                  "no memory for the values of a network");
    if (!status) {
        describe_network(n);
        status = start_values(n, options);
    }
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
    const struct gyre_model_settings settings = {.batch = options->batch};
    status = gyre_mlp_create(&model, widths, count, &settings, gyre_network_trouble());
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
    const struct gyre_model_settings settings = {.batch = options->batch};
    status = gyre_convnet_create(&model, (struct gyre_volume){channels, height, width}, classes,
                                 &settings, gyre_network_trouble());
    return status ? status : make_network(network, model, options);
}

void gyre_network_destroy(struct gyre_network *network)
{
    if (!network)
        return;
    gyre_ddp_destroy(network->ddp);
    gyre_optimizer_destroy(network->optimizer);
    gyre_model_destroy(network->model);
    free(network->item);
    free(network->memory);
    free(network);
}

uint64_t gyre_network_inputs(const struct gyre_network *network)
{
    return network ? gyre_volume_count(gyre_model_input(network->model)) : 0;
}

uint64_t gyre_network_outputs(const struct gyre_network *network)
{
    return network ? gyre_model_outputs(network->model) : 0;
}

int gyre_network_parameters(struct gyre_network *network, const struct gyre_ddp_parameter **list)
{
    *list = network ? network->item : NULL;
    if (network)
        gyre_network_bind(network);
    return network ? network->parameters : 0;
}

/* -- the engine -------------------------------------------------------------------------------- */

static void say_ready(void *context, struct gyre_parameter *parameter)
{
    struct gyre_network *n = context;
    int p = 0;
    while (n->parameter[p] != parameter)
        p++;
    int status = gyre_ddp_ready(n->ddp, p);
    if (!n->ready_status)
        n->ready_status = status;
}

static int check_join(struct gyre_network *n, struct gyre_comm *comm,
                      const struct gyre_ddp_options *options)
{
    if (!n || !comm)
        return gyre_refuse("gyre_network_join: the %s is NULL", n ? "communicator" : "network");
    if (n->ddp)
        return gyre_refuse("gyre_network_join: the network has an engine already");
    if (options && options->buffers.count)
        return gyre_refuse("gyre_network_join: %d buffers, but the network brings its own",
                           options->buffers.count);
    return 0;
}

int gyre_network_join(struct gyre_network *n, struct gyre_comm *comm,
                      const struct gyre_ddp_options *options, struct gyre_ddp **ddp)
{
    struct gyre_ddp_options all = GYRE_DDP_OPTIONS_INIT;
    const struct gyre_model_calls calls = {.ready = say_ready, .ready_context = n};
    if (!ddp)
        return gyre_refuse("gyre_network_join: nowhere to put the engine (NULL)");
    *ddp = NULL;
    int status = check_join(n, comm, options);
    if (status)
        return status;
    if (options)
        all = *options;
    all.buffers = (struct gyre_ddp_buffers){n->item + n->parameters, n->buffers};
    n->comm = comm;
    gyre_network_trouble();
    status = gyre_ddp_create(&n->ddp, comm, n->item, n->parameters, &all);
    if (status)
        return told(n, status);
    gyre_model_connect(n->model, &calls);
    *ddp = n->ddp;
    return 0;
}

/* -- a step ------------------------------------------------------------------------------------ */

/* What a batch is compared with: one of the two. */
struct wanted {
    const int64_t *labels;
    const float *targets;
};

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

static int check_labels(const char *call, const struct gyre_network *n, uint64_t samples,
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

/* Losses put their gradient where backward takes it from; labels were looked at before. */
static int compare_outputs(struct gyre_network *n, const float *outputs, size_t samples,
                           struct wanted wanted, struct gyre_loss *loss)
{
    const size_t width = gyre_model_outputs(n->model);
    float *gradient = gyre_model_output_gradient(n->model);
    if (wanted.labels)
        return gyre_loss_cross_entropy(gyre_ops(), outputs, wanted.labels, samples, width, 1,
                                       gradient, loss, gyre_network_trouble());
    gyre_loss_squared_error(outputs, wanted.targets, samples, width, 1, gradient, loss);
    return 0;
}

static int pass(struct gyre_network *n, const float *x, uint64_t samples, bool train,
                struct wanted wanted, struct gyre_loss *loss)
{
    const float *outputs;
    gyre_network_bind(n);
    int status = gyre_model_forward(n->model, x, samples, train, &outputs, gyre_network_trouble());
    return status ? status : compare_outputs(n, outputs, samples, wanted, loss);
}

static int learn(struct gyre_network *n, const float *x, uint64_t samples, struct wanted wanted)
{
    struct gyre_loss loss = {0};
    gyre_network_trouble();
    int status = told(n, gyre_ddp_begin(n->ddp, samples));
    if (status || !samples)
        return status;
    status = pass(n, x, samples, true, wanted, &loss);
    if (!status)
        status = gyre_ddp_add(n->ddp, GYRE_NETWORK_LOSS, loss.sum);
    if (!status)
        status = gyre_ddp_add(n->ddp, GYRE_NETWORK_RIGHT, (double)loss.right);
    if (status)
        return status;
    n->ready_status = 0;
    status = gyre_model_backward(n->model, gyre_ddp_adds(n->ddp), gyre_network_trouble());
    return status ? status : told(n, n->ready_status);
}

int gyre_network_learn_classes(struct gyre_network *n, const float *x, uint64_t samples,
                               const int64_t *labels)
{
    int status = check_batch(__func__, n, x, samples, labels);
    if (!status && !n->ddp)
        status = gyre_refuse("%s: gyre_network_join() comes first", __func__);
    if (!status)
        status = check_labels(__func__, n, samples, labels);
    return status ? status : learn(n, x, samples, (struct wanted){.labels = labels});
}

int gyre_network_learn_targets(struct gyre_network *n, const float *x, uint64_t samples,
                               const float *targets)
{
    int status = check_batch(__func__, n, x, samples, targets);
    if (!status && !n->ddp)
        status = gyre_refuse("%s: gyre_network_join() comes first", __func__);
    return status ? status : learn(n, x, samples, (struct wanted){.targets = targets});
}

static int make_optimizer(struct gyre_network *n)
{
    struct gyre_ddp_piece piece;
    size_t count = 0;
    for (int i = 0; gyre_ddp_piece(n->ddp, i, &piece) == 0; i++)
        count += piece.count;
    return gyre_optimizer_create(&n->optimizer, &n->settings, count, gyre_network_trouble());
}

static void apply(struct gyre_network *n, double rate, float factor)
{
    struct gyre_ddp_piece piece;
    size_t first = 0;
    gyre_optimizer_begin(n->optimizer, rate);
    for (int i = 0; gyre_ddp_piece(n->ddp, i, &piece) == 0; i++) {
        gyre_optimizer_apply(n->optimizer, first, piece.count, piece.value, piece.gradient, factor);
        first += piece.count;
    }
}

int gyre_network_update(struct gyre_network *n, double rate)
{
    if (!n || !n->ddp)
        return gyre_refuse("gyre_network_update: %s",
                           n ? "gyre_network_join() comes first" : "the network is NULL");
    const struct gyre_ddp_result *result = gyre_ddp_result(n->ddp);
    if (result->number == n->updated)
        return gyre_refuse("gyre_network_update: step %llu was applied already; the next one ends "
                           "by gyre_ddp_wait()",
                           (unsigned long long)result->number);
    n->updated = result->number;
    if (!result->samples || result->nonfinite || result->skip)
        return 0;
    gyre_network_trouble();
    int status = n->optimizer ? 0 : make_optimizer(n);
    if (status)
        return status;
    apply(n, rate, (float)result->factor);
    return told(n, gyre_ddp_gather(n->ddp));
}

/* -- evaluation -------------------------------------------------------------------------------- */

int gyre_network_predict(struct gyre_network *n, const float *x, uint64_t samples,
                         const float **outputs)
{
    int status = check_batch(__func__, n, x, samples, outputs);
    if (status)
        return status;
    gyre_network_bind(n);
    return gyre_model_forward(n->model, x, samples, false, outputs, gyre_network_trouble());
}

static int score_all(struct gyre_network *n, const float *x, uint64_t samples, struct wanted wanted,
                     struct gyre_network_score *score)
{
    struct gyre_loss loss = {0};
    int status = samples ? pass(n, x, samples, false, wanted, &loss) : 0;
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
        status = check_labels(__func__, n, samples, labels);
    return status ? status : score_all(n, x, samples, (struct wanted){.labels = labels}, score);
}

int gyre_network_score_targets(struct gyre_network *n, const float *x, uint64_t samples,
                               const float *targets, struct gyre_network_score *score)
{
    int status = check_batch(__func__, n, x, samples, targets);
    return status ? status : score_all(n, x, samples, (struct wanted){.targets = targets}, score);
}
