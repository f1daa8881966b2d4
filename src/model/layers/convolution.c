/* Convolution in two dimensions, stride 1, zeros around: each sample is spread out so that every
 * output is a row of a product (im2col), and the product does the work.
 *
 *     spread [inputs * k * k][oh * ow]       one row per element of the kernel, one column per
 *     y      [outputs][oh * ow]              place; W is [outputs][inputs * k * k]
 *
 *     forward     y = W * spread(x) + b
 *     backward    dW += dy * spread(x)^T     db += rows of dy     dx = gather_rows(W^T * dy)
 *
 * gather_rows() adds up what spread() had copied. Spreading again in backward is cheaper than
 * keeping it: it is k * k times the input. As many samples are spread together as the processor has
 * room for; their gradients of W are then apart first (`partials`). Tested by
 * tests/unit/model/layers/layers_test.c. */
#include "model/layers/layer.h"

static size_t out_places(const struct gyre_layer *layer)
{
    return layer->out.height * layer->out.width;
}

static size_t weight_terms(const struct gyre_layer *layer)
{
    return layer->in.channels * layer->kernel * layer->kernel;
}

/* A sample with its zeros around, so that every line of every row is one run of it. */
static size_t image_with_padding(const struct gyre_layer *layer)
{
    return layer->in.channels * (layer->in.height + 2 * layer->padding) *
           (layer->in.width + 2 * layer->padding);
}

static size_t samples_at_once(const struct gyre_layer *layer, size_t batch)
{
    size_t fit = layer->spread_bytes / (weight_terms(layer) * out_places(layer) * sizeof(float));
    size_t most = batch ? batch : 1;
    return fit < 1 ? 1 : fit < most ? fit : most;
}

static int convolution_shape(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble)
{
    const struct gyre_volume in = layer->in;
    const size_t k = layer->kernel, pad = 2 * layer->padding, outputs = layer->outputs;
    if (k == 0 || layer->stride != 1 || layer->padding >= k || in.height + pad < k ||
        in.width + pad < k || in.channels == 0 || outputs == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "convolution %s: a kernel of %zu, stride %zu, padding %zu from "
                                "%zu x %zu x %zu to %zu channels; it takes stride 1, a padding "
                                "less than the kernel and an image of at least its size",
                                layer->name, k, layer->stride, layer->padding, in.channels,
                                in.height, in.width, outputs);
    layer->out = (struct gyre_volume){outputs, in.height + pad - k + 1, in.width + pad - k + 1};
    layer->kept_floats = 0;
    layer->at_once = samples_at_once(layer, batch);
    layer->scratch_floats =
        layer->at_once * (weight_terms(layer) + outputs) * out_places(layer) +
        outputs * weight_terms(layer) + image_with_padding(layer) +
        gyre_partials(layer->at_once, outputs, weight_terms(layer), out_places(layer));
    layer->parameter_count = layer->buffer_count = 0;
    gyre_layer_parameter(layer, "weight", 4, (size_t[]){outputs, in.channels, k, k})->fan_in =
        weight_terms(layer);
    gyre_layer_parameter(layer, "bias", 1, (size_t[]){outputs})->fan_in = weight_terms(layer);
    return 0;
}

/* -- passes ------------------------------------------------------------------------------------ */

static struct gyre_window window_of(const struct gyre_layer *layer)
{
    return (struct gyre_window){layer->in.channels, layer->in.height, layer->in.width,
                                layer->kernel,      layer->stride,    layer->padding,
                                layer->out.height,  layer->out.width};
}

static struct gyre_planes planes_of(const struct gyre_layer *layer, size_t samples)
{
    return (struct gyre_planes){samples, layer->outputs, out_places(layer)};
}

/* How pass->scratch is cut. */
struct workplace {
    float *spread, *weight, *dy, *padded, *partials;
};

static struct workplace workplace(const struct gyre_layer *layer, const struct gyre_pass *pass)
{
    struct workplace work = {.spread = pass->scratch};
    work.weight = work.spread + layer->at_once * weight_terms(layer) * out_places(layer);
    work.dy = work.weight + layer->outputs * weight_terms(layer);
    work.padded = work.dy + layer->at_once * layer->outputs * out_places(layer);
    work.partials = work.padded + image_with_padding(layer);
    return work;
}

/* The samples from `first` on that are spread together. */
static size_t group_at(const struct gyre_layer *layer, const struct gyre_pass *pass, size_t first)
{
    size_t left = pass->samples - first;
    return left < layer->at_once ? left : layer->at_once;
}

static const float *weight_operand(const struct gyre_layer *layer, const struct gyre_pass *pass)
{
    return gyre_pass_operand(pass, workplace(layer, pass).weight, layer->parameter[0].value,
                             layer->parameter[0].count);
}

/* Puts samples, as a product takes them, into work.spread. */
static void spread_group(const struct gyre_layer *layer, const struct gyre_pass *pass,
                         size_t samples, const float *x)
{
    const struct workplace work = workplace(layer, pass);
    const struct gyre_window window = window_of(layer);
    pass->on->table->spread(pass->on, &window, samples, pass->precision, work.spread, x,
                            work.padded);
}

static int convolution_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                               float *y)
{
    const size_t terms = weight_terms(layer), places = out_places(layer),
                 in = gyre_volume_count(layer->in), out = layer->outputs * places;
    const float *weight = weight_operand(layer, pass);
    for (size_t s = 0; s < pass->samples; s += layer->at_once) {
        const size_t group = group_at(layer, pass, s);
        spread_group(layer, pass, group, x + s * in);
        pass->on->table->fill_channels(pass->on, y + s * out, layer->parameter[1].value,
                                       planes_of(layer, group));
        pass->on->table->multiply(pass->on, &(struct gyre_products){
                                                .first = {.form = GYRE_DENSE_NN,
                                                          .m = layer->outputs,
                                                          .n = places,
                                                          .k = terms,
                                                          .alpha = 1,
                                                          .beta = 1,
                                                          .a = weight,
                                                          .lda = terms,
                                                          .b = workplace(layer, pass).spread,
                                                          .ldb = places,
                                                          .c = y + s * out,
                                                          .ldc = places},
                                                .count = group,
                                                .precision = pass->precision,
                                                .b_step = terms * places,
                                                .c_step = out,
                                            });
    }
    return 0;
}

static void convolution_weight_gradient(struct gyre_layer *layer, const struct gyre_pass *pass,
                                        const float *x, const float *dy)
{
    const size_t terms = weight_terms(layer), places = out_places(layer),
                 in = gyre_volume_count(layer->in), out = layer->outputs * places;
    const struct workplace work = workplace(layer, pass);
    struct gyre_parameter *weight = &layer->parameter[0];
    if (pass->samples == 0 && !pass->accumulate)
        pass->on->table->zero(pass->on, weight->gradient, weight->count * sizeof(float));
    for (size_t s = 0; s < pass->samples; s += layer->at_once) {
        const size_t group = group_at(layer, pass, s);
        spread_group(layer, pass, group, x + s * in);
        pass->on->table->multiply(
            pass->on,
            &(struct gyre_products){
                .first = {.form = GYRE_DENSE_NT,
                          .m = layer->outputs,
                          .n = terms,
                          .k = places,
                          .alpha = 1,
                          .beta = s > 0 || pass->accumulate,
                          .a = gyre_pass_operand(pass, work.dy, dy + s * out, group * out),
                          .lda = places,
                          .b = work.spread,
                          .ldb = places,
                          .c = weight->gradient,
                          .ldc = terms},
                .count = group,
                .precision = pass->precision,
                .a_step = out,
                .b_step = terms * places,
                .partials = work.partials,
            });
    }
}

static void convolution_input_gradient(struct gyre_layer *layer, const struct gyre_pass *pass,
                                       const float *dy, float *dx)
{
    const size_t terms = weight_terms(layer), places = out_places(layer),
                 in = gyre_volume_count(layer->in), out = layer->outputs * places;
    const struct workplace work = workplace(layer, pass);
    const struct gyre_window window = window_of(layer);
    const float *weight = weight_operand(layer, pass);
    for (size_t s = 0; s < pass->samples; s += layer->at_once) {
        const size_t group = group_at(layer, pass, s);
        pass->on->table->multiply(
            pass->on,
            &(struct gyre_products){
                .first = {.form = GYRE_DENSE_TN,
                          .m = terms,
                          .n = places,
                          .k = layer->outputs,
                          .alpha = 1,
                          .a = weight,
                          .lda = terms,
                          .b = gyre_pass_operand(pass, work.dy, dy + s * out, group * out),
                          .ldb = places,
                          .c = work.spread,
                          .ldc = places},
                .count = group,
                .precision = pass->precision,
                .b_step = out,
                .c_step = terms * places,
            });
        pass->on->table->gather(pass->on, &window, group, dx + s * in, work.spread, work.padded);
    }
}

static int convolution_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                                const float *y, float *dy, float *dx)
{
    switch (pass->stage) {
    case 0:
        pass->on->table->channel_sums(pass->on, layer->parameter[1].gradient, dy,
                                      planes_of(layer, pass->samples), pass->accumulate);
        return gyre_pass_ready(pass, &layer->parameter[1]);
    case 1:
        convolution_weight_gradient(layer, pass, x, dy);
        return gyre_pass_ready(pass, &layer->parameter[0]);
    default:
        if (dx)
            convolution_input_gradient(layer, pass, dy, dx);
        return 0;
    }
}

const struct gyre_layer_kind gyre_layer_convolution = {
    .name = "convolution",
    .shape = convolution_shape,
    .forward = convolution_forward,
    .backward = convolution_backward,
};
