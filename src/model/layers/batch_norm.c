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

#include <math.h>
#include <string.h>

#define EPSILON  1e-5
#define MOMENTUM 0.1

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
    layer->kept_floats = 2 * count + 1;
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

/* What a training forward leaves: mean[channels], 1 / deviation[channels], samples of all ranks. */
static float *mean_of(const struct gyre_layer *layer)
{
    return layer->kept;
}

static float *inverse_of(const struct gyre_layer *layer)
{
    return layer->kept + channels(layer);
}

static float *samples_of(const struct gyre_layer *layer)
{
    return layer->kept + 2 * channels(layer);
}

/* Values in each channel, of all ranks. */
static double channel_values(const struct gyre_layer *layer)
{
    return (double)*samples_of(layer) * (double)places(layer);
}

static double *sums_of(const struct gyre_pass *pass)
{
    return (double *)(void *)pass->scratch;
}

/* -- the batch's mean and variance ------------------------------------------------------------- */

static const float *run_of(const struct gyre_layer *layer, const float *x, size_t sample, size_t c)
{
    return x + (sample * channels(layer) + c) * places(layer);
}

static void sum_values(const struct gyre_layer *layer, const struct gyre_pass *pass, const float *x)
{
    double *sums = sums_of(pass);
    for (size_t c = 0; c < channels(layer); c++) {
        sums[c] = 0;
        for (size_t s = 0; s < pass->samples; s++)
            sums[c] += pass->ops->sum(run_of(layer, x, s, c), places(layer));
    }
    sums[channels(layer)] = (double)pass->samples;
}

static void find_mean(const struct gyre_layer *layer, const struct gyre_pass *pass)
{
    const double *sums = sums_of(pass);
    *samples_of(layer) = (float)sums[channels(layer)];
    for (size_t c = 0; c < channels(layer); c++)
        mean_of(layer)[c] = (float)(sums[c] / (sums[channels(layer)] * (double)places(layer)));
}

static void remember(const struct gyre_layer *layer, size_t c, double variance, double count)
{
    float *mean = layer->buffer[RUNNING_MEAN].value, *var = layer->buffer[RUNNING_VARIANCE].value;
    double estimate = variance * count / (count - 1);
    mean[c] = (float)((1 - MOMENTUM) * (double)mean[c] + MOMENTUM * (double)mean_of(layer)[c]);
    var[c] = (float)((1 - MOMENTUM) * (double)var[c] + MOMENTUM * estimate);
}

static void sum_squares(const struct gyre_layer *layer, const struct gyre_pass *pass,
                        const float *x)
{
    double *squares = sums_of(pass);
    for (size_t c = 0; c < channels(layer); c++) {
        squares[c] = 0;
        for (size_t s = 0; s < pass->samples; s++)
            squares[c] += pass->ops->squares(run_of(layer, x, s, c), (double)mean_of(layer)[c],
                                             places(layer));
    }
}

static void find_variance(const struct gyre_layer *layer, const struct gyre_pass *pass)
{
    const double count = channel_values(layer), *squares = sums_of(pass);
    for (size_t c = 0; c < channels(layer); c++) {
        double variance = (double)(float)squares[c] / count;
        inverse_of(layer)[c] = (float)(1 / sqrt(variance + EPSILON));
        remember(layer, c, variance, count);
    }
    ++*(int64_t *)layer->buffer[BATCHES].value;
}

/* -- passes ------------------------------------------------------------------------------------ */

/* As PyTorch does it on CPUs, one multiplication and one addition rounded together: the form
 * decides which of two neighbours that round alike a pooling behind it takes. */
static void normalize(const struct gyre_layer *layer, const struct gyre_pass *pass, const float *x,
                      float *y)
{
    const float *weight = layer->parameter[WEIGHT].value, *bias = layer->parameter[BIAS].value;
    const float *mean = layer->buffer[RUNNING_MEAN].value,
                *variance = layer->buffer[RUNNING_VARIANCE].value;
    for (size_t c = 0; c < channels(layer); c++) {
        float about = pass->train ? mean_of(layer)[c] : mean[c];
        float inverse =
            pass->train ? inverse_of(layer)[c] : (float)(1 / sqrt((double)variance[c] + EPSILON));
        float factor = inverse * weight[c], offset = bias[c] - about * factor;
        for (size_t s = 0; s < pass->samples; s++) {
            size_t at = (s * channels(layer) + c) * places(layer);
            pass->ops->affine(y + at, x + at, factor, offset, places(layer));
        }
    }
}

static int batch_norm_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                              float *y)
{
    if (pass->train && pass->stage == 0) {
        sum_values(layer, pass, x);
        if (pass->synced)
            return gyre_pass_sum(pass, sums_of(pass), channels(layer) + 1);
    }
    if (pass->train && pass->stage <= 1) {
        find_mean(layer, pass);
        if (channel_values(layer) == 0)
            return 0; /* no rank has a sample: nothing to learn from */
        if (channel_values(layer) < 2)
            return gyre_trouble_set(pass->trouble, GYRE_INVALID,
                                    "batch norm %s: one value in each channel has no variance; "
                                    "train with at least two samples",
                                    layer->name);
        sum_squares(layer, pass, x);
        if (pass->synced)
            return gyre_pass_sum(pass, sums_of(pass), channels(layer));
    }
    if (pass->train)
        find_variance(layer, pass);
    normalize(layer, pass, x, y);
    return 0;
}

/* Puts sum(dy) and sum(dy (x - mean)) of each channel into pass->scratch, and the parameters'
 * gradients where they belong. */
static void find_sums(struct gyre_layer *layer, const struct gyre_pass *pass, const float *x,
                      const float *dy)
{
    double *sums = sums_of(pass), *products = sums + channels(layer);
    float *weight = layer->parameter[WEIGHT].gradient, *bias = layer->parameter[BIAS].gradient;
    for (size_t c = 0; c < channels(layer); c++) {
        double sum = 0, product = 0;
        for (size_t s = 0; s < pass->samples; s++) {
            const float *run = run_of(layer, dy, s, c);
            sum += pass->ops->sum(run, places(layer));
            product += pass->ops->dot(run, run_of(layer, x, s, c), (double)mean_of(layer)[c],
                                      places(layer));
        }
        sums[c] = sum;
        products[c] = product;
        double scaled = pass->samples ? product * (double)inverse_of(layer)[c] : 0;
        weight[c] = (float)((pass->accumulate ? (double)weight[c] : 0) + scaled);
        bias[c] = (float)((pass->accumulate ? (double)bias[c] : 0) + sum);
    }
}

static void normalize_back(const struct gyre_layer *layer, const struct gyre_pass *pass,
                           const float *x, const float *dy, float *dx)
{
    const double count = channel_values(layer);
    const float *weight = layer->parameter[WEIGHT].value;
    const double *sums = sums_of(pass), *products = sums + channels(layer);
    for (size_t s = 0; s < pass->samples; s++) {
        for (size_t c = 0; c < channels(layer); c++) {
            const double inverse = (double)inverse_of(layer)[c],
                         factor = inverse * (double)weight[c];
            const size_t at = (s * channels(layer) + c) * places(layer);
            pass->ops->combine(dx + at, dy + at, (float)factor, x + at, mean_of(layer)[c],
                               (float)(-factor * inverse * inverse * products[c] / count),
                               (float)(-factor * sums[c] / count), places(layer));
        }
    }
}

static int batch_norm_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                               const float *y, float *dy, float *dx)
{
    switch (pass->stage) {
    case 0:
        find_sums(layer, pass, x, dy);
        return gyre_pass_ready(pass, &layer->parameter[BIAS]);
    case 1:
        return gyre_pass_ready(pass, &layer->parameter[WEIGHT]);
    case 2:
        if (dx && pass->synced)
            return gyre_pass_sum(pass, sums_of(pass), 2 * channels(layer));
        break;
    }
    if (dx)
        normalize_back(layer, pass, x, dy, dx);
    return 0;
}

const struct gyre_layer_kind gyre_layer_batch_norm = {
    .name = "batch norm",
    .shape = batch_norm_shape,
    .forward = batch_norm_forward,
    .backward = batch_norm_backward,
};
