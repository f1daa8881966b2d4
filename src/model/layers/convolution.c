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
 * keeping it: it is k * k times the input. Tested by tests/unit/model/layers/layers_test.c. */
#include "model/layers/layer.h"

#include <string.h>

static size_t out_places(const struct gyre_layer *layer)
{
    return layer->out.height * layer->out.width;
}

static size_t kernel_terms(const struct gyre_layer *layer)
{
    return layer->in.channels * layer->kernel * layer->kernel;
}

/* A sample with its zeros around, so that every line of every row is one run of it. */
static size_t padded_floats(const struct gyre_layer *layer)
{
    return layer->in.channels * (layer->in.height + 2 * layer->padding) *
           (layer->in.width + 2 * layer->padding);
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
    layer->scratch_floats = kernel_terms(layer) * out_places(layer) +
                            outputs * kernel_terms(layer) + outputs * out_places(layer) +
                            padded_floats(layer);
    layer->parameter_count = layer->buffer_count = 0;
    gyre_layer_parameter(layer, "weight", 4, (size_t[]){outputs, in.channels, k, k})->fan_in =
        kernel_terms(layer);
    gyre_layer_parameter(layer, "bias", 1, (size_t[]){outputs})->fan_in = kernel_terms(layer);
    return 0;
}

/* -- spreading --------------------------------------------------------------------------------- */

/* Between the image and the same with zeros around it, whichever is const. */
static float *padded_row(const struct gyre_layer *layer, float *padded, size_t channel, size_t y)
{
    const size_t width = layer->in.width + 2 * layer->padding,
                 height = layer->in.height + 2 * layer->padding;
    return padded + (channel * height + y + layer->padding) * width + layer->padding;
}

static void pad(const struct gyre_layer *layer, const float *x, float *padded)
{
    const struct gyre_volume in = layer->in;
    memset(padded, 0, padded_floats(layer) * sizeof *padded);
    for (size_t c = 0; c < in.channels; c++)
        for (size_t y = 0; y < in.height; y++, x += in.width)
            memcpy(padded_row(layer, padded, c, y), x, in.width * sizeof *x);
}

static void unpad(const struct gyre_layer *layer, float *padded, float *dx)
{
    const struct gyre_volume in = layer->in;
    for (size_t c = 0; c < in.channels; c++)
        for (size_t y = 0; y < in.height; y++, dx += in.width)
            memcpy(dx, padded_row(layer, padded, c, y), in.width * sizeof *dx);
}

/* Where the element `at` of the kernel, of all channels' kernels, meets the first output. */
static size_t first_place(const struct gyre_layer *layer, size_t at)
{
    const size_t k = layer->kernel, width = layer->in.width + 2 * layer->padding,
                 height = layer->in.height + 2 * layer->padding;
    return (at / (k * k) * height + at / k % k) * width + at % k;
}

/* Lines are short, and a call of memcpy() for each would take longer than its work. */
static inline void copy_line(float *to, const float *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        memcpy(to + i, from + i, 8 * sizeof *to);
    if (count >= 8)
        memcpy(to + count - 8, from + count - 8, 8 * sizeof *to);
    else
        for (; i < count; i++)
            to[i] = from[i];
}

static void spread_rows(const struct gyre_layer *layer, const float *padded, float *to)
{
    const size_t width = layer->in.width + 2 * layer->padding;
    for (size_t at = 0; at < kernel_terms(layer); at++) {
        const float *from = padded + first_place(layer, at);
        for (size_t y = 0; y < layer->out.height; y++, to += layer->out.width, from += width)
            copy_line(to, from, layer->out.width);
    }
}

static void gather_rows(const struct gyre_layer *layer, const float *from, float *padded)
{
    const size_t width = layer->in.width + 2 * layer->padding, line = layer->out.width;
    memset(padded, 0, padded_floats(layer) * sizeof *padded);
    for (size_t at = 0; at < kernel_terms(layer); at++) {
        float *to = padded + first_place(layer, at);
        for (size_t y = 0; y < layer->out.height; y++, to += width, from += line)
            for (size_t x = 0; x < line; x++)
                to[x] += from[x];
    }
}

/* -- passes ------------------------------------------------------------------------------------ */

/* How pass->scratch is cut. */
struct workplace {
    float *spread, *weight, *dy, *padded;
};

static struct workplace workplace(const struct gyre_layer *layer, const struct gyre_pass *pass)
{
    struct workplace work = {.spread = pass->scratch};
    work.weight = work.spread + kernel_terms(layer) * out_places(layer);
    work.dy = work.weight + layer->outputs * kernel_terms(layer);
    work.padded = work.dy + layer->outputs * out_places(layer);
    return work;
}

/* Puts a sample, as a product takes it, into work.spread. */
static void spread_sample(const struct gyre_layer *layer, const struct gyre_pass *pass,
                          const float *x)
{
    const struct workplace work = workplace(layer, pass);
    pad(layer, x, work.padded);
    spread_rows(layer, gyre_pass_operand(pass, work.padded, work.padded, padded_floats(layer)),
                work.spread);
}

static int convolution_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                               float *y)
{
    const size_t outputs = layer->outputs, in = gyre_volume_count(layer->in);
    const struct workplace work = workplace(layer, pass);
    const float *weight =
        gyre_pass_operand(pass, work.weight, layer->parameter[0].value, layer->parameter[0].count);
    const float *bias = layer->parameter[1].value;
    for (size_t s = 0; s < pass->samples; s++, x += in, y += outputs * out_places(layer)) {
        spread_sample(layer, pass, x);
        for (size_t o = 0; o < outputs; o++)
            for (size_t p = 0; p < out_places(layer); p++)
                y[o * out_places(layer) + p] = bias[o];
        gyre_dense_multiply(pass->dense, &(struct gyre_product){
                                             .form = GYRE_DENSE_NN,
                                             .m = outputs,
                                             .n = out_places(layer),
                                             .k = kernel_terms(layer),
                                             .alpha = 1,
                                             .beta = 1,
                                             .a = weight,
                                             .lda = kernel_terms(layer),
                                             .b = work.spread,
                                             .ldb = out_places(layer),
                                             .c = y,
                                             .ldc = out_places(layer),
                                         });
    }
    return 0;
}

static void bias_gradient(struct gyre_layer *layer, const struct gyre_pass *pass, const float *dy)
{
    float *gradient = layer->parameter[1].gradient;
    for (size_t o = 0; o < layer->outputs; o++) {
        double sum = pass->accumulate ? (double)gradient[o] : 0;
        for (size_t s = 0; s < pass->samples; s++)
            sum += pass->ops->sum(dy + (s * layer->outputs + o) * out_places(layer),
                                  out_places(layer));
        gradient[o] = (float)sum;
    }
}

static void convolution_weight_gradient(struct gyre_layer *layer, const struct gyre_pass *pass,
                                        const float *x, const float *dy)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs * out_places(layer);
    const struct workplace work = workplace(layer, pass);
    struct gyre_parameter *weight = &layer->parameter[0];
    if (pass->samples == 0 && !pass->accumulate)
        memset(weight->gradient, 0, weight->count * sizeof(float));
    for (size_t s = 0; s < pass->samples; s++) {
        spread_sample(layer, pass, x + s * in);
        gyre_dense_multiply(pass->dense,
                            &(struct gyre_product){
                                .form = GYRE_DENSE_NT,
                                .m = layer->outputs,
                                .n = kernel_terms(layer),
                                .k = out_places(layer),
                                .alpha = 1,
                                .beta = s > 0 || pass->accumulate,
                                .a = gyre_pass_operand(pass, work.dy, dy + s * out, out),
                                .lda = out_places(layer),
                                .b = work.spread,
                                .ldb = out_places(layer),
                                .c = weight->gradient,
                                .ldc = kernel_terms(layer),
                            });
    }
}

static void convolution_input_gradient(struct gyre_layer *layer, const struct gyre_pass *pass,
                                       const float *dy, float *dx)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs * out_places(layer);
    const struct workplace work = workplace(layer, pass);
    const float *weight =
        gyre_pass_operand(pass, work.weight, layer->parameter[0].value, layer->parameter[0].count);
    for (size_t s = 0; s < pass->samples; s++) {
        gyre_dense_multiply(pass->dense,
                            &(struct gyre_product){
                                .form = GYRE_DENSE_TN,
                                .m = kernel_terms(layer),
                                .n = out_places(layer),
                                .k = layer->outputs,
                                .alpha = 1,
                                .a = weight,
                                .lda = kernel_terms(layer),
                                .b = gyre_pass_operand(pass, work.dy, dy + s * out, out),
                                .ldb = out_places(layer),
                                .c = work.spread,
                                .ldc = out_places(layer),
                            });
        gather_rows(layer, work.spread, work.padded);
        unpad(layer, work.padded, dx + s * in);
    }
}

static int convolution_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                                const float *y, float *dy, float *dx)
{
    switch (pass->stage) {
    case 0:
        bias_gradient(layer, pass, dy);
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
