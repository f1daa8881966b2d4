/* A replica whose passes a device computes. Before it has joined an engine, values are the host's,
 * and go to the device for each pass. From then on they are the device's, as gradients and the
 * optimiser's state are, and the host has a copy, for files and for whoever asks:
 *
 *     host      a batch                  ──begin──▶  device: forward, loss, backward
 *                                                          reduced gradients, update
 *               the copy of values       ◀──values_home
 *               the copy, written        ──values_there──▶
 *
 * Running figures have a file of their own: running.h.
 *
 * Each function does nothing where the CPU computes, since the layers then work in the host's own
 * memory. */
#ifndef GYRE_MODEL_NETWORK_ON_DEVICE_H
#define GYRE_MODEL_NETWORK_ON_DEVICE_H

#include "model/nets/model.h"

#include <gyre/ddp.h>

struct gyre_on_device {
    struct gyre_processor *on; /* NULL: the CPU computes */
    struct gyre_model *model;
    int parameters;
    struct gyre_parameter *const *parameter;
    const struct gyre_ddp_parameter *host; /* the same in host memory */
    void **there;                          /* values on the device, until they are an engine's */
    float *x;                              /* a batch, the device's */
    float *outputs;                        /* a batch, the host's */
    bool joined;                           /* values are the engine's and the device's */
};

/* Allocates on the device. -ENOMEM and others are told in `trouble`. Deinit takes every state, and
 * comes before the model's end. */
int gyre_on_device_init(struct gyre_on_device *device, struct gyre_model *model,
                        const struct gyre_ddp_parameter *host, struct gyre_trouble *trouble);
void gyre_on_device_deinit(struct gyre_on_device *device);

/* The layers have the device's memory of values, until they are the engine's. */
void gyre_on_device_bind(struct gyre_on_device *device);

/* Brings values to the host's copy, once they are the device's; or the host's to the device. */
int gyre_on_device_values_home(struct gyre_on_device *device, struct gyre_trouble *trouble);
int gyre_on_device_values_there(struct gyre_on_device *device, struct gyre_trouble *trouble);

/* Brings to the device what a pass needs of the host's values and rows; *x is the rows there. They
 * may be the device's already. */
int gyre_on_device_begin(struct gyre_on_device *device, const float **x, size_t samples,
                         struct gyre_trouble *trouble);

/* Brings outputs of that batch back; *outputs is the rows here. */
int gyre_on_device_outputs(struct gyre_on_device *device, const float **outputs, size_t samples,
                           struct gyre_trouble *trouble);

#endif
