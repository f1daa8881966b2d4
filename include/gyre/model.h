/* Gyre's networks: a multi-layer perceptron or a small convolutional network, trained on all ranks.
 *
 *     struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
 *     options.method = GYRE_NETWORK_ADAM;
 *     gyre_network_perceptron(&net, (const uint64_t[]){13, 64, 3}, 3, &options);
 *     gyre_network_join(net, comm, NULL, &ddp);
 *     do {
 *         ... the next `count` rows of this rank to x, their classes to label; 0 if there are none
 *         gyre_network_learn_classes(net, x, count, label);     gradients travel meanwhile
 *         gyre_ddp_wait(ddp);
 *         gyre_network_update(net, 1e-3);
 *     } while (gyre_ddp_result(ddp)->samples > 0);                 no rank had any
 *     gyre_network_save(net, "model.safetensors");
 *     gyre_network_destroy(net);
 *
 * Names, order, initial values and formulas are PyTorch's. The gradient, and so the whole training,
 * is that of the mean over all samples of all ranks, however they are spread (ddp.h); only batch
 * norm looks at each rank's own batch, as PyTorch's does.
 *
 * Rows are samples one behind the other: f32, an image as channels × height × width.
 *
 * The comments of calls are as in gyre.h. All calls on one network are for one thread. Whatever
 * fails is told by gyre_error(NULL), also where it was the communicator. A call blocks and is
 * collective only where it says so.
 */
#ifndef GYRE_MODEL_H
#define GYRE_MODEL_H

#include <gyre/ddp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- construction ------------------------------------------------------------------------------ */

struct gyre_network; /* layers, their values and an optimiser; opaque */

enum gyre_network_method { GYRE_NETWORK_SGD = 0, GYRE_NETWORK_ADAM = 1, GYRE_NETWORK_ADAMW = 2 };

/* Begin with GYRE_NETWORK_OPTIONS_INIT, which has PyTorch's defaults, and set what you need. */
struct gyre_network_options {
    size_t size;      /* sizeof(struct gyre_network_options): lets it grow without breaking you */
    uint64_t batch;   /* rows of the largest batch that one call is given */
    uint64_t seed;    /* of the initial values, as torch.manual_seed(): the low 32 bits matter */
    const char *file; /* safetensors with other initial values; NULL: none */
    enum gyre_network_method method;
    double weight_decay;          /* negative: 0.01 for adamw, else 0 */
    double momentum, dampening;   /* sgd */
    int nesterov;                 /* sgd with momentum, without dampening */
    double beta1, beta2, epsilon; /* adam, adamw */

    /* Of products of matrices: GYRE_F32, or GYRE_BF16 or GYRE_F16, as which their operands are
     * rounded; sums and weights stay f32. With GYRE_F16 the loss is scaled, as torch.amp does:
     * gyre_network_loss_scale(). */
    enum gyre_type precision;

    /* The CUDA device that computes; -1: the CPU. From gyre_network_join() on values, gradients and
     * the optimiser's state are that device's, which must be the communicator's: gradients are
     * reduced there. Rows may lie there or on the host; labels and targets are the host's. Learning
     * that repeats is posted as CUDA graphs (GYRE_GRAPHS). Tried on a stand-in for CUDA only. */
    int device;
};

#define GYRE_NETWORK_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct gyre_network_options), 32, 0, NULL, GYRE_NETWORK_SGD, -1.0, 0.0, 0.0, 0,     \
            0.9, 0.999, 1e-8, GYRE_F32, -1                                                         \
    }

/* Linear layers with ReLU between them: widths[0] inputs, widths[count - 1] outputs. Two widths are
 * one linear layer. Named "0.weight", "0.bias", "2.weight" and so on. `options` may be NULL.
 *   Ownership: the caller ends *network by gyre_network_destroy(); on failure it is NULL.
 *   Errors:    GYRE_INVALID, -ENOMEM, those of the file. */
GYRE_API int gyre_network_perceptron(struct gyre_network **network, const uint64_t *widths,
                                     int count, const struct gyre_network_options *options);

/* Twice: convolution by 5 × 5 (to 16, then 32 channels), batch norm, ReLU, pooling by 2; then a
 * linear layer. For images of at least 4 × 4. Named "layer1.0.weight" to "fc.bias".
 *   Otherwise: gyre_network_perceptron(). */
GYRE_API int gyre_network_convnet(struct gyre_network **network, uint64_t channels, uint64_t height,
                                  uint64_t width, uint64_t classes,
                                  const struct gyre_network_options *options);

/* Frees it and its engine, before its communicator ends. NULL is allowed. */
GYRE_API void gyre_network_destroy(struct gyre_network *network);

/* Floats of a row, and of what is made of it. 0 for NULL. */
GYRE_API uint64_t gyre_network_inputs(const struct gyre_network *network);
GYRE_API uint64_t gyre_network_outputs(const struct gyre_network *network);

/* What is trained, in the order of the forward pass: *list has name, shape and the address of each
 * value. Where a device has the values, these are copies that the call has made: values are changed
 * by gyre_network_load(), or by a program's own copy to gyre_ddp_value().
 *   Ownership: the network's; addresses hold until the next call on it.
 *   Returns:   how many; 0 for NULL, or where the device has failed. */
GYRE_API int gyre_network_parameters(struct gyre_network *network,
                                     const struct gyre_ddp_parameter **list);

/* Makes the engine that this network is trained by, of all its parameters and buffers: rank 0's
 * values reach all ranks. Once for a network; every option but `buffers` and `stream` is the
 * caller's (`norm` is always computed where the loss is scaled), and `options` may be NULL.
 *   Blocks:    until every rank has called it.
 *   Ownership: *ddp is the network's and ends with it. On failure it is NULL.
 *   Errors:    as gyre_ddp_create(). */
GYRE_API int gyre_network_join(struct gyre_network *network, struct gyre_comm *comm,
                               const struct gyre_ddp_options *options, struct gyre_ddp **ddp);

/* -- a step ------------------------------------------------------------------------------------ */

/* Places of gyre_ddp_result()->sum that learning adds to; all other places are the caller's. */
enum gyre_network_sum {
    GYRE_NETWORK_LOSS = 0, /* sum of the losses of all rows; divide by samples */
    GYRE_NETWORK_RIGHT = 1 /* rows whose greatest output is their class */
};

/* Begins a step of the engine and does forward, loss and backward of this rank's rows: each
 * gradient starts to travel as soon as it is there. gyre_ddp_wait() ends the step. Every rank calls
 * it in every step; one without rows gives `samples` 0, and may give NULL for both arrays.
 * learn_classes: cross-entropy; a label is 0 … outputs - 1. learn_targets: mean over a row's
 * outputs of (output - target)²; `targets` is samples × outputs.
 *   Ownership: the caller's arrays are needed until the call returns.
 *   Errors:    GYRE_INVALID (more rows than `batch`, a label that is none: no step has begun), as
 *              gyre_ddp_begin(). */
GYRE_API int gyre_network_learn_classes(struct gyre_network *network, const float *x,
                                        uint64_t samples, const int64_t *labels);
GYRE_API int gyre_network_learn_targets(struct gyre_network *network, const float *x,
                                        uint64_t samples, const float *targets);

/* After gyre_ddp_wait(): one step of the optimiser with this learning rate, over the whole network,
 * or over this rank's part where the engine is sharded, and then every rank gets all. Nothing is
 * changed if no rank had rows, if a gradient was NaN or infinite, or if a rank asked to skip; with
 * GYRE_F16 a gradient that is not finite also halves the loss scale.
 *   Blocks:    of a sharded engine, until every rank has called it.
 *   Errors:    GYRE_INVALID (there was no such step, it was made already, the rate is negative or
 *              not finite), -ENOMEM, as gyre_ddp_gather(). */
GYRE_API int gyre_network_update(struct gyre_network *network, double rate);

/* What the next step's loss is multiplied by: 1 unless `precision` is GYRE_F16, then a power of two
 * that begins at 65,536, is doubled after 2,000 good steps and halved after a bad one. Gradients,
 * and gyre_ddp_result()->norm, have it until gyre_network_update(), so between wait and update
 * clipping is gyre_ddp_clip(ddp, most * gyre_network_loss_scale(network)).
 *   Returns:   1 for NULL. */
GYRE_API double gyre_network_loss_scale(const struct gyre_network *network);

/* -- the learning rate ------------------------------------------------------------------------- */

/* The learning rate as a function of the step: a training that goes on after a stop has to know
 * nothing but where it was. After the warm-up, PyTorch's StepLR and CosineAnnealingLR. */
enum gyre_rate_kind {
    GYRE_RATE_CONSTANT = 0,
    GYRE_RATE_STEP = 1,  /* times `gamma` every `every` steps */
    GYRE_RATE_COSINE = 2 /* half a wave down to `least` */
};

/* Begin with GYRE_LEARNING_RATE_INIT and set what you need. */
struct gyre_learning_rate {
    size_t size; /* sizeof(struct gyre_learning_rate): lets it grow without breaking you */
    enum gyre_rate_kind kind;
    double rate;
    uint64_t warmup; /* steps: the first has rate / warmup, the last of them the full rate */
    uint64_t every;  /* step: counted from the end of the warm-up */
    double gamma;    /* step */
    uint64_t total;  /* cosine: all steps with the warm-up; beyond them the rate stays at `least` */
    double least;    /* cosine */
};

#define GYRE_LEARNING_RATE_INIT                                                                    \
    {                                                                                              \
        sizeof(struct gyre_learning_rate), GYRE_RATE_CONSTANT, 0.01, 0, 0, 0.1, 0, 0.0             \
    }

/* Refuses settings that do not go together.
 *   Errors:    GYRE_INVALID; gyre_error(NULL) names the setting and its value.
 *   Threads:   any thread. */
GYRE_API int gyre_learning_rate_check(const struct gyre_learning_rate *rate);

/* The rate of a step, counted from 0.
 *   Returns:   NaN for what gyre_learning_rate_check() refuses.
 *   Threads:   any thread. */
GYRE_API double gyre_learning_rate_at(const struct gyre_learning_rate *rate, uint64_t step);

/* -- evaluation -------------------------------------------------------------------------------- */

/* Predicts: writes samples × outputs to *outputs, by the running means of batch norm, which are
 * those of this rank's rows. Not between learning and gyre_ddp_wait().
 *   Ownership: the network's, until the next call on it.
 *   Errors:    GYRE_INVALID. */
GYRE_API int gyre_network_predict(struct gyre_network *network, const float *x, uint64_t samples,
                                  const float **outputs);

/* Sums over rows; calls add to what is there. */
struct gyre_network_score {
    double loss;
    uint64_t samples, right;
};

/* Compares predictions with what is wanted, and adds to *score.
 *   Otherwise: gyre_network_predict(). */
GYRE_API int gyre_network_score_classes(struct gyre_network *network, const float *x,
                                        uint64_t samples, const int64_t *labels,
                                        struct gyre_network_score *score);
GYRE_API int gyre_network_score_targets(struct gyre_network *network, const float *x,
                                        uint64_t samples, const float *targets,
                                        struct gyre_network_score *score);

/* -- files ------------------------------------------------------------------------------------- */

/* Writes parameters and buffers as safetensors, as PyTorch's state_dict has them, and puts the
 * whole file in the place of what was there. One rank does it; the values are the same on all, but
 * for the running means of batch norm.
 *   Errors:    -errno, GYRE_INVALID. */
GYRE_API int gyre_network_save(struct gyre_network *network, const char *path);

/* Reads what gyre_network_save() or PyTorch wrote: exactly these names, types and shapes, or
 * nothing is changed and the first difference is told. The optimiser goes on with what it has.
 * Weights of `gyre train --scale` take standardised samples: the caller gives (x - mean) /
 * deviation of each feature, which stand in training.safetensors beside the weights.
 * Before gyre_network_join() on rank 0 or all, after it on every rank.
 *   Errors:    -errno, GYRE_INVALID. */
GYRE_API int gyre_network_load(struct gyre_network *network, const char *path);

/* -- data -------------------------------------------------------------------------------------- */

struct gyre_samples; /* a data set in memory, or in a mapped file; opaque */

/* Opens a data set:
 *
 *     wine, wine:test        built in: 142 and 36 rows of 13 standardised features, 3 classes
 *     digits, digits:test    built in: 1,437 and 360 pictures of 8 x 8, 0 to 1, 10 classes
 *     mnist, mnist:test      its files, as published, in the folder of the process
 *     cifar10, cifar10:test  the same, in the folder cifar-10-batches-bin
 *     images, images.gz      IDX, as MNIST has it, pixels / 255; labels from the file beside it
 *     FOLDER, FILE.bin       CIFAR-10's binary version, 3 x 32 x 32 pixels / 255
 *     FILE.csv               features, and the class in the last column
 *     FILE.safetensors       x: f32, or u8 / 255; y: i64
 *
 *   Ownership: the caller ends *samples by gyre_samples_close(); on failure it is NULL.
 *   Errors:    -errno, GYRE_INVALID; gyre_error(NULL) names file, place and value.
 *   Threads:   any thread. */
GYRE_API int gyre_samples_open(struct gyre_samples **samples, const char *source);

/* Frees it; NULL is allowed. */
GYRE_API void gyre_samples_close(struct gyre_samples *samples);

/* Rows, floats of a row, classes, and the shape of a row that is an image: 0s if it is none. 0 for
 * NULL.
 *   Threads:   any thread. */
GYRE_API uint64_t gyre_samples_count(const struct gyre_samples *samples);
GYRE_API uint64_t gyre_samples_features(const struct gyre_samples *samples);
GYRE_API uint64_t gyre_samples_classes(const struct gyre_samples *samples);
GYRE_API void gyre_samples_image(const struct gyre_samples *samples, uint64_t *channels,
                                 uint64_t *height, uint64_t *width);

/* Copies rows index[0 … count - 1], which must exist, to x, and their classes to labels.
 *   Ownership: the caller's, with room for `count` rows.
 *   Errors:    GYRE_INVALID (an index beyond the last row).
 *   Threads:   any thread. */
GYRE_API int gyre_samples_take(const struct gyre_samples *samples, const uint64_t *index,
                               uint64_t count, float *x, int64_t *labels);

#ifdef __cplusplus
}
#endif

#endif
