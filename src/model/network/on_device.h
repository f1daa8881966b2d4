/* A replica whose passes a device computes, while gradients are the host's: the engine reduces
 * there. Values are the host's, too, or the device's:
 *
 *     host      values, running figures ──begin──▶  device: forward, loss, backward
 *               a gradient that is final ◀──fetch──
 *               running figures          ◀──end────
 *               the reduced gradient     ───lend──▶  the update, where values are the device's
 *
 * Where values are the device's the host has a copy, for files and for the comparison of ranks. One
 * of the two may be older: values_home() brings the host's up to date, and who writes the host's
 * says so by values_written(). Otherwise values go to the device for each pass, and the host may
 * read and write its own at any time.
 *
 * Each function does nothing where the CPU computes, since the layers then work in the host's own
 * memory. */
#ifndef GYRE_MODEL_NETWORK_ON_DEVICE_H
#define GYRE_MODEL_NETWORK_ON_DEVICE_H

#include "model/nets/model.h"

struct gyre_on_device {
    struct gyre_processor *on;   /* NULL: the CPU computes */
    struct gyre_processor *host; /* for the optimiser, beside a device */
    struct gyre_model *model;
    int parameters, buffers;
    struct gyre_parameter *const *parameter;
    struct gyre_running_buffer *const *buffer;
    void **value;     /* the host's: of parameters, then of buffers */
    void **there;     /* the same on the device */
    float **gradient; /* on the device */
    float *x;         /* a batch, the device's */
    float *outputs;   /* a batch, the host's */
    double *sums;     /* that a pass wants summed over ranks, the host's */
    size_t sums_most;
    bool resident;                 /* values are the device's */
    bool host_newer, device_newer; /* where they are: which of the two was written last */
};

/* Allocates on the device. -ENOMEM and others are told in `trouble`. Deinit takes every state, and
 * comes before the model's end. */
int gyre_on_device_init(struct gyre_on_device *device, struct gyre_model *model,
                        struct gyre_trouble *trouble);
void gyre_on_device_deinit(struct gyre_on_device *device);

/* Where the host's value is now, of parameters, then buffers. From here on the layers have the
 * device's. */
void gyre_on_device_bind(struct gyre_on_device *device, int i, void *value);

/* Values are the device's from here on. */
void gyre_on_device_reside(struct gyre_on_device *device);

/* The host's values are up to date, where they were not. */
int gyre_on_device_values_home(struct gyre_on_device *device, struct gyre_trouble *trouble);

/* The host's values, or the device's, were written. */
void gyre_on_device_values_written(struct gyre_on_device *device);
void gyre_on_device_updated(struct gyre_on_device *device);

/* Brings values, where the host's are newer or not the device's, and `samples` rows to the device;
 * *x is the rows there. */
int gyre_on_device_begin(struct gyre_on_device *device, const float **x, size_t samples,
                         struct gyre_trouble *trouble);

/* Brings outputs of that batch back; *outputs is the rows here. */
int gyre_on_device_outputs(struct gyre_on_device *device, const float **outputs, size_t samples,
                           struct gyre_trouble *trouble);

/* Brings a parameter's gradient to the device, to be added to or for the update; or back. */
int gyre_on_device_lend(struct gyre_on_device *device, int parameter, const float *gradient,
                        struct gyre_trouble *trouble);
int gyre_on_device_fetch(struct gyre_on_device *device, int parameter, float *gradient,
                         struct gyre_trouble *trouble);

/* Brings the sums of a pass's event to host memory, which *values is then; and back. */
int gyre_on_device_take_sums(struct gyre_on_device *device, const struct gyre_pass_event *event,
                             double **values, struct gyre_trouble *trouble);
int gyre_on_device_give_sums(struct gyre_on_device *device, const struct gyre_pass_event *event,
                             struct gyre_trouble *trouble);

/* Brings the running figures back, behind a pass in training. */
int gyre_on_device_end(struct gyre_on_device *device, struct gyre_trouble *trouble);

#endif
