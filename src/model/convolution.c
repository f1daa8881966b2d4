/* Convolution in two dimensions, stride 1, zeros around: each sample is spread out so that every
 * output is a row of a product (im2col), and the product does the work.
 *
 *     spread [inputs * k * k][oh * ow]       one row per element of the kernel, one column per
 *     y      [outputs][oh * ow]              place; W is [outputs][inputs * k * k]
 *
 *     forward     y = W * spread(x) + b
 *     backward    dW += dy * spread(x)^T     db += rows of dy     dx = gather(W^T * dy)
 *
 * gather() adds up what spread() had copied. Spreading again in backward is cheaper than keeping it:
 * it is k * k times the input. */
#include "model/layer.h"

#include <string.h>

static size_t places(const struct gyre_layer *layer)
{
    return layer->out.height * layer->out.width;
}

static size_t terms(const struct gyre_layer *layer)
{
    return layer->in.channels * layer->kernel * layer->kernel;
}

static int shape(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble)
{
    const struct gyre_shape in = layer->in;
    const size_t k = layer->kernel, pad = 2 * layer->padding, outputs = layer->outputs;
    if (k == 0 || layer->stride != 1 || layer->padding >= k || in.height + pad < k ||
        in.width + pad < k || in.channels == 0 || outputs == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "convolution %s: a kernel of %zu, stride %zu, padding %zu from "
                                "%zu x %zu x %zu to %zu channels; it takes stride 1, a padding "
                                "less than the kernel and an image of at least its size",
                                layer->name, k, layer->stride, layer->padding, in.channels,
                                in.height, in.width, outputs);
    layer->out = (struct gyre_shape){outputs, in.height + pad - k + 1, in.width + pad - k + 1};
    layer->kept_floats = 0;
    layer->scratch_floats = terms(layer) * places(layer) + outputs * terms(layer) +
                            outputs * places(layer) + gyre_shape_count(in);
    layer->parameter_count = layer->buffer_count = 0;
    gyre_layer_parameter(layer, "weight", 4, (size_t[]){outputs, in.channels, k, k})->fan_in =
        terms(layer);
    gyre_layer_parameter(layer, "bias", 1, (size_t[]){outputs})->fan_in = terms(layer);
    return 0;
}

/* -- spreading --------------------------------------------------------------------------------- */

/* Which outputs of a line the element `offset` of the kernel reaches: those whose input exists. */
struct reach {
    size_t first, end;
};

static struct reach reach_of(size_t offset, size_t padding, size_t inputs, size_t outputs)
{
    struct reach reach = {offset < padding ? padding - offset : 0, 0};
    if (offset < inputs + padding)
        reach.end = inputs + padding - offset;
    if (reach.end > outputs)
        reach.end = outputs;
    if (reach.first > reach.end)
        reach.first = reach.end;
    return reach;
}

static void spread_row(const struct gyre_layer *layer, const float *plane, size_t ky, size_t kx,
                       float *row)
{
    const struct gyre_shape in = layer->in, out = layer->out;
    const size_t pad = layer->padding;
    struct reach ys = reach_of(ky, pad, in.height, out.height),
                 xs = reach_of(kx, pad, in.width, out.width);
    memset(row, 0, ys.first * out.width * sizeof *row);
    for (size_t y = ys.first; y < ys.end; y++) {
        float *line = row + y * out.width;
        memset(line, 0, xs.first * sizeof *line);
        size_t from = (y + ky - pad) * in.width + xs.first + kx - pad;
        if (xs.first < xs.end)
            memcpy(line + xs.first, plane + from, (xs.end - xs.first) * sizeof *line);
        memset(line + xs.end, 0, (out.width - xs.end) * sizeof *line);
    }
    memset(row + ys.end * out.width, 0, (out.height - ys.end) * out.width * sizeof *row);
}

static void spread(const struct gyre_layer *layer, const float *x, float *to)
{
    const size_t k = layer->kernel, plane = layer->in.height * layer->in.width;
    for (size_t c = 0; c < layer->in.channels; c++)
        for (size_t at = 0; at < k * k; at++, to += places(layer))
            spread_row(layer, x + c * plane, at / k, at % k, to);
}

static void gather_row(const struct gyre_layer *layer, float *plane, size_t ky, size_t kx,
                       const float *row)
{
    const struct gyre_shape in = layer->in, out = layer->out;
    const size_t pad = layer->padding;
    struct reach ys = reach_of(ky, pad, in.height, out.height),
                 xs = reach_of(kx, pad, in.width, out.width);
    for (size_t y = ys.first; y < ys.end; y++) {
        const float *line = row + y * out.width + xs.first;
        const size_t to = (y + ky - pad) * in.width + xs.first + kx - pad;
        for (size_t x = 0; x < xs.end - xs.first; x++)
            plane[to + x] += line[x];
    }
}

static void gather(const struct gyre_layer *layer, const float *from, float *dx)
{
    const size_t k = layer->kernel, plane = layer->in.height * layer->in.width;
    memset(dx, 0, layer->in.channels * plane * sizeof *dx);
    for (size_t c = 0; c < layer->in.channels; c++)
        for (size_t at = 0; at < k * k; at++, from += places(layer))
            gather_row(layer, dx + c * plane, at / k, at % k, from);
}

/* -- passes ------------------------------------------------------------------------------------ */

/* How pass->scratch is cut. */
struct workplace {
    float *spread, *weight, *dy, *x;
};

static struct workplace workplace(const struct gyre_layer *layer, const struct gyre_pass *pass)
{
    struct workplace work = {.spread = pass->scratch};
    work.weight = work.spread + terms(layer) * places(layer);
    work.dy = work.weight + layer->outputs * terms(layer);
    work.x = work.dy + layer->outputs * places(layer);
    return work;
}

static int forward(struct gyre_layer *layer, const struct gyre_pass *pass, const float *x, float *y)
{
    const size_t outputs = layer->outputs, in = gyre_shape_count(layer->in);
    const struct workplace work = workplace(layer, pass);
    const float *weight =
        gyre_pass_operand(pass, work.weight, layer->parameter[0].value, layer->parameter[0].count);
    const float *bias = layer->parameter[1].value;
    for (size_t s = 0; s < pass->samples; s++, x += in, y += outputs * places(layer)) {
        spread(layer, gyre_pass_operand(pass, work.x, x, in), work.spread);
        for (size_t o = 0; o < outputs; o++)
            for (size_t p = 0; p < places(layer); p++)
                y[o * places(layer) + p] = bias[o];
        gyre_dense_multiply(pass->dense, &(struct gyre_product){
                                             .form = GYRE_DENSE_NN,
                                             .m = outputs,
                                             .n = places(layer),
                                             .k = terms(layer),
                                             .alpha = 1,
                                             .beta = 1,
                                             .a = weight,
                                             .lda = terms(layer),
                                             .b = work.spread,
                                             .ldb = places(layer),
                                             .c = y,
                                             .ldc = places(layer),
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
            sum += pass->ops->sum(dy + (s * layer->outputs + o) * places(layer), places(layer));
        gradient[o] = (float)sum;
    }
}

static void weight_gradient(struct gyre_layer *layer, const struct gyre_pass *pass, const float *x,
                            const float *dy)
{
    const size_t in = gyre_shape_count(layer->in), out = layer->outputs * places(layer);
    const struct workplace work = workplace(layer, pass);
    struct gyre_parameter *weight = &layer->parameter[0];
    if (pass->samples == 0 && !pass->accumulate)
        memset(weight->gradient, 0, weight->count * sizeof(float));
    for (size_t s = 0; s < pass->samples; s++) {
        spread(layer, gyre_pass_operand(pass, work.x, x + s * in, in), work.spread);
        gyre_dense_multiply(pass->dense,
                            &(struct gyre_product){
                                .form = GYRE_DENSE_NT,
                                .m = layer->outputs,
                                .n = terms(layer),
                                .k = places(layer),
                                .alpha = 1,
                                .beta = s > 0 || pass->accumulate,
                                .a = gyre_pass_operand(pass, work.dy, dy + s * out, out),
                                .lda = places(layer),
                                .b = work.spread,
                                .ldb = places(layer),
                                .c = weight->gradient,
                                .ldc = terms(layer),
                            });
    }
}

static void input_gradient(struct gyre_layer *layer, const struct gyre_pass *pass, const float *dy,
                           float *dx)
{
    const size_t in = gyre_shape_count(layer->in), out = layer->outputs * places(layer);
    const struct workplace work = workplace(layer, pass);
    const float *weight =
        gyre_pass_operand(pass, work.weight, layer->parameter[0].value, layer->parameter[0].count);
    for (size_t s = 0; s < pass->samples; s++) {
        gyre_dense_multiply(pass->dense,
                            &(struct gyre_product){
                                .form = GYRE_DENSE_TN,
                                .m = terms(layer),
                                .n = places(layer),
                                .k = layer->outputs,
                                .alpha = 1,
                                .a = weight,
                                .lda = terms(layer),
                                .b = gyre_pass_operand(pass, work.dy, dy + s * out, out),
                                .ldb = places(layer),
                                .c = work.spread,
                                .ldc = places(layer),
                            });
        gather(layer, work.spread, dx + s * in);
    }
}

static int backward(struct gyre_layer *layer, const struct gyre_pass *pass, const float *x,
                    const float *y, float *dy, float *dx)
{
    bias_gradient(layer, pass, dy);
    gyre_pass_ready(pass, &layer->parameter[1]);
    weight_gradient(layer, pass, x, dy);
    gyre_pass_ready(pass, &layer->parameter[0]);
    if (dx)
        input_gradient(layer, pass, dy, dx);
    return 0;
}

const struct gyre_layer_kind gyre_layer_convolution = {
    .name = "convolution",
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
