/* Passes over channels on the CPU: batch norm, and the bias of a convolution. A channel of a sample
 * is one run of memory. Tested by tests/unit/model/layers/batch_norm_test.c. */
#include "model/processor/inside.h"
#include "model/kernels/formulas.h"

static size_t run_at(struct gyre_planes planes, size_t sample, size_t c)
{
    return (sample * planes.channels + c) * planes.places;
}

/* Begins with `sum`. */
static double sum_channel(const struct gyre_processor *on, struct gyre_planes planes,
                          const float *x, size_t c, double sum)
{
    for (size_t s = 0; s < planes.samples; s++)
        sum += gyre_host_ops(on)->sum(x + run_at(planes, s, c), planes.places);
    return sum;
}

/* -- a convolution's bias ---------------------------------------------------------------------- */

void gyre_host_fill_channels(struct gyre_processor *on, float *y, const float *bias,
                             struct gyre_planes planes)
{
    for (size_t s = 0; s < planes.samples; s++)
        for (size_t c = 0; c < planes.channels; c++, y += planes.places)
            for (size_t p = 0; p < planes.places; p++)
                y[p] = bias[c];
}

void gyre_host_channel_sums(struct gyre_processor *on, float *sums, const float *x,
                            struct gyre_planes planes, bool accumulate)
{
    for (size_t c = 0; c < planes.channels; c++)
        sums[c] = (float)sum_channel(on, planes, x, c, accumulate ? (double)sums[c] : 0);
}

/* -- forward ----------------------------------------------------------------------------------- */

void gyre_host_norm_sums(struct gyre_processor *on, const struct gyre_norm *n, const float *x)
{
    for (size_t c = 0; c < n->planes.channels; c++)
        n->sums[c] = sum_channel(on, n->planes, x, c, 0);
    n->sums[n->planes.channels] = (double)n->planes.samples;
}

void gyre_host_norm_mean(struct gyre_processor *on, const struct gyre_norm *n)
{
    for (size_t c = 0; c < n->planes.channels; c++)
        n->mean[c] = (float)(n->sums[c] / n->values);
}

void gyre_host_norm_squares(struct gyre_processor *on, const struct gyre_norm *n, const float *x)
{
    for (size_t c = 0; c < n->planes.channels; c++) {
        n->sums[c] = 0;
        for (size_t s = 0; s < n->planes.samples; s++)
            n->sums[c] += gyre_host_ops(on)->squares(x + run_at(n->planes, s, c),
                                                     (double)n->mean[c], n->planes.places);
    }
}

void gyre_host_norm_variance(struct gyre_processor *on, const struct gyre_norm *n)
{
    for (size_t c = 0; c < n->planes.channels; c++)
        gyre_norm_variance_of(n->sums[c], n->values, n->mean[c], &n->inverse[c],
                              &n->running_mean[c], &n->running_variance[c]);
    ++*n->batches;
}

void gyre_host_norm_apply(struct gyre_processor *on, const struct gyre_norm *n, bool train,
                          float *y, const float *x)
{
    for (size_t c = 0; c < n->planes.channels; c++) {
        float about = train ? n->mean[c] : n->running_mean[c];
        float inverse = train ? n->inverse[c] : gyre_norm_inverse(n->running_variance[c]);
        float factor = inverse * n->weight[c], offset = n->bias[c] - about * factor;
        for (size_t s = 0; s < n->planes.samples; s++) {
            size_t at = run_at(n->planes, s, c);
            gyre_host_ops(on)->affine(y + at, x + at, factor, offset, n->planes.places);
        }
    }
}

/* -- backward ---------------------------------------------------------------------------------- */

void gyre_host_norm_back_sums(struct gyre_processor *on, const struct gyre_norm *n, const float *x,
                              const float *dy, float *weight, float *bias, bool accumulate)
{
    const struct gyre_planes planes = n->planes;
    double *sums = n->sums, *products = sums + planes.channels;
    for (size_t c = 0; c < planes.channels; c++) {
        double sum = 0, product = 0;
        for (size_t s = 0; s < planes.samples; s++) {
            const size_t at = run_at(planes, s, c);
            sum += gyre_host_ops(on)->sum(dy + at, planes.places);
            product += gyre_host_ops(on)->dot(dy + at, x + at, (double)n->mean[c], planes.places);
        }
        sums[c] = sum;
        products[c] = product;
        double scaled = planes.samples ? product * (double)n->inverse[c] : 0;
        weight[c] = (float)((accumulate ? (double)weight[c] : 0) + scaled);
        bias[c] = (float)((accumulate ? (double)bias[c] : 0) + sum);
    }
}

void gyre_host_norm_back(struct gyre_processor *on, const struct gyre_norm *n, float *dx,
                         const float *x, const float *dy)
{
    const size_t channels = n->planes.channels;
    for (size_t s = 0; s < n->planes.samples; s++) {
        for (size_t c = 0; c < channels; c++) {
            const size_t at = run_at(n->planes, s, c);
            const struct gyre_norm_line line = gyre_norm_line_of(
                n->inverse[c], n->weight[c], n->sums[c], n->sums[channels + c], n->values);
            gyre_host_ops(on)->combine(dx + at, dy + at, line.a, x + at, n->mean[c], line.b, line.c,
                                       n->planes.places);
        }
    }
}
