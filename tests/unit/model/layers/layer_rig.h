/* One layer with all the memory that a model and an owner would give it, and gradients by central
 * differences. */
#ifndef GYRE_TESTS_UNIT_MODEL_LAYERS_LAYER_RIG_H
#define GYRE_TESTS_UNIT_MODEL_LAYERS_LAYER_RIG_H

#include "model/layers/layer.h"

struct layer_rig {
    struct gyre_layer layer;
    struct gyre_pass pass;
    size_t samples, in, out; /* floats of x and y: in, out */
    float *x, *y, *dy, *dx;
    char ready[64]; /* the last word of each parameter's name that was reported, in order */
    int (*sum)(void *context, double *values, size_t count); /* over ranks, where pass.synced */
    void *sum_context;
};

/* Shapes `layer` (kind, in and its numbers are set) for `samples` and fills parameters, x and dy
 * from `seed`. Fails the test if the layer refuses. */
void layer_rig_init(struct layer_rig *rig, const struct gyre_layer *layer, size_t samples,
                    uint64_t seed);
void layer_rig_deinit(struct layer_rig *rig);

void layer_rig_forward(struct layer_rig *rig);

/* The layer's forward and backward with their events handled, to the end. */
int layer_rig_try_forward(struct layer_rig *rig);
int layer_rig_backward(struct layer_rig *rig, float *dy);

/* The sum of dy * y after a forward, in double. */
double layer_rig_objective(struct layer_rig *rig);

/* Runs forward and backward, then checks dx and each parameter's gradient against central
 * differences of the objective: `step` is half their width, `tolerance` in parts of the greatest
 * gradient of the same span. */
void layer_rig_check(struct layer_rig *rig, float step, double tolerance);

float layer_rig_random(void); /* in -1 ... 1 */

#endif
