/* y = x W^T + b, and a ReLU behind it if asked: one pass less over y, and nothing more to keep.
 *
 *     forward     Y [samples][out]  =  X [samples][in] * W [out][in]^T + b
 *     backward    dW += dY^T * X     db += columns of dY     dX = dY * W
 *
 * The gradient of W comes before that of the input, so that it can travel while the rest of the
 * backward pass is computed.
 *
 * No element of dY^T X, and no sum on the way to it, is above |dY| |X| (Cauchy and Schwarz). Where
 * W is larger than both, that norm is the cheap proof that its gradient holds no NaN and no
 * infinity. Tested by tests/unit/model/layers/layers_test.c. */
#include "model/layers/layer.h"

#include <math.h>

#define BOUND_SQUARED 1e60

static void multiply_one(const struct gyre_pass *pass, const struct gyre_product *product)
{
    pass->on->table->multiply(
        pass->on,
        &(struct gyre_products){.first = *product, .count = 1, .precision = pass->precision});
}

static bool multiply_fused(const struct gyre_layer *layer, const struct gyre_pass *pass,
                           const struct gyre_product *product, const struct gyre_epilogue *then)
{
    return layer->fuses && pass->on->table->multiply_then(pass->on, product, pass->precision, then);
}

static uint32_t *relu_mask(const struct gyre_layer *layer)
{
    return (uint32_t *)(void *)layer->kept;
}

static int linear_shape(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs;
    if (in == 0 || out == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "linear layer %s: %zu inputs and %zu outputs; both must be more "
                                "than 0",
                                layer->name, in, out);
    layer->out = (struct gyre_volume){out, 1, 1};
    layer->kept_floats = layer->fuses && layer->relu ? batch * gyre_mask_bits(out) / 32 : 0;
    layer->scratch_floats = batch * (in + out) + in * out; /* operands in half precision */
    layer->parameter_count = layer->buffer_count = 0;
    gyre_layer_parameter(layer, "weight", 2, (size_t[]){out, in})->fan_in = in;
    gyre_layer_parameter(layer, "bias", 1, (size_t[]){out})->fan_in = in;
    return 0;
}

static int linear_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                          float *y)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs;
    const struct gyre_parameter *weight = &layer->parameter[0], *bias = &layer->parameter[1];
    float *scratch = pass->scratch;
    const float *a = gyre_pass_operand(pass, scratch, x, pass->samples * in);
    const float *b = gyre_pass_operand(pass, scratch + pass->samples * in, weight->value, in * out);
    const struct gyre_product product = {
        .form = GYRE_DENSE_NT,
        .m = pass->samples,
        .n = out,
        .k = in,
        .alpha = 1,
        .a = a,
        .lda = in,
        .b = b,
        .ldb = in,
        .c = y,
        .ldc = out,
    };
    const struct gyre_epilogue then = {.kind = layer->relu ? GYRE_THEN_BIAS_RELU : GYRE_THEN_BIAS,
                                       .bias = bias->value,
                                       .mask = relu_mask(layer)};
    const bool fused = multiply_fused(layer, pass, &product, &then);
    layer->masked = fused && layer->relu;
    layer->finished = false;
    if (fused)
        return 0;
    multiply_one(pass, &product);
    pass->on->table->add_bias(pass->on, y, bias->value, pass->samples, out, layer->relu);
    return 0;
}

static void linear_weight_gradient(struct gyre_layer *layer, const struct gyre_pass *pass,
                                   const float *dy, const float *x)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs;
    multiply_one(pass, &(struct gyre_product){
                           .form = GYRE_DENSE_TN,
                           .m = out,
                           .n = in,
                           .k = pass->samples,
                           .alpha = 1,
                           .beta = pass->accumulate,
                           .a = dy,
                           .lda = out,
                           .b = x,
                           .ldb = in,
                           .c = layer->parameter[0].gradient,
                           .ldc = in,
                       });
}

/* With the way back through the ReLU of the layer below, and its bias's gradient, which are then
 * not for that layer to do. A gradient that is added to cannot be made so. */
static bool go_on_below(const struct gyre_layer *layer, const struct gyre_pass *pass,
                        const struct gyre_product *product)
{
    struct gyre_layer *below = pass->below;
    if (!below || !below->masked || pass->accumulate)
        return false;
    const struct gyre_epilogue then = {.kind = GYRE_THEN_RELU_BACK,
                                       .bias_gradient = below->parameter[1].gradient,
                                       .mask = relu_mask(below)};
    below->finished = multiply_fused(layer, pass, product, &then);
    return below->finished;
}

static void linear_input_gradient(struct gyre_layer *layer, const struct gyre_pass *pass,
                                  const float *dy, const float *weight, float *dx)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs;
    const struct gyre_product product = {
        .form = GYRE_DENSE_NN,
        .m = pass->samples,
        .n = in,
        .k = out,
        .alpha = 1,
        .a = dy,
        .lda = out,
        .b = weight,
        .ldb = in,
        .c = dx,
        .ldc = in,
    };
    if (!go_on_below(layer, pass, &product))
        multiply_one(pass, &product);
}

static bool is_small(double squares)
{
    return squares < BOUND_SQUARED; /* which a NaN is not */
}

/* Half precision has not this range: nothing is said of it, nor where the host would wait. */
static bool is_bounded(const struct gyre_layer *layer, const struct gyre_pass *pass,
                       const float *dy, const float *x)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs;
    double (*squares)(struct gyre_processor *, const float *, size_t) = pass->on->table->squares;
    if (pass->samples * (in + out) >= in * out || pass->precision == GYRE_PRECISION_F16 || !squares)
        return false;
    double of_dy = squares(pass->on, dy, pass->samples * out);
    double of_x = is_small(of_dy) ? squares(pass->on, x, pass->samples * in) : INFINITY;
    return is_small(of_x) && is_small(of_dy * of_x);
}

static int linear_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                           const float *y, float *dy, float *dx)
{
    const size_t in = gyre_volume_count(layer->in), out = layer->outputs;
    struct gyre_parameter *weight = &layer->parameter[0], *bias = &layer->parameter[1];
    float *for_dy = pass->scratch, *for_x = for_dy + pass->samples * out,
          *for_weight = for_x + pass->samples * in;
    switch (pass->stage) {
    case 0:
        if (layer->relu && !layer->finished)
            pass->on->table->relu_back(pass->on, dy, dy, y, pass->samples * out);
        if (!layer->finished)
            pass->on->table->column_sums(pass->on, bias->gradient, dy, pass->samples, out,
                                         pass->accumulate);
        layer->finished = false;
        return gyre_pass_ready(pass, bias);
    case 1:
        linear_weight_gradient(layer, pass,
                               gyre_pass_operand(pass, for_dy, dy, pass->samples * out),
                               gyre_pass_operand(pass, for_x, x, pass->samples * in));
        weight->bounded = is_bounded(layer, pass, dy, x);
        return gyre_pass_ready(pass, weight);
    default: /* dy was rounded by the stage before */
        if (dx)
            linear_input_gradient(layer, pass, pass->precision == GYRE_PRECISION_F32 ? dy : for_dy,
                                  gyre_pass_operand(pass, for_weight, weight->value, in * out), dx);
        return 0;
    }
}

const struct gyre_layer_kind gyre_layer_linear = {
    .name = "linear",
    .shape = linear_shape,
    .forward = linear_forward,
    .backward = linear_backward,
};
