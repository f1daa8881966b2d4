/* The layers that change no shape of theirs, or only the shape: ReLU (negative becomes 0) and
 * flatten (an image becomes a row). Both work in place, flatten by doing nothing. Tested by
 * tests/unit/model/layers/layers_test.c. */
#include "model/layers/layer.h"

static int shape_same(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble)
{
    layer->out = layer->in;
    layer->kept_floats = layer->scratch_floats = 0;
    layer->parameter_count = layer->buffer_count = 0;
    return 0;
}

static int relu_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x, float *y)
{
    pass->on->table->relu(pass->on, y, x, pass->samples * gyre_volume_count(layer->in));
    return 0;
}

static int relu_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                         const float *y, float *dy, float *dx)
{
    if (dx)
        pass->on->table->relu_back(pass->on, dx, dy, y,
                                   pass->samples * gyre_volume_count(layer->in));
    return 0;
}

const struct gyre_layer_kind gyre_layer_relu = {
    .name = "relu",
    .in_place = true,
    .shape = shape_same,
    .forward = relu_forward,
    .backward = relu_backward,
};

static int shape_flat(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble)
{
    shape_same(layer, batch, trouble);
    layer->out = (struct gyre_volume){gyre_volume_count(layer->in), 1, 1};
    return 0;
}

static void copy_where_positive(const struct gyre_layer *layer, const struct gyre_pass *pass,
                                float *to, const float *from)
{
    if (to && to != from)
        pass->on->table->copy(pass->on, to, from,
                              pass->samples * gyre_volume_count(layer->in) * sizeof *to);
}

static int flat_forward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x, float *y)
{
    copy_where_positive(layer, pass, y, x);
    return 0;
}

static int flat_backward(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                         const float *y, float *dy, float *dx)
{
    copy_where_positive(layer, pass, dx, dy);
    return 0;
}

const struct gyre_layer_kind gyre_layer_flatten = {
    .name = "flatten",
    .in_place = true,
    .shape = shape_flat,
    .forward = flat_forward,
    .backward = flat_backward,
};
