/* Formulas of one element or one channel that the CPU and the kernels of a device share, so that
 * both give the same bits: no product is fused with the sum behind it on either (-ffp-contract=off,
 * -fmad=false). Tested by tests/kernel/ops.c. */
#ifndef GYRE_MODEL_KERNELS_FORMULAS_H
#define GYRE_MODEL_KERNELS_FORMULAS_H

#include "base/small_floats.h"
#include "model/kernels/ops.h"

#include <math.h>

#ifdef __CUDACC__
#define GYRE_FORMULA static __device__ __forceinline__
#else
#define GYRE_FORMULA static inline __attribute__((always_inline))
#endif

/* -- elements ---------------------------------------------------------------------------------- */

GYRE_FORMULA float gyre_as_bf16(float x)
{
    uint32_t bits = gyre_bits_of_f32(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    uint32_t quiet = (bits & 0xffff0000) | 0x400000;
    return gyre_f32_of_bits((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

/* e^x for x up to 88: x = n ln 2 + r with |r| <= ln 2 / 2, and Cephes' polynomial for e^r. Adding
 * 1.5 * 2^23 rounds to a whole number, which then stands in the low bits. ln 2 is taken away in two
 * parts, the first of which is short enough for n times it to be exact. */
GYRE_FORMULA float gyre_exponential(float x)
{
    const float least = -87.33654f, magic = 12582912.0f;
    float shifted = x * 1.44269504f + magic, n = shifted - magic;
    float r = x - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    uint32_t power = (gyre_bits_of_f32(shifted) - 0x4b400000 + 127) << 23;
    uint32_t kept = x < least ? 0 : UINT32_MAX; /* what is too small went wrong above */
    return gyre_f32_of_bits(gyre_bits_of_f32(p * gyre_f32_of_bits(power)) & kept);
}

/* -- optimisers -------------------------------------------------------------------------------- */

/* Without momentum. */
GYRE_FORMULA void gyre_sgd_plain(float *value, float gradient, const struct gyre_update *u)
{
    float g = gradient * u->factor + u->weight_decay * *value;
    *value -= u->rate * g;
}

/* `m` is 0 in the first step. */
GYRE_FORMULA void gyre_sgd_momentum(float *value, float gradient, float *m,
                                    const struct gyre_update *u, bool nesterov)
{
    float g = gradient * u->factor + u->weight_decay * *value;
    *m = u->momentum * *m + u->fresh * g;
    *value -= u->rate * (nesterov ? g + u->momentum * *m : *m);
}

GYRE_FORMULA void gyre_adam_moments(float g, float *m, float *v, const struct gyre_update *u)
{
    *m = u->beta1 * *m + u->rest1 * g;
    *v = u->beta2 * *v + u->rest2 * g * g;
}

GYRE_FORMULA void gyre_adam(float *value, float gradient, float *m, float *v,
                            const struct gyre_update *u)
{
    gyre_adam_moments(gradient * u->factor + u->weight_decay * *value, m, v, u);
    *value -= u->rate * *m / (sqrtf(*v) / u->root_of_bias2 + u->epsilon);
}

/* keep = 1 - weight_decay. */
GYRE_FORMULA void gyre_adamw(float *value, float gradient, float *m, float *v,
                             const struct gyre_update *u, float keep)
{
    gyre_adam_moments(gradient * u->factor, m, v, u);
    *value = *value * keep - u->rate * *m / (sqrtf(*v) / u->root_of_bias2 + u->epsilon);
}

/* -- batch norm, a channel --------------------------------------------------------------------- */

#define GYRE_NORM_EPSILON  1e-5
#define GYRE_NORM_MOMENTUM 0.1

GYRE_FORMULA float gyre_norm_inverse(float variance)
{
    return (float)(1 / sqrt((double)variance + GYRE_NORM_EPSILON));
}

GYRE_FORMULA void gyre_norm_follow(float *running, double now)
{
    *running = (float)((1 - GYRE_NORM_MOMENTUM) * (double)*running + GYRE_NORM_MOMENTUM * now);
}

/* From the sum of squared distances of so many values. */
GYRE_FORMULA void gyre_norm_variance_of(double squares, double values, float mean, float *inverse,
                                        float *running_mean, float *running_variance)
{
    double variance = (double)(float)squares / values;
    *inverse = (float)(1 / sqrt(variance + GYRE_NORM_EPSILON));
    gyre_norm_follow(running_mean, (double)mean);
    gyre_norm_follow(running_variance, variance * values / (values - 1));
}

/* dx = a dy + b (x - mean) + c */
struct gyre_norm_line {
    float a, b, c;
};

GYRE_FORMULA struct gyre_norm_line gyre_norm_line_of(float inverse, float weight, double sum,
                                                     double product, double values)
{
    const double deep = (double)inverse, factor = deep * (double)weight;
    struct gyre_norm_line line;
    line.a = (float)factor;
    line.b = (float)(-factor * deep * deep * product / values);
    line.c = (float)(-factor * sum / values);
    return line;
}

#endif
