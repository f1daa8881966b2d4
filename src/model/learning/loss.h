/* Losses: how far the outputs of a batch are from what is wanted, and the gradient of that.
 *
 * A loss is a sum over samples, and so is its gradient: neither is divided by the batch. Division
 * happens once, by the number of samples of all ranks, because a mean of means is wrong as soon as
 * two ranks have batches of unequal sizes. */
#ifndef GYRE_MODEL_LEARNING_LOSS_H
#define GYRE_MODEL_LEARNING_LOSS_H

#include "base/status.h"
#include "model/processor/processor.h"

enum gyre_loss_kind { GYRE_CROSS_ENTROPY, GYRE_SQUARED_ERROR };

extern const char *const gyre_loss_names[]; /* by kind, then NULL: "cross-entropy" */

/* Sums over samples. */
struct gyre_loss {
    double sum;
    uint64_t samples;
    uint64_t right; /* samples whose greatest output, the first of equals, is the label */
};

/* Adds up losses where a processor computes them. The host reads the sums when it takes them, so a
 * step waits at most once. */
struct gyre_loss_meter {
    struct gyre_processor *on;
    size_t width;
    uint64_t samples;
    void *wanted;             /* a batch of labels or targets; NULL: they are used where they lie */
    double *terms;            /* workspace of a batch; NULL where `wanted` is */
    struct gyre_tally *tally; /* the processor's memory, as the two above are */
    const float *scale;       /* the same: in place of every factor; NULL: factors are as given */
};

/* For batches of up to `batch` rows of `width` outputs. -ENOMEM; deinit takes every state. */
int gyre_loss_meter_init(struct gyre_loss_meter *meter, struct gyre_processor *on, size_t batch,
                         size_t width, struct gyre_trouble *trouble);
void gyre_loss_meter_deinit(struct gyre_loss_meter *meter);

/* Forgets what was added and not taken. */
void gyre_loss_meter_clear(struct gyre_loss_meter *meter);

/* Cross-entropy of softmax(outputs), per sample: gradient[s][i] = factor * (softmax - is_label).
 * `factor` is the loss scale, 1 without one. Labels are host memory, outputs and gradient the
 * processor's. A label outside 0 ... width - 1 is GYRE_INVALID and named with its sample; then
 * nothing is written. */
int gyre_loss_cross_entropy(struct gyre_loss_meter *meter, const float *outputs,
                            const int64_t *labels, size_t samples, float factor, float *gradient,
                            struct gyre_trouble *trouble);

/* Mean over a sample's outputs of (output - target)^2, per sample; `right` is not counted. */
int gyre_loss_squared_error(struct gyre_loss_meter *meter, const float *outputs,
                            const float *targets, size_t samples, float factor, float *gradient,
                            struct gyre_trouble *trouble);

/* Adds the sums to *loss and clears them. Waits for the processor. */
int gyre_loss_meter_take(struct gyre_loss_meter *meter, struct gyre_loss *loss,
                         struct gyre_trouble *trouble);

#endif
