/* Losses: how far the outputs of a batch are from what is wanted, and the gradient of that.
 *
 * A loss is a sum over samples, and so is its gradient: neither is divided by the batch. Division
 * happens once, by the number of samples of all ranks, because a mean of means is wrong as soon as
 * two ranks have batches of unequal sizes. */
#ifndef GYRE_MODEL_LEARNING_LOSS_H
#define GYRE_MODEL_LEARNING_LOSS_H

#include "base/status.h"
#include "model/kernels/ops.h"

enum gyre_loss_kind { GYRE_CROSS_ENTROPY, GYRE_SQUARED_ERROR };

extern const char *const gyre_loss_names[]; /* by kind, then NULL: "cross-entropy" */

/* Sums; a call adds to what is there. */
struct gyre_loss {
    double sum;
    uint64_t samples;
    uint64_t right; /* samples whose greatest output, the first of equals, is the label */
};

/* Cross-entropy of softmax(outputs), per sample. gradient[s][i] = factor * (softmax - is_label):
 * `factor` is the loss scale, 1 without one. A label outside 0 ... classes - 1 is GYRE_INVALID and
 * named with its sample; then nothing is written. */
int gyre_loss_cross_entropy(const struct gyre_ops *ops, const float *outputs, const int64_t *labels,
                            size_t samples, size_t classes, float factor, float *gradient,
                            struct gyre_loss *loss, struct gyre_trouble *trouble);

/* Mean over a sample's `width` outputs of (output - target)^2, per sample; `right` is not
 * counted. */
void gyre_loss_squared_error(const float *outputs, const float *targets, size_t samples,
                             size_t width, float factor, float *gradient, struct gyre_loss *loss);

#endif
