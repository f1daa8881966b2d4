/* A model: layers one behind the other, and the memory for batches of up to a fixed size.
 *
 *     create ─▶ parameters get values (and gradients) ─▶ model/learning/init.h or a checkpoint
 *
 *     each step:  forward ─▶ loss into gyre_model_output_gradient() ─▶ backward
 *
 * Parameters and buffers have PyTorch's names and order; where their values and gradients lie is
 * the owner's choice, before the first forward, in memory of the model's processor. All memory is
 * allocated by create. One thread at a time for each model. */
#ifndef GYRE_MODEL_NETS_MODEL_H
#define GYRE_MODEL_NETS_MODEL_H

#include "model/layers/layer.h"

struct gyre_model;

struct gyre_model_settings {
    size_t batch; /* samples of the largest batch */
    enum gyre_precision precision;
    enum gyre_memory_kind kind; /* of the processor that computes; 0: the CPU */
    int device;
};

enum gyre_model_kind { GYRE_MLP, GYRE_CONVNET };

extern const char *const gyre_model_names[]; /* by kind, then NULL: "mlp" */

/* -- making one -------------------------------------------------------------------------------- */

/* nn.Sequential(Linear, ReLU, Linear, ReLU, …, Linear): widths[0] inputs, the last are the
 * outputs; named "0.weight", "0.bias", "2.weight" and so on. GYRE_INVALID, -ENOMEM. */
int gyre_mlp_create(struct gyre_model **model, const size_t *widths, int count,
                    const struct gyre_model_settings *settings, struct gyre_trouble *trouble);

/* "13,64,3": 2 to `most` widths, each 1 to 2^24. `name` is what messages call the text. */
int gyre_mlp_parse(const char *name, const char *text, size_t *widths, int most, int *count,
                   struct gyre_trouble *trouble);

/* Twice convolution (5 x 5; 16, then 32 channels), batch norm, ReLU and pooling by 2, then a linear
 * layer; "layer1.0.weight", "layer1.1.running_mean", "fc.bias". Images of at least 4 x 4. */
int gyre_convnet_create(struct gyre_model **model, struct gyre_volume image, size_t classes,
                        const struct gyre_model_settings *settings, struct gyre_trouble *trouble);

void gyre_model_destroy(struct gyre_model *model); /* takes NULL */

/* -- what it has ------------------------------------------------------------------------------- */

/* How many, and where their descriptions are: live as long as the model. */
int gyre_model_parameters(struct gyre_model *model, struct gyre_parameter *const **list);
int gyre_model_buffers(struct gyre_model *model, struct gyre_running_buffer *const **list);

struct gyre_volume gyre_model_input(const struct gyre_model *model);
size_t gyre_model_batch(const struct gyre_model *model); /* samples of the largest */
size_t gyre_model_outputs(const struct gyre_model *model);

enum gyre_precision gyre_model_precision(const struct gyre_model *model);

/* The processor that computes. It lives as long as the model and owns all memory of its passes. */
struct gyre_processor *gyre_model_processor(const struct gyre_model *model);

/* Who multiplies, as gyre_dense_name() says it. */
const char *gyre_model_products(const struct gyre_model *model);

/* From the next forward on batch norm normalises by the batch of all ranks: its passes report
 * sums. */
void gyre_model_sync_batches(struct gyre_model *model);

/* -- a step ------------------------------------------------------------------------------------ */

/* A pass may stop with GYRE_AGAIN: the caller handles gyre_model_event() and calls
 * gyre_model_continue(), which returns as the pass does, until that is 0. Or it gives up the pass.
 *
 * *outputs: samples x outputs, until the next forward. `x` stays untouched until backward. More
 * samples than `batch` are GYRE_INVALID; a layer's failure is returned. */
int gyre_model_forward(struct gyre_model *model, const float *x, size_t samples, bool train,
                       const float **outputs, struct gyre_trouble *trouble);

/* Where the loss puts its gradient: batch x outputs. */
float *gyre_model_output_gradient(struct gyre_model *model);

/* After a forward in training whose outputs' gradient is in place; may overwrite it. Every
 * parameter's gradient is put (or added, to accumulate), from the last layer to the first, and
 * reported by an event. */
int gyre_model_backward(struct gyre_model *model, bool accumulate, struct gyre_trouble *trouble);

const struct gyre_pass_event *gyre_model_event(const struct gyre_model *model);
int gyre_model_continue(struct gyre_model *model);

/* Behind the sum of an event, for who wants to know before it continues: the samples of all ranks,
 * which what follows depends on. The first of a pass waits for that sum. */
int gyre_model_learn_samples(struct gyre_model *model, double *samples);

#endif
