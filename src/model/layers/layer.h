/* A layer: a constant table of functions over memory that the model owns. Nothing is allocated in
 * a step.
 *
 *     create    the model sets `in` and the numbers below it; shape() answers with `out`, the sizes
 *               of memory, and a description of each parameter and buffer
 *     owner     gives every parameter its value and its gradient, every buffer its value: gradients
 *               may lie in memory that is sent as it is
 *     forward   x ──▶ y            x and y stay untouched until backward
 *     backward  dy ──▶ dx          each parameter's gradient is the SUM over this batch's samples,
 *                                  put or added
 *
 * Layers call nobody above them. A pass runs in stages: a layer that has something to report sets
 * pass->event and returns GYRE_AGAIN; whoever drives the pass handles the event and calls the same
 * function with the next pass->stage. Events are a final gradient, and values that have to be
 * summed over all ranks before the layer can go on.
 *
 * A batch is samples x channels x height x width, row-major. A linear layer's output has height 1
 * and width 1. A batch may have no samples: gradients are zeros then, and layers that sum over
 * ranks still take part. */
#ifndef GYRE_MODEL_LAYERS_LAYER_H
#define GYRE_MODEL_LAYERS_LAYER_H

#include "model/processor/processor.h"

#define GYRE_NAME_MOST             64
#define GYRE_LAYER_PARAMETERS_MOST 2
#define GYRE_LAYER_BUFFERS_MOST    3

/* What a sample is, or a row of outputs. */
struct gyre_volume {
    size_t channels, height, width;
};

static inline size_t gyre_volume_count(struct gyre_volume shape)
{
    return shape.channels * shape.height * shape.width;
}

/* Names, shapes and order are those of PyTorch's state_dict. */
struct gyre_parameter {
    char name[GYRE_NAME_MOST];
    int dims;
    size_t shape[4], count;
    size_t fan_in; /* starts uniform in +-1/sqrt(fan_in) (model/learning/init.h); 0: as `fill` */
    float fill;
    float *value, *gradient; /* the owner's; the gradient may be NULL where nobody calls backward */
    bool bounded; /* when ready: backward knows that what it put or added is below 1e30 */
};

struct gyre_running_buffer {
    char name[GYRE_NAME_MOST];
    int dims; /* 0: one number, or 1 */
    size_t count;
    bool whole; /* int64_t, otherwise float */
    double fill;
    void *value; /* the owner's */
};

extern const char *const gyre_precision_names[]; /* then NULL: "f32" */

/* What a layer reports where it returns GYRE_AGAIN: one of the two. */
struct gyre_pass_event {
    struct gyre_parameter *ready; /* its gradient is final */
    double *sum; /* `count` values, where the pass computes, to be summed over ranks in place */
    size_t count;
    bool counts; /* the last value is this rank's samples, and all ranks' are not known yet */
};

/* What all layers of a step share. */
struct gyre_pass {
    struct gyre_processor *on; /* where all memory of the pass lies, and what computes there */
    enum gyre_precision precision;
    float *scratch; /* of the largest size that any layer asked for */
    size_t samples;
    bool train;               /* batch norm: normalise by this batch and remember it */
    bool accumulate;          /* gradients are added to what is there */
    struct gyre_layer *below; /* backward: whose outputs are this layer's inputs; NULL: nobody's */
    bool synced;              /* batch norm: the batch is that of all ranks, by events */
    double all_samples;       /* of all ranks, known behind a pass's first such sum */
    int stage;                /* events of this layer in this call so far */
    struct gyre_pass_event event;
    struct gyre_trouble *trouble;
};

struct gyre_layer_kind;

struct gyre_layer {
    const struct gyre_layer_kind *kind;
    char name[GYRE_NAME_MOST / 2]; /* goes before the names of its parameters: "layer1.0" */
    struct gyre_volume in;
    size_t outputs;                 /* linear, convolution */
    size_t kernel, stride, padding; /* convolution (stride 1), pooling (padding 0) */
    bool relu;                      /* linear: its output goes through a ReLU */
    bool fuses;                     /* linear: the processor may multiply and do what follows */
    size_t spread_bytes;            /* convolution: the processor's */

    struct gyre_volume out;
    size_t kept_floats;    /* between forward and backward, for a whole batch */
    size_t scratch_floats; /* within one call */
    int parameter_count, buffer_count;
    struct gyre_parameter parameter[GYRE_LAYER_PARAMETERS_MOST];
    struct gyre_running_buffer buffer[GYRE_LAYER_BUFFERS_MOST];
    size_t at_once; /* convolution: samples that are spread together */
    float *kept;
    bool masked;        /* linear: the last forward has kept a mask of its ReLU */
    bool finished;      /* linear: the layer above has done the first stage of backward */
    double kept_values; /* batch norm: in each channel of the last batch, of all ranks */
};

struct gyre_layer_kind {
    const char *name;
    bool in_place; /* y may be x, and dx dy */

    /* Fills everything from `out` on for batches of up to `batch` samples. GYRE_INVALID if the
     * layer cannot take `in`. */
    int (*shape)(struct gyre_layer *layer, size_t batch, struct gyre_trouble *trouble);

    /* 0, GYRE_AGAIN with pass->event, or a negative status with pass->trouble set. */
    int (*forward)(struct gyre_layer *layer, struct gyre_pass *pass, const float *x, float *y);

    /* After a forward of the same pass in training, with the same x and y. May overwrite dy. dx
     * NULL: nobody wants it. Every parameter's gradient is reported, in the same order always. */
    int (*backward)(struct gyre_layer *layer, struct gyre_pass *pass, const float *x,
                    const float *y, float *dy, float *dx);
};

extern const struct gyre_layer_kind gyre_layer_linear, gyre_layer_convolution,
    gyre_layer_batch_norm, gyre_layer_relu, gyre_layer_max_pool, gyre_layer_flatten;

/* -- what layers call -------------------------------------------------------------------------- */

/* Appends a description; the name is layer->name, a point, and `name`. */
struct gyre_parameter *gyre_layer_parameter(struct gyre_layer *layer, const char *name, int dims,
                                            const size_t *shape);
struct gyre_running_buffer *gyre_layer_buffer(struct gyre_layer *layer, const char *name,
                                              size_t count);

/* `to` = `from` as a product takes it in this precision; for f32 returns `from` and copies
 * nothing. */
const float *gyre_pass_operand(const struct gyre_pass *pass, float *to, const float *from,
                               size_t count);

/* Two events, to be returned. */
static inline int gyre_pass_ready(struct gyre_pass *pass, struct gyre_parameter *parameter)
{
    pass->event = (struct gyre_pass_event){.ready = parameter};
    return GYRE_AGAIN;
}

static inline int gyre_pass_sum(struct gyre_pass *pass, double *values, size_t count)
{
    pass->event = (struct gyre_pass_event){.sum = values, .count = count};
    return GYRE_AGAIN;
}

/* Behind the sum of an event, before the layer goes on: waits for it, if it counts. */
int gyre_pass_learn_samples(struct gyre_pass *pass);

#endif
