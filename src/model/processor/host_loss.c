/* Losses on the CPU, a row of outputs after the other. Sums are doubles: a float loses the digits
 * of a sample after some ten thousand of them. Tested by tests/unit/model/learning/loss_test.c. */
#include "model/processor/inside.h"

#include <math.h>

static bool is_first_greatest(const float *row, size_t label, size_t classes)
{
    for (size_t i = 0; i < classes; i++)
        if (!(i < label ? row[i] < row[label] : row[i] <= row[label]))
            return false;
    return true;
}

void gyre_host_cross_entropy(struct gyre_processor *on, const struct gyre_rows *rows,
                             const int64_t *labels, struct gyre_tally *tally)
{
    const float *outputs = rows->outputs;
    float *gradient = rows->gradient;
    for (size_t s = 0; s < rows->samples; s++, outputs += rows->width, gradient += rows->width) {
        const size_t label = (size_t)labels[s];
        struct gyre_softmax row =
            gyre_host_ops(on)->softmax(gradient, outputs, rows->width, label, rows->factor);
        tally->sum += log((double)row.sum) - ((double)outputs[label] - (double)row.greatest);
        tally->right += is_first_greatest(outputs, label, rows->width);
    }
}

void gyre_host_squared_error(struct gyre_processor *on, const struct gyre_rows *rows,
                             const float *targets, struct gyre_tally *tally)
{
    const size_t width = rows->width;
    const float twice = (float)(2 * (double)rows->factor / (double)width);
    for (size_t s = 0; s < rows->samples; s++) {
        double sum = 0;
        for (size_t i = s * width; i < (s + 1) * width; i++) {
            float distance = rows->outputs[i] - targets[i];
            sum += (double)distance * (double)distance;
            rows->gradient[i] = twice * distance;
        }
        tally->sum += sum / (double)width;
    }
}
