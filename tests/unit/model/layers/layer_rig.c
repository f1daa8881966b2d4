/* See layer_rig.h. */
#include "unit/model/layers/layer_rig.h"

#include "base/rng.h"
#include "rig/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct gyre_rng rng;
static struct gyre_trouble trouble;

float layer_rig_random(void)
{
    return (float)((double)(gyre_rng_next(&rng) >> 11) * 0x1p-52 - 1);
}

static float *floats(size_t count)
{
    float *x = calloc(count + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static float *random_floats(size_t count)
{
    float *x = floats(count);
    for (size_t i = 0; i < count; i++)
        x[i] = layer_rig_random();
    return x;
}

static void note_ready(struct layer_rig *rig, const struct gyre_parameter *parameter)
{
    const char *point = strrchr(parameter->name, '.');
    strcat(rig->ready, point ? point + 1 : parameter->name);
    strcat(rig->ready, " ");
}

static void give_memory(struct gyre_layer *layer)
{
    for (int p = 0; p < layer->parameter_count; p++) {
        layer->parameter[p].value = random_floats(layer->parameter[p].count);
        layer->parameter[p].gradient = random_floats(layer->parameter[p].count);
    }
    for (int b = 0; b < layer->buffer_count; b++) {
        struct gyre_running_buffer *buffer = &layer->buffer[b];
        buffer->value = calloc(buffer->count, 8);
        for (size_t i = 0; !buffer->whole && i < buffer->count; i++)
            ((float *)buffer->value)[i] = (float)buffer->fill;
    }
    layer->kept = floats(layer->kept_floats);
}

void layer_rig_init(struct layer_rig *rig, const struct gyre_layer *layer, size_t samples,
                    uint64_t seed)
{
    memset(rig, 0, sizeof *rig);
    memset(&trouble, 0, sizeof trouble);
    gyre_rng_seed(&rng, seed);
    rig->layer = *layer;
    rig->samples = samples;
    assert_int_equal(gyre_processor_open(&rig->pass.on, GYRE_MEMORY_HOST, 0, &trouble), 0);
    if (rig->layer.kind->shape(&rig->layer, samples, &trouble))
        fail_msg("%s", trouble.text);
    give_memory(&rig->layer);
    rig->in = samples * gyre_volume_count(rig->layer.in);
    rig->out = samples * gyre_volume_count(rig->layer.out);
    rig->x = random_floats(rig->in);
    rig->y = floats(rig->out);
    rig->dy = random_floats(rig->out);
    rig->dx = random_floats(rig->in);
    rig->pass.samples = samples;
    rig->pass.train = true;
    rig->pass.scratch = floats(rig->layer.scratch_floats);
    rig->pass.trouble = &trouble;
}

void layer_rig_deinit(struct layer_rig *rig)
{
    for (int p = 0; p < rig->layer.parameter_count; p++) {
        free(rig->layer.parameter[p].value);
        free(rig->layer.parameter[p].gradient);
    }
    for (int b = 0; b < rig->layer.buffer_count; b++)
        free(rig->layer.buffer[b].value);
    free(rig->layer.kept);
    free(rig->x);
    free(rig->y);
    free(rig->dy);
    free(rig->dx);
    free(rig->pass.scratch);
    gyre_processor_close(rig->pass.on);
}

/* *status: what the layer returned. True: it is to be called again, for the next stage. */
static bool handle_event(struct layer_rig *rig, int *status)
{
    const struct gyre_pass_event *event = &rig->pass.event;
    if (*status != GYRE_AGAIN)
        return false;
    *status = 0;
    rig->pass.stage++;
    if (event->ready)
        note_ready(rig, event->ready);
    else
        *status = rig->sum(rig->sum_context, event->sum, event->count);
    if (!*status)
        *status = gyre_pass_learn_samples(&rig->pass);
    return !*status;
}

int layer_rig_try_forward(struct layer_rig *rig)
{
    int status;
    rig->pass.stage = 0;
    do
        status = rig->layer.kind->forward(&rig->layer, &rig->pass, rig->x, rig->y);
    while (handle_event(rig, &status));
    return status;
}

int layer_rig_backward(struct layer_rig *rig, float *dy)
{
    int status;
    rig->pass.stage = 0;
    do
        status = rig->layer.kind->backward(&rig->layer, &rig->pass, rig->x, rig->y, dy, rig->dx);
    while (handle_event(rig, &status));
    return status;
}

void layer_rig_forward(struct layer_rig *rig)
{
    if (layer_rig_try_forward(rig))
        fail_msg("%s", trouble.text);
}

double layer_rig_objective(struct layer_rig *rig)
{
    double sum = 0;
    layer_rig_forward(rig);
    for (size_t i = 0; i < rig->out; i++)
        sum += (double)rig->dy[i] * (double)rig->y[i];
    return sum;
}

/* -- differences ------------------------------------------------------------------------------- */

static double difference(struct layer_rig *rig, float *at, float step)
{
    const float old = *at, above = old + step, below = old - step;
    *at = above;
    double high = layer_rig_objective(rig);
    *at = below;
    double low = layer_rig_objective(rig);
    *at = old;
    return (high - low) / ((double)above - (double)below);
}

static void check_span(struct layer_rig *rig, const char *name, float *values,
                       const float *gradient, size_t count, float step, double tolerance)
{
    double greatest = 0;
    for (size_t i = 0; i < count; i++)
        greatest = fmax(greatest, fabs((double)gradient[i]));
    for (size_t i = 0; i < count; i++) {
        double wanted = difference(rig, &values[i], step);
        if (!(fabs((double)gradient[i] - wanted) <= tolerance * fmax(greatest, 1e-3)))
            fail_msg("%s: gradient of %s[%zu] is %.9g, differences say %.9g", rig->layer.kind->name,
                     name, i, (double)gradient[i], wanted);
    }
}

void layer_rig_check(struct layer_rig *rig, float step, double tolerance)
{
    float *dy = floats(rig->out); /* backward may overwrite it */
    memcpy(dy, rig->dy, rig->out * sizeof *dy);
    layer_rig_forward(rig);
    assert_int_equal(layer_rig_backward(rig, dy), 0);
    check_span(rig, "x", rig->x, rig->dx, rig->in, step, tolerance);
    for (int p = 0; p < rig->layer.parameter_count; p++)
        check_span(rig, rig->layer.parameter[p].name, rig->layer.parameter[p].value,
                   rig->layer.parameter[p].gradient, rig->layer.parameter[p].count, step,
                   tolerance);
    free(dy);
}
