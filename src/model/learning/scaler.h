/* Loss scaling for gradients in half precision, as torch.amp's GradScaler does it: the loss is
 * multiplied by a scale, so that small gradients do not become 0 in 16 bits; a step whose gradients
 * overflowed is left out and the scale halved; after 2000 good steps it is doubled.
 *
 *     loss * scale ─▶ backward ─▶ sum over ranks ─▶ unscale ─▶ (clip) ─▶ step ─▶ update
 *
 * Each step goes through unscale, step and update once, in this order; anything else is refused.
 * The check is of summed gradients, so all ranks decide alike; where ranks hold parts of them, they
 * first agree on whether any is not finite. */
#ifndef GYRE_MODEL_LEARNING_SCALER_H
#define GYRE_MODEL_LEARNING_SCALER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The first five are what a checkpoint keeps, under GradScaler's names; save after update. */
struct gyre_scaler {
    float scale;
    double growth_factor, backoff_factor;
    int32_t growth_interval, growth_tracker;

    bool enabled; /* otherwise the scale is 1, nothing is ever skipped, and update does nothing */
    bool unscaled, stepped, found;
};

/* 65536, times 2 after 2000 good steps, times 0.5 after a bad one. */
void gyre_scaler_init(struct gyre_scaler *scaler, bool enabled);

/* After values were read from a checkpoint or an option. */
int gyre_scaler_check(const struct gyre_scaler *scaler, struct gyre_trouble *trouble);

float gyre_scaler_scale(const struct gyre_scaler *scaler);

/* `finite`: is every gradient? *factor is what takes the scale away again. */
int gyre_scaler_unscale(struct gyre_scaler *scaler, bool finite, float *factor,
                        struct gyre_trouble *trouble);

/* *skip: the optimiser must not step. */
int gyre_scaler_step(struct gyre_scaler *scaler, bool *skip, struct gyre_trouble *trouble);
int gyre_scaler_update(struct gyre_scaler *scaler, struct gyre_trouble *trouble);

#endif
