/* See scaler.h. There is no lower bound: the scale may fall below 1, as it does in PyTorch. */
#include "model/learning/scaler.h"

#include <math.h>

void gyre_scaler_init(struct gyre_scaler *scaler, bool enabled)
{
    *scaler = (struct gyre_scaler){
        .scale = 65536,
        .growth_factor = 2,
        .backoff_factor = 0.5,
        .growth_interval = 2000,
        .enabled = enabled,
    };
}

int gyre_scaler_check(const struct gyre_scaler *scaler, struct gyre_trouble *trouble)
{
    if (scaler->growth_factor > 1 && scaler->backoff_factor > 0 && scaler->backoff_factor < 1 &&
        scaler->growth_interval > 0 && scaler->scale > 0 && isfinite(scaler->scale))
        return 0;
    return gyre_trouble_set(
        trouble, GYRE_INVALID,
        "loss scale %g, times %g after %d good steps, times %g after a bad one: "
        "expected a scale above 0, a growth above 1 and a backoff between 0 and 1",
        (double)scaler->scale, scaler->growth_factor, scaler->growth_interval,
        scaler->backoff_factor);
}

float gyre_scaler_scale(const struct gyre_scaler *scaler)
{
    return scaler->enabled ? scaler->scale : 1;
}

int gyre_scaler_unscale(struct gyre_scaler *scaler, bool finite, float *factor,
                        struct gyre_trouble *trouble)
{
    if (scaler->unscaled)
        return gyre_trouble_set(
            trouble, GYRE_INVALID,
            "gradients were unscaled already; call update before the next step");
    scaler->unscaled = true;
    scaler->found = scaler->enabled && !finite;
    *factor = (float)(1 / (double)gyre_scaler_scale(scaler));
    return 0;
}

int gyre_scaler_step(struct gyre_scaler *scaler, bool *skip, struct gyre_trouble *trouble)
{
    if (!scaler->unscaled || scaler->stepped)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                scaler->stepped ? "this step was taken already; call update"
                                                : "gradients are still scaled; call unscale");
    scaler->stepped = true;
    *skip = scaler->found;
    return 0;
}

static void grow_scale(struct gyre_scaler *scaler)
{
    float larger = (float)((double)scaler->scale * scaler->growth_factor);
    scaler->growth_tracker = 0;
    if (isfinite(larger))
        scaler->scale = larger;
}

int gyre_scaler_update(struct gyre_scaler *scaler, struct gyre_trouble *trouble)
{
    if (!scaler->unscaled)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "there is nothing to update by: no gradients were unscaled");
    if (scaler->enabled && scaler->found) {
        scaler->scale = (float)((double)scaler->scale * scaler->backoff_factor);
        scaler->growth_tracker = 0;
    } else if (scaler->enabled && ++scaler->growth_tracker == scaler->growth_interval) {
        grow_scale(scaler);
    }
    scaler->unscaled = scaler->stepped = scaler->found = false;
    return 0;
}
