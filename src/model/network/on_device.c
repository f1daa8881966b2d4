/* See on_device.h. A gradient is fetched when backward says that it is final, so the engine may
 * reduce it while the device goes on. Tested by tests/program/cuda/train.sh. */
#include "model/network/on_device.h"

#include <errno.h>
#include <stdlib.h>

static size_t buffer_size(const struct gyre_running_buffer *buffer)
{
    return buffer->count * (buffer->whole ? sizeof(int64_t) : sizeof(float));
}

/* -- memory ------------------------------------------------------------------------------------ */

static bool allocate_parameter(struct gyre_on_device *d, int p, struct gyre_trouble *trouble)
{
    const size_t bytes = d->parameter[p]->count * sizeof(float);
    const char *name = d->parameter[p]->name;
    d->there[p] = gyre_processor_alloc(d->on, bytes, trouble, "'%s'", name);
    d->gradient[p] = gyre_processor_alloc(d->on, bytes, trouble, "the gradient of '%s'", name);
    return d->there[p] && d->gradient[p];
}

static bool allocate_buffer(struct gyre_on_device *d, int b, struct gyre_trouble *trouble)
{
    void **there = &d->there[d->parameters + b];
    *there =
        gyre_processor_alloc(d->on, buffer_size(d->buffer[b]), trouble, "'%s'", d->buffer[b]->name);
    return *there != NULL;
}

static int allocate_on_device(struct gyre_on_device *d, struct gyre_trouble *trouble)
{
    const size_t row = gyre_volume_count(gyre_model_input(d->model)) * sizeof(float);
    bool good = true;
    for (int p = 0; p < d->parameters; p++)
        good = allocate_parameter(d, p, trouble) && good;
    for (int b = 0; b < d->buffers; b++)
        good = allocate_buffer(d, b, trouble) && good;
    d->x = gyre_processor_alloc(d->on, gyre_model_batch(d->model) * row, trouble,
                                "inputs of batches of %zu samples", gyre_model_batch(d->model));
    return good && d->x ? 0 : -ENOMEM;
}

static int allocate_on_host(struct gyre_on_device *d)
{
    for (int b = 0; b < d->buffers; b++)
        if (2 * d->buffer[b]->count + 1 > d->sums_most)
            d->sums_most = 2 * d->buffer[b]->count + 1;
    const size_t items = (size_t)d->parameters + (size_t)d->buffers + 1;
    d->value = calloc(items, sizeof *d->value);
    d->there = calloc(items, sizeof *d->there);
    d->gradient = calloc(items, sizeof *d->gradient);
    d->outputs = calloc(gyre_model_batch(d->model), gyre_model_outputs(d->model) * sizeof(float));
    d->sums = calloc(d->sums_most + 1, sizeof *d->sums);
    return d->value && d->there && d->gradient && d->outputs && d->sums ? 0 : -ENOMEM;
}

int gyre_on_device_init(struct gyre_on_device *d, struct gyre_model *model,
                        struct gyre_trouble *trouble)
{
    struct gyre_processor *on = gyre_model_processor(model);
    *d = (struct gyre_on_device){.model = model};
    if (on->table->memory == GYRE_MEMORY_HOST)
        return 0;
    d->on = on;
    d->parameters = gyre_model_parameters(model, &d->parameter);
    d->buffers = gyre_model_buffers(model, &d->buffer);
    int status = gyre_processor_open(&d->host, GYRE_MEMORY_HOST, 0, trouble);
    if (status)
        return status;
    status = allocate_on_host(d);
    if (!status)
        status = allocate_on_device(d, trouble);
    return status ? gyre_trouble_set(trouble, status, "no memory for a network beside its device")
                  : 0;
}

void gyre_on_device_deinit(struct gyre_on_device *d)
{
    for (int i = 0; d->there && i < d->parameters + d->buffers; i++)
        d->on->table->free(d->on, d->there[i]);
    for (int p = 0; d->gradient && p < d->parameters; p++)
        d->on->table->free(d->on, d->gradient[p]);
    if (d->on)
        d->on->table->free(d->on, d->x);
    gyre_processor_close(d->host);
    free(d->value);
    free(d->there);
    free(d->gradient);
    free(d->outputs);
    free(d->sums);
    *d = (struct gyre_on_device){0};
}

void gyre_on_device_bind(struct gyre_on_device *d, int i, void *value)
{
    if (!d->on)
        return;
    d->value[i] = value;
    if (i < d->parameters) {
        d->parameter[i]->value = d->there[i];
        d->parameter[i]->gradient = d->gradient[i];
    } else {
        d->buffer[i - d->parameters]->value = d->there[i];
    }
}

/* -- whose values ------------------------------------------------------------------------------ */

void gyre_on_device_reside(struct gyre_on_device *d)
{
    d->resident = d->host_newer = d->on != NULL;
}

int gyre_on_device_values_home(struct gyre_on_device *d, struct gyre_trouble *trouble)
{
    int status = 0;
    for (int p = 0; !status && d->device_newer && p < d->parameters; p++)
        status = d->on->table->get(d->on, d->value[p], d->there[p],
                                   d->parameter[p]->count * sizeof(float), trouble);
    d->device_newer = d->device_newer && status;
    return status;
}

void gyre_on_device_values_written(struct gyre_on_device *d)
{
    d->host_newer = d->resident;
    d->device_newer = false;
}

void gyre_on_device_updated(struct gyre_on_device *d)
{
    d->device_newer = d->resident;
}

static int values_there(struct gyre_on_device *d, struct gyre_trouble *trouble)
{
    int status = 0;
    for (int p = 0; !status && p < d->parameters; p++)
        status = d->on->table->put(d->on, d->there[p], d->value[p],
                                   d->parameter[p]->count * sizeof(float), trouble);
    d->host_newer = status != 0;
    return status;
}

/* -- a pass ------------------------------------------------------------------------------------ */

int gyre_on_device_begin(struct gyre_on_device *d, const float **x, size_t samples,
                         struct gyre_trouble *trouble)
{
    int status = 0;
    if (!d->on)
        return 0;
    if (!d->resident || d->host_newer)
        status = values_there(d, trouble);
    for (int b = 0; !status && b < d->buffers; b++)
        status = d->on->table->put(d->on, d->buffer[b]->value, d->value[d->parameters + b],
                                   buffer_size(d->buffer[b]), trouble);
    if (!status)
        status = d->on->table->put(
            d->on, d->x, *x,
            samples * gyre_volume_count(gyre_model_input(d->model)) * sizeof(float), trouble);
    *x = d->x;
    return status;
}

int gyre_on_device_outputs(struct gyre_on_device *d, const float **outputs, size_t samples,
                           struct gyre_trouble *trouble)
{
    if (!d->on)
        return 0;
    int status = d->on->table->get(d->on, d->outputs, *outputs,
                                   samples * gyre_model_outputs(d->model) * sizeof(float), trouble);
    *outputs = d->outputs;
    return status;
}

int gyre_on_device_lend(struct gyre_on_device *d, int p, const float *gradient,
                        struct gyre_trouble *trouble)
{
    if (!d->on)
        return 0;
    return d->on->table->put(d->on, d->parameter[p]->gradient, gradient,
                             d->parameter[p]->count * sizeof(float), trouble);
}

int gyre_on_device_fetch(struct gyre_on_device *d, int p, float *gradient,
                         struct gyre_trouble *trouble)
{
    if (!d->on)
        return 0;
    return d->on->table->get(d->on, gradient, d->parameter[p]->gradient,
                             d->parameter[p]->count * sizeof(float), trouble);
}

int gyre_on_device_take_sums(struct gyre_on_device *d, const struct gyre_pass_event *event,
                             double **values, struct gyre_trouble *trouble)
{
    *values = d->on ? d->sums : event->sum;
    if (!d->on)
        return 0;
    return d->on->table->get(d->on, d->sums, event->sum, event->count * sizeof(double), trouble);
}

int gyre_on_device_give_sums(struct gyre_on_device *d, const struct gyre_pass_event *event,
                             struct gyre_trouble *trouble)
{
    if (!d->on)
        return 0;
    return d->on->table->put(d->on, event->sum, d->sums, event->count * sizeof(double), trouble);
}

int gyre_on_device_end(struct gyre_on_device *d, struct gyre_trouble *trouble)
{
    int status = 0;
    for (int b = 0; d->on && !status && b < d->buffers; b++)
        status = d->on->table->get(d->on, d->value[d->parameters + b], d->buffer[b]->value,
                                   buffer_size(d->buffer[b]), trouble);
    return status;
}
