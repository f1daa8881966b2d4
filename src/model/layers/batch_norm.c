/* Batch normalisation, for each channel over all samples and places:
 *
 *     y = (x - mean) / sqrt(variance + 1e-5) * weight + bias
 *
 * In training, mean and variance are the batch's; the running ones, which evaluation uses, go a
 * tenth of the way towards them, with the variance as an estimate (divided by N - 1).
 *
 *     backward    dx = weight / deviation
 *                      * (dy - sum(dy) / N - (x - mean) / deviation^2 * sum(dy (x - mean)) / N)
 *
 * Synced, the batch is that of all ranks, of whatever sizes, even 0: ranks sum their counts and
 * values, then the squared distances from the common mean (one sum of squares would lose its
 * digits), and in backward the two sums above. All sums are doubles, and their quotients are
 * rounded once, so the rounding is the same whoever had which sample. The gradients of weight and
 * bias stay this rank's, because the owner adds gradients up anyway. */
#include "model/layers/layer.h"

enum { WEIGHT, BIAS, RUNNING_MEAN = 0, RUNNING_VARIANCE, BATCHES };

static size_t channels(const struct gyre_layer *layer)
{
    return layer->in.channels;
}

static size_t places(const struct gyre_layer *layer)
{
    return layer->in.height * layer->in.width;
}

static int batch_norm_shape(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble)
{
    const size_t count = channels(layer);
    if (gyre_volume_count(layer->in) == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID, "batch norm %s: its input is empty",
                                layer->name);
    layer->out = layer->in;
    layer->kept_floats = 2 * count;
    layer->scratch_floats = (2 * count + 1) * (sizeof(double) / sizeof(float));
    layer->parameter_count = layer->buffer_count = 0;
    gyre_layer_parameter(layer, "weight", 1, &count)->fill = 1;
    gyre_layer_parameter(layer, "bias", 1, &count)->fill = 0;
    gyre_layer_buffer(layer, "running_mean", count)->fill = 0;
    gyre_layer_buffer(layer, "running_var", count)->fill = 1;
    struct gyre_running_buffer *batches = gyre_layer_buffer(layer, "num_batches_tracked", 1);
    batches->dims = 0;
    batches->whole = true;
    return 0;
}

/* A training forward leaves mean[channels] and 1 / deviation[channels]. */
static struct gyre_norm norm_of(const struct gyre_layer *layer, const struct gyre_pass *pass)
{
    return (struct gyre_norm){
        .planes = {pass->samples, channels(layer), places(layer)},
        .values = layer->kept_values,
        .mean = layer->kept,
        .inverse = layer->kept + channels(layer),
        .weight = layer->parameter[WEIGHT].value,
        .bias = layer->parameter[BIAS].value,
        .running_mean = layer->buffer[RUNNING_MEAN].value,
        .running_variance = layer->buffer[RUNNING_VARIANCE].value,
        .batches = layer->buffer[BATCHES].value,
        .sums = (double *)(void *)pass->scratch,
    };
}

/* -- forward ----------------------------------------------------------------------------------- */

/* The samples of this rank stand behind its sums. The first such layer of a pass asks for all
 * ranks'. */
static int sum_with_samples(struct gyre_layer *layer, struct gyre_pass *pass, double *sums)
{
    int status = gyre_pass_sum(pass, sums, channels(layer) + 1);
    pass->event.counts = pass->all_samples == 0;
    return status;
}

static int find_mean(struct gyre_layer *layer, struct gyre_pass *pass)
{
    const double samples = pass->synced ? pass->all_samples : (double)pass->samples;
    layer->kept_values = samples * (double)places(layer);
    if (layer->kept_values > 0 && layer->kept_values < 2)
        return gyre_trouble_set(pass->trouble, GYRE_INVALID,
                                "batch norm %s: one value in each channel has no variance; "
                                "train with at least two samples",
                                layer->name);
    const struct gyre_norm norm = norm_of(layer, pass);
    pass->on->table->norm_mean(pass->on, &norm);
    return 0;
}

/* As PyTorch does it on CPUs, one multiplication and one addition rounded together: the form
 * decides which of two neighbours that round alike a pooling behind it takes. */
static int batch_norm_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                              float *y)
{
    const struct gyre_processor_table *table = pass->on->table;
    struct gyre_norm norm = norm_of(layer, pass);
    if (pass->train && pass->stage == 0) {
        table->norm_sums(pass->on, &norm, x);
        if (pass->synced)
            return sum_with_samples(layer, pass, norm.sums);
    }
    if (pass->train && pass->stage <= 1) {
        int status = find_mean(layer, pass);
        if (status || layer->kept_values == 0)
            return status; /* where no rank has a sample there is nothing to learn from */
        table->norm_squares(pass->on, &norm, x);
        if (pass->synced)
            return gyre_pass_sum(pass, norm.sums, channels(layer));
    }
    norm.values = layer->kept_values;
    if (pass->train)
        table->norm_variance(pass->on, &norm);
    table->norm_apply(pass->on, &norm, pass->train, y, x);
    return 0;
}

/* -- backward ---------------------------------------------------------------------------------- */

static int batch_norm_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                               const float *y, float *dy, float *dx)
{
    const struct gyre_processor_table *table = pass->on->table;
    const struct gyre_norm norm = norm_of(layer, pass);
    switch (pass->stage) {
    case 0:
        table->norm_back_sums(pass->on, &norm, x, dy, layer->parameter[WEIGHT].gradient,
                              layer->parameter[BIAS].gradient, pass->accumulate);
        return gyre_pass_ready(pass, &layer->parameter[BIAS]);
    case 1:
        return gyre_pass_ready(pass, &layer->parameter[WEIGHT]);
    case 2:
        if (dx && pass->synced)
            return gyre_pass_sum(pass, norm.sums, 2 * channels(layer));
        break;
    }
    if (dx)
        table->norm_back(pass->on, &norm, dx, x, dy);
    return 0;
}

const struct gyre_layer_kind gyre_layer_batch_norm = {
    .name = "batch norm",
    .shape = batch_norm_shape,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
};
