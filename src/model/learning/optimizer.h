/* Optimisers over a flat range of numbers, with PyTorch's formulas and defaults; g is the gradient
 * times a factor, t the number of this step from 1, lr the learning rate:
 *
 *     sgd      g += decay p;  m = g at t = 1, else momentum m + (1 - dampening) g
 *              p -= lr m,  or  lr (g + momentum m)  with nesterov;  without momentum p -= lr g
 *     adam     g += decay p;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *              p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
 *     adamw    p *= 1 - lr decay, then as adam without decay in g
 *
 * An optimiser keeps state for the range that it was made for, which may be a part of a model's
 * memory: ranks that step a part each and then share the results have a full step at a part of the
 * state each. A step may be applied piece by piece, as gradients arrive, in any order. Every
 * instruction set gives the same bits (model/kernels/ops.h). */
#ifndef GYRE_MODEL_LEARNING_OPTIMIZER_H
#define GYRE_MODEL_LEARNING_OPTIMIZER_H

#include "base/status.h"
#include "model/processor/processor.h"

enum gyre_optimizer_kind { GYRE_SGD, GYRE_ADAM, GYRE_ADAMW };

extern const char *const gyre_optimizer_names[]; /* by kind, then NULL: "sgd" */

struct gyre_optimizer_settings {
    enum gyre_optimizer_kind kind;
    double weight_decay;
    double momentum, dampening; /* sgd */
    bool nesterov;
    double beta1, beta2, epsilon; /* adam, adamw */
};

struct gyre_optimizer {
    struct gyre_optimizer_settings settings;
    struct gyre_processor *on; /* where state, values and gradients lie */
    struct gyre_update update; /* this step's constants */
    size_t count;
    int64_t steps; /* begun so far; set it when a checkpoint is read */
    int states;
    const char *state_name[2];
    float *state[2]; /* `count` floats each, the processor's memory */

    struct gyre_step_spans stretches; /* of the last step of all, on a device */
    struct gyre_step_span *known;     /* the same, on the host */
};

/* PyTorch's defaults: decay 0.01 for adamw, else 0; momentum 0; betas 0.9, 0.999; epsilon 1e-8. */
struct gyre_optimizer_settings gyre_optimizer_defaults(enum gyre_optimizer_kind kind);

/* PyTorch's names of the states that such an optimiser keeps; returns how many. */
int gyre_optimizer_states(const struct gyre_optimizer_settings *settings, const char *name[2]);

/* GYRE_INVALID names the setting that no optimiser takes. */
int gyre_optimizer_check(const struct gyre_optimizer_settings *settings,
                         struct gyre_trouble *trouble);

/* Allocates zeroed state for `count` numbers. GYRE_INVALID as above; -ENOMEM. */
int gyre_optimizer_create(struct gyre_optimizer **optimizer, struct gyre_processor *on,
                          const struct gyre_optimizer_settings *settings, size_t count,
                          struct gyre_trouble *trouble);
void gyre_optimizer_destroy(struct gyre_optimizer *optimizer); /* takes NULL */

/* Numbers `first` to `first + count` of a state, to and from host memory. Waits for the processor;
 * its failure is told in `trouble`. */
int gyre_optimizer_read(const struct gyre_optimizer *optimizer, int state, size_t first,
                        size_t count, float *to, struct gyre_trouble *trouble);
int gyre_optimizer_write(struct gyre_optimizer *optimizer, int state, size_t first, size_t count,
                         const float *from, struct gyre_trouble *trouble);

/* The constants of step t, from 1. */
struct gyre_update gyre_optimizer_constants(const struct gyre_optimizer_settings *settings,
                                            double rate, int64_t t);

/* Begins a step: counts it and works out its constants. */
void gyre_optimizer_begin(struct gyre_optimizer *optimizer, double rate);

/* Applies the step to numbers `first` to `first + count` of the range; `value` and `gradient` are
 * where `first` lies. Each number once in a step. No call of other pieces meanwhile has to be
 * waited for: pieces apart may be applied by several threads. */
void gyre_optimizer_apply(const struct gyre_optimizer *optimizer, size_t first, size_t count,
                          float *value, const float *gradient, float factor);

/* Applies the step to the whole range, of which each stretch is a part; on a device by one launch.
 * Stretches are as struct gyre_step_spans wants them, in host memory. -ENOMEM, or the processor's
 * failure. */
int gyre_optimizer_apply_all(struct gyre_optimizer *optimizer, const struct gyre_step_span *stretch,
                             size_t count, float factor, struct gyre_trouble *trouble);

/* The constants of a step that is made if a verdict on the device says so, and by the verdict's
 * factor. `steps` counts those of which the host knows; one more may have been made. */
struct gyre_step_constants gyre_optimizer_judged_by(const struct gyre_optimizer *optimizer,
                                                    double rate,
                                                    const struct gyre_verdict *verdict);

/* As apply_all() on a device, by such constants in its memory. Nothing begins or is counted. */
int gyre_optimizer_apply_judged(struct gyre_optimizer *optimizer,
                                const struct gyre_step_span *stretch, size_t count,
                                const struct gyre_step_constants *constants,
                                struct gyre_trouble *trouble);

#endif
