/* See init.h. This file must not be compiled with contraction, as no file of Gyre is. */
#include "model/learning/init.h"

#include "sampler/mt19937.h"

#include <math.h>

static double bound_of(const struct gyre_parameter *parameter)
{
    const double root = sqrt((double)parameter->fan_in);
    if (parameter->dims < 2)
        return 1 / root;
    const double gain = sqrt(2.0 / (1 + 5.000000000000001)); /* Python's sqrt(5) ** 2 */
    return sqrt(3.0) * (gain / root);
}

static void draw_values(struct gyre_parameter *parameter, struct gyre_mt19937 *mt)
{
    const double bound = bound_of(parameter);
    const float from = (float)-bound, width = (float)bound - from;
    for (size_t i = 0; i < parameter->count; i++) {
        float uniform = (float)(gyre_mt19937_next32(mt) & 0xffffff) * 0x1p-24f;
        float scaled = uniform * width;
        parameter->value[i] = scaled + from;
    }
}

void gyre_init_parameters(struct gyre_parameter *const *parameters, int count, uint64_t seed)
{
    struct gyre_mt19937 mt;
    gyre_mt19937_seed(&mt, (uint32_t)seed);
    for (int p = 0; p < count; p++) {
        if (parameters[p]->fan_in)
            draw_values(parameters[p], &mt);
        else
            for (size_t i = 0; i < parameters[p]->count; i++)
                parameters[p]->value[i] = parameters[p]->fill;
    }
}

void gyre_init_buffers(struct gyre_running_buffer *const *buffers, int count)
{
    for (int b = 0; b < count; b++) {
        for (size_t i = 0; i < buffers[b]->count; i++) {
            if (buffers[b]->whole)
                ((int64_t *)buffers[b]->value)[i] = (int64_t)buffers[b]->fill;
            else
                ((float *)buffers[b]->value)[i] = (float)buffers[b]->fill;
        }
    }
}
