/* The arithmetic of layers, losses and optimisers over plain floats: one table of function
 * pointers, filled with the plain C reference and replaced by the same loops for the best
 * instruction set that this CPU has (dav1d's pattern; ops_loops.inc is the one source of all sets).
 *
 *     collectives/kernels/reduce.h   sums over ranks        ops.h   computes on one rank
 *     dense.h    products of matrices                   model/layers/layer.h calls all of them
 *
 * Every set gives the same bits, at any count and alignment: replicas on different CPUs apply the
 * same update, and stay replicas only if the update is the same to the last bit. Therefore no
 * multiply-add is fused, and every sum over elements goes the same way: 16 partial sums, element i
 * to sum i % 16, folded in halves at the end (0 + 8, 1 + 9, …, then 0 + 4, …). NaN payloads aside.
 * The caller's rounding mode is taken to be the default one.
 *
 * No entry blocks, allocates or fails. Any thread. Spans that are written may not overlap spans
 * that are read, unless they are said to be possibly the same; then they may be equal. */
#ifndef GYRE_MODEL_KERNELS_OPS_H
#define GYRE_MODEL_KERNELS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_OPS_LANES 16

/* What a row of logits was: exp(logit - greatest) sums to `sum`. */
struct gyre_softmax {
    float greatest, sum;
};

/* The constants of one pass of an optimiser; formulas in model/learning/optimizer.h. */
struct gyre_update {
    float factor; /* of the gradient, before all else */
    float rate;   /* sgd: of the step; adam: divided by 1 - beta1^t */
    float
        weight_decay; /* sgd, adam: into the gradient; adamw: rate * decay, of the weight itself */
    float momentum;   /* sgd; 0: there is no m */
    float fresh;      /* sgd: 1 - dampening, and 1 in the first step */
    float beta1, beta2;   /* adam */
    float rest1, rest2;   /* adam: 1 - beta1, 1 - beta2 */
    float root_of_bias2;  /* adam: sqrt(1 - beta2^t) */
    float epsilon;        /* adam */
    bool nesterov, first; /* sgd; first: m is set, whatever it held */
};

/* `value` and the moments are updated in place; the gradient is only read. */
typedef void gyre_ops_update(float *value, const float *gradient, float *m, float *v, size_t count,
                             const struct gyre_update *update);

struct gyre_ops {
    const char *variant;

    /* y[r][c] += bias[c]; then, with relu, negative results become 0 (NaN stays). */
    void (*add_bias)(float *y, const float *bias, size_t rows, size_t columns, bool relu);
    /* y may be x. */
    void (*relu)(float *y, const float *x, size_t count);
    /* dx = y > 0 ? dy : 0 (dy where y is NaN); dx may be dy. */
    void (*relu_back)(float *dx, const float *dy, const float *y, size_t count);
    /* sums[c] = or += x[0][c] + x[1][c] + …, row after row. */
    void (*column_sums)(float *sums, const float *x, size_t rows, size_t columns, bool accumulate);

    /* gradient[i] = factor * (softmax(logits)[i] - (i == label)); label < classes. The loss is
     * log(sum) - (logits[label] - greatest). Exponentials are good to 2 ulp; below 2^-126 they are
     * 0. */
    struct gyre_softmax (*softmax)(float *gradient, const float *logits, size_t classes,
                                   size_t label, float factor);

    double (*sum)(const float *x, size_t count);
    /* Sum of (x - about)^2, and of a * (x - about); differences and products are doubles. */
    double (*squares)(const float *x, double about, size_t count);
    double (*dot)(const float *a, const float *x, double about, size_t count);

    /* y = x * factor + offset, computed in double and rounded once; y may be x. */
    void (*affine)(float *y, const float *x, float factor, float offset, size_t count);

    /* y = a * p + b * (q - about) + c; y may be p. */
    void (*combine)(float *y, const float *p, float a, const float *q, float about, float b,
                    float c, size_t count);

    /* y = x as if stored in 16 bits and read again, to nearest even; y may be x. */
    void (*round_bf16)(float *y, const float *x, size_t count);
    void (*round_f16)(float *y, const float *x, size_t count);

    bool (*is_finite)(const float *x, size_t count); /* neither infinite nor NaN, all of them */

    gyre_ops_update *sgd, *adam, *adamw;
};

/* One set; supported() says whether this CPU may run it. */
struct gyre_ops_variant {
    const struct gyre_ops *ops;
    bool (*supported)(void);
};

/* From slowest ("scalar") to fastest; ends with a NULL ops. */
extern const struct gyre_ops_variant gyre_ops_variants[];

/* The fastest set that this CPU has and GYRE_KERNELS allows. Static storage. */
const struct gyre_ops *gyre_ops(void);

#endif
