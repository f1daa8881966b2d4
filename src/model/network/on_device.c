/* See on_device.h. Tested by tests/program/cuda/train.sh and tests/program/ddp/device_network.c. */
#include "model/network/on_device.h"

#include <errno.h>
#include <stdlib.h>

static size_t value_size(const struct gyre_on_device *d, int p)
{
    return d->parameter[p]->count * sizeof(float);
}

/* -- memory ------------------------------------------------------------------------------------ */

static int allocate_on_device(struct gyre_on_device *d, struct gyre_trouble *trouble)
{
    const size_t row = gyre_volume_count(gyre_model_input(d->model)) * sizeof(float);
    bool good = true;
    for (int p = 0; p < d->parameters; p++) {
        d->there[p] =
            gyre_processor_alloc(d->on, value_size(d, p), trouble, "'%s'", d->parameter[p]->name);
        good = good && d->there[p];
    }
    d->x = gyre_processor_alloc(d->on, gyre_model_batch(d->model) * row, trouble,
                                "inputs of batches of %zu samples", gyre_model_batch(d->model));
    return good && d->x ? 0 : -ENOMEM;
}

static int allocate_on_host(struct gyre_on_device *d)
{
    d->there = calloc((size_t)d->parameters + 1, sizeof *d->there);
    d->outputs = calloc(gyre_model_batch(d->model), gyre_model_outputs(d->model) * sizeof(float));
    return d->there && d->outputs ? 0 : -ENOMEM;
}

int gyre_on_device_init(struct gyre_on_device *d, struct gyre_model *model,
                        const struct gyre_ddp_parameter *host, struct gyre_trouble *trouble)
{
    struct gyre_processor *on = gyre_model_processor(model);
    *d = (struct gyre_on_device){.model = model, .host = host};
    if (on->table->memory == GYRE_MEMORY_HOST)
        return 0;
    d->on = on;
    d->parameters = gyre_model_parameters(model, &d->parameter);
    int status = allocate_on_host(d);
    if (!status)
        status = allocate_on_device(d, trouble);
    return status ? gyre_trouble_set(trouble, status, "no memory for a network beside its device")
                  : 0;
}

void gyre_on_device_deinit(struct gyre_on_device *d)
{
    for (int p = 0; d->there && p < d->parameters; p++)
        d->on->table->free(d->on, d->there[p]);
    if (d->on)
        d->on->table->free(d->on, d->x);
    free(d->there);
    free(d->outputs);
    *d = (struct gyre_on_device){0};
}

void gyre_on_device_bind(struct gyre_on_device *d)
{
    for (int p = 0; p < d->parameters && !d->joined; p++)
        d->parameter[p]->value = d->there[p];
}

/* -- values ------------------------------------------------------------------------------------ */

int gyre_on_device_values_home(struct gyre_on_device *d, struct gyre_trouble *trouble)
{
    int status = 0;
    for (int p = 0; !status && d->joined && p < d->parameters; p++)
        status = d->on->table->get(d->on, d->host[p].value, d->parameter[p]->value,
                                   value_size(d, p), trouble);
    return status;
}

int gyre_on_device_values_there(struct gyre_on_device *d, struct gyre_trouble *trouble)
{
    int status = 0;
    for (int p = 0; !status && d->on && p < d->parameters; p++)
        status = d->on->table->put(d->on, d->parameter[p]->value, d->host[p].value,
                                   value_size(d, p), trouble);
    return status;
}

/* -- a pass ------------------------------------------------------------------------------------ */

int gyre_on_device_begin(struct gyre_on_device *d, const float **x, size_t samples,
                         struct gyre_trouble *trouble)
{
    const size_t row = gyre_volume_count(gyre_model_input(d->model)) * sizeof(float);
    int status = d->on && !d->joined ? gyre_on_device_values_there(d, trouble) : 0;
    if (status || !d->on || gyre_processor_owns(d->on, *x))
        return status;
    status = d->on->table->put(d->on, d->x, *x, samples * row, trouble);
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
