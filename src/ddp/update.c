/* The update, between gyre_ddp_wait() and the next step: clips gradients and gathers the values of
 * all ranks. Tested by tests/program/ddp/ddp.c. */
#include "base/clock.h"
#include "ddp/inside.h"

#include <math.h>

/* -- clipped ----------------------------------------------------------------------------------- */

static int check_clip(const struct gyre_ddp *ddp, double most)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_clip: the engine is NULL");
    if (ddp->failed)
        return ddp->failed;
    if (!ddp->options.norm)
        return gyre_refuse("gyre_ddp_clip: the engine computes no norm: set gyre_ddp_options.norm");
    if (!ddp->clips)
        return gyre_refuse("gyre_ddp_clip: once for each step, after its gyre_ddp_wait()");
    return most > 0 ? 0 : gyre_refuse("gyre_ddp_clip: a norm of at most %g is impossible", most);
}

int gyre_ddp_clip(struct gyre_ddp *ddp, double most)
{
    int status = check_clip(ddp, most);
    if (status)
        return status;
    double norm = ddp->result.norm, factor = most / (norm + 1e-6);
    ddp->clips = false;
    if (!isfinite(norm) || factor >= 1)
        return 0;
    if (ddp->options.unscaled)
        ddp->result.factor *= factor;
    for (uint32_t b = 0; !ddp->options.unscaled && b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        gyre_ddp_scale(ddp, gyre_ddp_own_gradient(ddp, bucket), gyre_ddp_own_count(ddp, bucket),
                       bucket->type, factor);
    }
    return ddp->options.unscaled ? 0 : gyre_ddp_fail(ddp, gyre_ddp_await_passes(ddp));
}

/* -- the values of all ------------------------------------------------------------------------- */

int gyre_ddp_gather(struct gyre_ddp *ddp)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_gather: the engine is NULL");
    if (ddp->failed || !ddp->values)
        return ddp->failed;
    int status = gyre_ddp_await_stream(ddp);
    uint64_t start = gyre_now_ns();
    if (!status)
        status = gyre_ddp_spread_blocks(ddp, ddp->values);
    ddp->result.waited_ns += gyre_now_ns() - start;
    return gyre_ddp_fail(ddp, status);
}
