/* See loss.h. Losses are summed in double: a float loses the digits of a sample after some ten
 * thousand of them. */
#include "model/learning/loss.h"

#include <math.h>

const char *const gyre_loss_names[] = {
    [GYRE_CROSS_ENTROPY] = "cross-entropy", [GYRE_SQUARED_ERROR] = "mse", NULL};

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

static bool is_first_greatest(const float *row, size_t label, size_t classes)
{
    for (size_t i = 0; i < classes; i++)
        if (!(i < label ? row[i] < row[label] : row[i] <= row[label]))
            return false;
    return true;
}

int gyre_loss_cross_entropy(const struct gyre_ops *ops, const float *outputs, const int64_t *labels,
                            size_t samples, size_t classes, float factor, float *gradient,
                            struct gyre_loss *loss, struct gyre_trouble *trouble)
{
    int status = check_labels(labels, samples, classes, trouble);
    if (status)
        return status;
    for (size_t s = 0; s < samples; s++, outputs += classes, gradient += classes) {
        const size_t label = (size_t)labels[s];
        struct gyre_softmax row = ops->softmax(gradient, outputs, classes, label, factor);
        loss->sum += log((double)row.sum) - ((double)outputs[label] - (double)row.greatest);
        loss->right += is_first_greatest(outputs, label, classes);
    }
    loss->samples += samples;
    return 0;
}

void gyre_loss_squared_error(const float *outputs, const float *targets, size_t samples,
                             size_t width, float factor, float *gradient, struct gyre_loss *loss)
{
    const float twice = (float)(2 * (double)factor / (double)width);
    for (size_t s = 0; s < samples; s++) {
        double sum = 0;
        for (size_t i = s * width; i < (s + 1) * width; i++) {
            float distance = outputs[i] - targets[i];
            sum += (double)distance * (double)distance;
            gradient[i] = twice * distance;
        }
        loss->sum += sum / (double)width;
    }
    loss->samples += samples;
}
