/* The greatest of each square of kernel x kernel, every `stride` places; what is left over at the
 * right and below is dropped. Of equal values the first counts, and NaN is greater than all. Kept
 * is which one it was, so that its gradient finds back. Tested by
 * tests/unit/model/layers/layers_test.c. */
#include "model/layers/layer.h"

static int max_pool_shape(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble)
{
    const struct gyre_volume in = layer->in;
    const size_t k = layer->kernel, stride = layer->stride;
    if (k == 0 || stride == 0 || layer->padding != 0 || in.height < k || in.width < k ||
        in.height * in.width > UINT32_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "max pool %s: a kernel of %zu, stride %zu, padding %zu on "
                                "%zu x %zu; it takes no padding and an image of at least its size",
                                layer->name, k, stride, layer->padding, in.height, in.width);
    layer->out = (struct gyre_volume){in.channels, (in.height - k) / stride + 1,
                                      (in.width - k) / stride + 1};
    layer->kept_floats = batch * gyre_volume_count(layer->out);
    layer->scratch_floats = 0;
    layer->parameter_count = layer->buffer_count = 0;
    return 0;
}

static struct gyre_window pooled_window(const struct gyre_layer *layer)
{
    return (struct gyre_window){layer->in.channels, layer->in.height, layer->in.width,
                                layer->kernel,      layer->stride,    0,
                                layer->out.height,  layer->out.width};
}

static int max_pool_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                            float *y)
{
    const struct gyre_window window = pooled_window(layer);
    pass->on->table->pool(pass->on, &window, pass->samples, y, (uint32_t *)layer->kept, x);
    return 0;
}

static int max_pool_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                             const float *y, float *dy, float *dx)
{
    const struct gyre_window window = pooled_window(layer);
    if (dx)
        pass->on->table->pool_back(pass->on, &window, pass->samples, dx, dy,
                                   (const uint32_t *)layer->kept);
    return 0;
}

const struct gyre_layer_kind gyre_layer_max_pool = {
    .name = "max pool",
    .shape = max_pool_shape,
    .forward = max_pool_forward,
    .backward = max_pool_backward,
};
