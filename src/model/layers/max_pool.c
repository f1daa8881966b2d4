/* The greatest of each square of kernel x kernel, every `stride` places; what is left over at the
 * right and below is dropped. Of equal values the first counts, and NaN is greater than all. Kept
 * is which one it was, so that its gradient finds back. Tested by
 * tests/unit/model/layers/layers_test.c. */
#include "model/layers/layer.h"

#include <math.h>
#include <string.h>

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

static uint32_t greatest_at(const struct gyre_layer *layer, const float *plane, size_t y, size_t x)
{
    const size_t width = layer->in.width;
    size_t best = y * width + x;
    for (size_t dy = 0; dy < layer->kernel; dy++) {
        for (size_t dx = 0; dx < layer->kernel; dx++) {
            size_t at = (y + dy) * width + x + dx;
            if (plane[at] > plane[best] || (isnan(plane[at]) && !isnan(plane[best])))
                best = at;
        }
    }
    return (uint32_t)best;
}

static int max_pool_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                            float *y)
{
    const size_t plane = layer->in.height * layer->in.width;
    const struct gyre_volume out = layer->out;
    uint32_t *from = (uint32_t *)layer->kept;
    for (size_t p = 0; p < pass->samples * layer->in.channels; p++, x += plane) {
        for (size_t at = 0; at < out.height * out.width; at++, y++, from++) {
            *from = greatest_at(layer, x, at / out.width * layer->stride,
                                at % out.width * layer->stride);
            *y = x[*from];
        }
    }
    return 0;
}

static int max_pool_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                             const float *y, float *dy, float *dx)
{
    const size_t plane = layer->in.height * layer->in.width,
                 places = layer->out.height * layer->out.width;
    const uint32_t *from = (const uint32_t *)layer->kept;
    if (!dx)
        return 0;
    for (size_t p = 0; p < pass->samples * layer->in.channels; p++) {
        memset(dx, 0, plane * sizeof *dx);
        for (size_t at = 0; at < places; at++)
            dx[from[at]] += dy[at];
        dx += plane, dy += places, from += places;
    }
    return 0;
}

const struct gyre_layer_kind gyre_layer_max_pool = {
    .name = "max pool",
    .shape = max_pool_shape,
    .forward = max_pool_forward,
    .backward = max_pool_backward,
};
