/* The small convolutional network of many introductions, for any image and number of classes:
 *
 *     image c x h x w
 *     layer1   convolution 5 x 5 to 16, batch norm, ReLU, max pool by 2      16 x h/2 x w/2
 *     layer2   convolution 5 x 5 to 32, batch norm, ReLU, max pool by 2      32 x h/4 x w/4
 *     fc       linear to the classes
 *
 * For MNIST that is 29,034 parameters. Tested by tests/unit/model/nets/model_test.c. */
#include "model/nets/inside.h"

#include <stdio.h>

static int add_named(struct gyre_model *model, struct gyre_layer layer, const char *block,
                     int place, struct gyre_trouble *trouble)
{
    snprintf(layer.name, sizeof layer.name, "%s.%d", block, place);
    return gyre_model_add(model, &layer, trouble);
}

static int add_conv_block(struct gyre_model *model, const char *name, size_t channels,
                          struct gyre_trouble *trouble)
{
    const struct gyre_layer layers[] = {
        {.kind = &gyre_layer_convolution,
         .outputs = channels,
         .kernel = 5,
         .stride = 1,
         .padding = 2},
        {.kind = &gyre_layer_batch_norm},
        {.kind = &gyre_layer_relu},
        {.kind = &gyre_layer_max_pool, .kernel = 2, .stride = 2},
    };
    int status = 0;
    for (int i = 0; i < 4 && !status; i++)
        status = add_named(model, layers[i], name, i, trouble);
    return status;
}

int gyre_convnet_create(struct gyre_model **out, struct gyre_volume image, size_t classes,
                        const struct gyre_model_settings *settings, struct gyre_trouble *trouble)
{
    const struct gyre_layer flatten = {.kind = &gyre_layer_flatten, .name = "flatten"};
    const struct gyre_layer last = {.kind = &gyre_layer_linear, .name = "fc", .outputs = classes};
    struct gyre_model *model;
    int status = gyre_model_begin(&model, image, settings, trouble);
    if (status)
        return status;
    status = add_conv_block(model, "layer1", 16, trouble);
    if (!status)
        status = add_conv_block(model, "layer2", 32, trouble);
    if (!status)
        status = gyre_model_add(model, &flatten, trouble);
    if (!status)
        status = gyre_model_add(model, &last, trouble);
    return gyre_model_finish(model, status, out, trouble);
}
