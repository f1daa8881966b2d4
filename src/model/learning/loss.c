/* See loss.h. Formulas are the processor's (model/processor/host_loss.c). */
#include "model/learning/loss.h"

#include <errno.h>

const char *const gyre_loss_names[] = {
    [GYRE_CROSS_ENTROPY] = "cross-entropy", [GYRE_SQUARED_ERROR] = "mse", NULL};

int gyre_loss_meter_init(struct gyre_loss_meter *meter, struct gyre_processor *on, size_t batch,
                         size_t width, struct gyre_trouble *trouble)
{
    const size_t targets = width * sizeof(float),
                 row = targets > sizeof(int64_t) ? targets : sizeof(int64_t);
    *meter = (struct gyre_loss_meter){.on = on, .width = width};
    meter->tally = gyre_processor_alloc(on, sizeof *meter->tally, trouble, "a loss");
    if (on->table->memory != GYRE_MEMORY_HOST) {
        meter->wanted = gyre_processor_told(on, batch * row);
        if (!meter->wanted)
            meter->wanted =
                gyre_processor_alloc(on, batch * row, trouble, "labels of %zu samples", batch);
        meter->terms = gyre_processor_alloc(on, 2 * batch * sizeof *meter->terms, trouble,
                                            "the losses of %zu samples", batch);
    }
    if (meter->tally && (on->table->memory == GYRE_MEMORY_HOST || (meter->wanted && meter->terms)))
        return 0;
    return -ENOMEM;
}

void gyre_loss_meter_deinit(struct gyre_loss_meter *meter)
{
    if (meter->on) {
        meter->on->table->free(meter->on, meter->tally);
        meter->on->table->free(meter->on, meter->wanted);
        meter->on->table->free(meter->on, meter->terms);
    }
    *meter = (struct gyre_loss_meter){0};
}

void gyre_loss_meter_clear(struct gyre_loss_meter *meter)
{
    meter->samples = 0;
    meter->on->table->zero(meter->on, meter->tally, sizeof *meter->tally);
}

static int check_labels(const int64_t *labels, size_t samples, size_t classes,
                        struct gyre_trouble *trouble)
{
    for (size_t s = 0; s < samples; s++)
        if ((uint64_t)labels[s] >= classes)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "label %lld of sample %zu of the batch is outside 0 to %zu: "
                                    "the model has %zu outputs",
                                    (long long)labels[s], s, classes - 1, classes);
    return 0;
}

/* Brings what is wanted to where the processor reads it. */
static int bring_wanted(struct gyre_loss_meter *meter, const void **wanted, size_t bytes,
                        struct gyre_trouble *trouble)
{
    if (!meter->wanted)
        return 0;
    int status = meter->on->table->put(meter->on, meter->wanted, *wanted, bytes, trouble);
    *wanted = meter->wanted;
    return status;
}

int gyre_loss_cross_entropy(struct gyre_loss_meter *meter, const float *outputs,
                            const int64_t *labels, size_t samples, float factor, float *gradient,
                            struct gyre_trouble *trouble)
{
    const struct gyre_rows rows = {outputs, gradient,     samples,     meter->width,
                                   factor,  meter->scale, meter->terms};
    const void *wanted = labels;
    int status = check_labels(labels, samples, meter->width, trouble);
    if (!status)
        status = bring_wanted(meter, &wanted, samples * sizeof *labels, trouble);
    if (status)
        return status;
    meter->on->table->cross_entropy(meter->on, &rows, wanted, meter->tally);
    meter->samples += samples;
    return 0;
}

int gyre_loss_squared_error(struct gyre_loss_meter *meter, const float *outputs,
                            const float *targets, size_t samples, float factor, float *gradient,
                            struct gyre_trouble *trouble)
{
    const struct gyre_rows rows = {outputs, gradient,     samples,     meter->width,
                                   factor,  meter->scale, meter->terms};
    const void *wanted = targets;
    int status = bring_wanted(meter, &wanted, samples * meter->width * sizeof *targets, trouble);
    if (status)
        return status;
    meter->on->table->squared_error(meter->on, &rows, wanted, meter->tally);
    meter->samples += samples;
    return 0;
}

int gyre_loss_meter_take(struct gyre_loss_meter *meter, struct gyre_loss *loss,
                         struct gyre_trouble *trouble)
{
    struct gyre_tally tally;
    int status = meter->on->table->get(meter->on, &tally, meter->tally, sizeof tally, trouble);
    if (status)
        return status;
    loss->sum += tally.sum;
    loss->right += tally.right;
    loss->samples += meter->samples;
    gyre_loss_meter_clear(meter);
    return 0;
}
