/* Layers one behind the other. Forward keeps every layer's output, because backward needs it;
 * gradients of outputs go back and forth between two spans of the largest size. A layer that works
 * in place shares its input's memory in both.
 *
 *     x ─▶ layer 0 ─▶ y 0 ─▶ layer 1 ─▶ y 1 ─▶ … ─▶ outputs
 *                  ◀─ span A ◀─      ◀─ span B ◀─   ◀─ span A
 *
 * The first layer's input has no gradient. */
#include "base/size.h"
#include "model/nets/inside.h"

#include <errno.h>
#include <stdlib.h>

struct gyre_model {
    struct gyre_model_settings settings;
    struct gyre_volume input;
    int layers, parameters, buffers;
    struct gyre_layer layer[GYRE_LAYERS_MOST];
    float *y[GYRE_LAYERS_MOST];
    struct gyre_parameter *parameter[GYRE_LAYERS_MOST * GYRE_LAYER_PARAMETERS_MOST];
    struct gyre_running_buffer *buffer[GYRE_LAYERS_MOST * GYRE_LAYER_BUFFERS_MOST];
    float *gradient[2];
    struct gyre_pass pass;
    const float *x; /* of the last forward */
    bool trained;   /* and that was one in training, whose backward has not been */

    bool back;         /* the pass under way is a backward */
    int at;            /* the layer that is at work */
    float *dy, *other; /* of its output, and the span for its input's */
};

const char *const gyre_model_names[] = {[GYRE_MLP] = "mlp", [GYRE_CONVNET] = "convnet", NULL};

/* -- putting together -------------------------------------------------------------------------- */

static int check_layer_size(const char *what, size_t size, struct gyre_trouble *trouble)
{
    if (size > 0 && size <= GYRE_SIZE_MOST)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID, "a model with %s %zu: expected 1 to %zu", what,
                            size, GYRE_SIZE_MOST);
}

static bool is_image(struct gyre_volume s)
{
    uint64_t count;
    return gyre_mul_u64(s.channels, s.height, &count) && gyre_mul_u64(count, s.width, &count);
}

int gyre_model_begin(struct gyre_model **out, struct gyre_volume input,
                     const struct gyre_model_settings *settings, struct gyre_trouble *trouble)
{
    int status = check_layer_size("batches of", settings->batch, trouble);
    if (!status)
        status = check_layer_size("inputs of",
                                  is_image(input) ? gyre_volume_count(input) : SIZE_MAX, trouble);
    if (status)
        return status;
    struct gyre_model *model = calloc(1, sizeof *model);
    if (!model)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a model");
    model->settings = *settings;
    model->input = input;
    model->pass.precision = settings->precision;
    status = gyre_processor_open(&model->pass.on, settings->kind, settings->device, trouble);
    if (status)
        free(model);
    else
        *out = model;
    return status;
}

int gyre_model_add(struct gyre_model *model, const struct gyre_layer *layer,
                   struct gyre_trouble *trouble)
{
    if (model->layers == GYRE_LAYERS_MOST)
        return gyre_trouble_set(trouble, GYRE_INVALID, "a model has at most %d layers",
                                GYRE_LAYERS_MOST);
    struct gyre_layer *added = &model->layer[model->layers];
    *added = *layer;
    added->in = model->layers ? model->layer[model->layers - 1].out : model->input;
    if (added->outputs > GYRE_SIZE_MOST)
        return check_layer_size("outputs of a layer of", added->outputs, trouble);
    added->spread_bytes = model->pass.on->table->spread_bytes;
    added->fuses = model->pass.on->table->multiply_then != NULL;
    int status = added->kind->shape(added, model->settings.batch, trouble);
    if (!status)
        status = check_layer_size("outputs of a layer of", gyre_volume_count(added->out), trouble);
    if (status)
        return status;
    for (int p = 0; p < added->parameter_count; p++)
        model->parameter[model->parameters++] = &added->parameter[p];
    for (int b = 0; b < added->buffer_count; b++)
        model->buffer[model->buffers++] = &added->buffer[b];
    model->layers++;
    return 0;
}

/* `what` is of layer `number`, from 1. */
static float *floats(struct gyre_model *model, size_t count, const char *what, int number,
                     struct gyre_trouble *trouble)
{
    return gyre_processor_alloc(model->pass.on, count * sizeof(float), trouble,
                                "batches of %zu samples, %s %d", model->settings.batch, what,
                                number);
}

static bool shares(const struct gyre_model *model, int layer)
{
    return layer > 0 && model->layer[layer].kind->in_place;
}

static int allocate_model(struct gyre_model *model, struct gyre_trouble *trouble)
{
    const size_t batch = model->settings.batch;
    size_t widest = 1, scratch = 1;
    bool good = true;
    for (int i = 0; i < model->layers; i++) {
        struct gyre_layer *layer = &model->layer[i];
        size_t out = batch * gyre_volume_count(layer->out);
        widest = out > widest ? out : widest;
        scratch = layer->scratch_floats > scratch ? layer->scratch_floats : scratch;
        model->y[i] = shares(model, i) ? model->y[i - 1]
                                       : floats(model, out, "outputs of layer", i + 1, trouble);
        layer->kept =
            floats(model, layer->kept_floats, "what backward needs of layer", i + 1, trouble);
        good = good && model->y[i] && layer->kept;
    }
    for (int i = 0; i < 2; i++)
        good = (model->gradient[i] =
                    floats(model, widest, "gradients of layers 1 to", model->layers, trouble)) &&
               good;
    good = (model->pass.scratch =
                floats(model, scratch, "workspace of layers 1 to", model->layers, trouble)) &&
           good;
    return good ? 0 : -ENOMEM;
}

int gyre_model_finish(struct gyre_model *model, int status, struct gyre_model **out,
                      struct gyre_trouble *trouble)
{
    if (!status)
        status = allocate_model(model, trouble);
    if (status)
        gyre_model_destroy(model);
    else
        *out = model;
    return status;
}

static void free_floats(struct gyre_model *model, float *memory)
{
    model->pass.on->table->free(model->pass.on, memory);
}

void gyre_model_destroy(struct gyre_model *model)
{
    if (!model)
        return;
    for (int i = 0; i < model->layers; i++) {
        if (!shares(model, i))
            free_floats(model, model->y[i]);
        free_floats(model, model->layer[i].kept);
    }
    free_floats(model, model->gradient[0]);
    free_floats(model, model->gradient[1]);
    free_floats(model, model->pass.scratch);
    gyre_processor_close(model->pass.on);
    free(model);
}

/* -- what it has ------------------------------------------------------------------------------- */

int gyre_model_parameters(struct gyre_model *model, struct gyre_parameter *const **list)
{
    *list = model->parameter;
    return model->parameters;
}

int gyre_model_buffers(struct gyre_model *model, struct gyre_running_buffer *const **list)
{
    *list = model->buffer;
    return model->buffers;
}

struct gyre_volume gyre_model_input(const struct gyre_model *model)
{
    return model->input;
}

size_t gyre_model_batch(const struct gyre_model *model)
{
    return model->settings.batch;
}

size_t gyre_model_outputs(const struct gyre_model *model)
{
    return gyre_volume_count(model->layer[model->layers - 1].out);
}

enum gyre_precision gyre_model_precision(const struct gyre_model *model)
{
    return model->settings.precision;
}

struct gyre_processor *gyre_model_processor(const struct gyre_model *model)
{
    return model->pass.on;
}

const char *gyre_model_products(const struct gyre_model *model)
{
    return model->pass.on->table->products(model->pass.on);
}

void gyre_model_sync_batches(struct gyre_model *model)
{
    model->pass.synced = true;
}

/* -- a step ------------------------------------------------------------------------------------ */

/* One stage more of the layer that is at work. */
static int run_forward(struct gyre_model *model)
{
    struct gyre_layer *layer = &model->layer[model->at];
    const float *from = model->at ? model->y[model->at - 1] : model->x;
    return layer->kind->forward(layer, &model->pass, from, model->y[model->at]);
}

static int run_backward(struct gyre_model *model)
{
    const int i = model->at;
    struct gyre_layer *layer = &model->layer[i];
    const float *x = i ? model->y[i - 1] : model->x;
    float *dx = i == 0 ? NULL : shares(model, i) ? model->dy : model->other;
    model->pass.below = i ? &model->layer[i - 1] : NULL;
    int status = layer->kind->backward(layer, &model->pass, x, model->y[i], model->dy, dx);
    if (!status && dx == model->other) {
        model->other = model->dy;
        model->dy = dx;
    }
    return status;
}

/* On to the next event, or to the end. */
static int run_layers(struct gyre_model *model)
{
    int status = 0;
    for (; model->at >= 0 && model->at < model->layers; model->at += model->back ? -1 : 1) {
        status = model->back ? run_backward(model) : run_forward(model);
        if (status)
            return status;
        model->pass.stage = 0;
    }
    model->trained = !model->back && model->pass.train;
    return 0;
}

int gyre_model_forward(struct gyre_model *model, const float *x, size_t samples, bool train,
                       const float **outputs, struct gyre_trouble *trouble)
{
    model->trained = false;
    if (samples > model->settings.batch)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a batch of %zu samples for a model that was made for %zu", samples,
                                model->settings.batch);
    model->pass.samples = samples;
    model->pass.all_samples = 0;
    model->pass.train = train;
    model->pass.trouble = trouble;
    model->pass.stage = 0;
    model->x = x;
    model->back = false;
    model->at = 0;
    *outputs = model->y[model->layers - 1];
    return run_layers(model);
}

float *gyre_model_output_gradient(struct gyre_model *model)
{
    return model->gradient[0];
}

int gyre_model_backward(struct gyre_model *model, bool accumulate, struct gyre_trouble *trouble)
{
    if (!model->trained)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "backward without a forward in training before it");
    model->trained = false;
    model->pass.accumulate = accumulate;
    model->pass.trouble = trouble;
    model->pass.stage = 0;
    model->back = true;
    model->at = model->layers - 1;
    model->dy = model->gradient[0];
    model->other = model->gradient[1];
    return run_layers(model);
}

const struct gyre_pass_event *gyre_model_event(const struct gyre_model *model)
{
    return &model->pass.event;
}

int gyre_model_learn_samples(struct gyre_model *model, double *samples)
{
    int status = gyre_pass_learn_samples(&model->pass);
    *samples = model->pass.all_samples;
    return status;
}

int gyre_model_continue(struct gyre_model *model)
{
    double samples;
    int status = gyre_model_learn_samples(model, &samples);
    model->pass.stage++;
    return status ? status : run_layers(model);
}
