/* What every layer needs: descriptions of parameters, and operands in the pass's precision. Tested
 * by tests/unit/model/layers/layers_test.c. */
#include "model/layers/layer.h"

#include <stdio.h>
#include <string.h>

const char *const gyre_precision_names[] = {[GYRE_PRECISION_F32] = "f32",
                                            [GYRE_PRECISION_BF16] = "bf16",
                                            [GYRE_PRECISION_F16] = "f16",
                                            NULL};

static void join_names(char *to, const char *layer, const char *name)
{
    if (layer[0])
        snprintf(to, GYRE_NAME_MOST, "%s.%s", layer, name);
    else
        snprintf(to, GYRE_NAME_MOST, "%s", name);
}

struct gyre_parameter *gyre_layer_parameter(struct gyre_layer *layer, const char *name, int dims,
                                            const size_t *shape)
{
    struct gyre_parameter *parameter = &layer->parameter[layer->parameter_count++];
    memset(parameter, 0, sizeof *parameter);
    join_names(parameter->name, layer->name, name);
    parameter->dims = dims;
    parameter->count = 1;
    for (int d = 0; d < dims; d++) {
        parameter->shape[d] = shape[d];
        parameter->count *= shape[d];
    }
    return parameter;
}

struct gyre_running_buffer *gyre_layer_buffer(struct gyre_layer *layer, const char *name,
                                              size_t count)
{
    struct gyre_running_buffer *buffer = &layer->buffer[layer->buffer_count++];
    memset(buffer, 0, sizeof *buffer);
    join_names(buffer->name, layer->name, name);
    buffer->dims = 1;
    buffer->count = count;
    return buffer;
}

const float *gyre_pass_operand(const struct gyre_pass *pass, float *to, const float *from,
                               size_t count)
{
    if (pass->precision == GYRE_PRECISION_F32)
        return from;
    pass->on->table->round(pass->on, pass->precision, to, from, count);
    return to;
}

int gyre_pass_learn_samples(struct gyre_pass *pass)
{
    const struct gyre_pass_event *event = &pass->event;
    int status = 0;
    if (event->counts)
        status = pass->on->table->get(pass->on, &pass->all_samples, event->sum + event->count - 1,
                                      sizeof pass->all_samples, pass->trouble);
    pass->event.counts = false;
    return status;
}
