/* Passes behind the reductions of several ranks as one graph, where they repeat: halves to
 * gradients, and the norm's squares, for every bucket. Their launches depend on where memory lies
 * and on the scale of halves, which is the same as long as as many samples are in a step.
 *
 *     passes, before   look, encode │ look, encode │ …      a few before each hand-over
 *     passes, behind   decode, decode, … squares, squares, …             ─▶ a graph
 *
 * Tested by tests/unit/model/network/repeat_test.c. */
#include "ddp/inside.h"

#include <string.h>

/* Without samples no norm is made. Who gathers the norm makes it in any case, before it knows. */
static bool makes_passes(const struct gyre_ddp *ddp)
{
    uint64_t samples = 0;
    if (ddp->n == 1 || !(ddp->wire.data || ddp->options.norm))
        return false;
    for (int rank = 0; rank < ddp->n; rank++)
        samples += ddp->note[rank].samples;
    return samples || gyre_ddp_norm_is_gathered(ddp);
}

void gyre_ddp_begin_behind(struct gyre_ddp *ddp)
{
    struct gyre_repeat *repeat = &ddp->place.repeat;
    uint32_t scale;
    memcpy(&scale, &ddp->wire.scale, sizeof scale);
    if (!repeat->on || !makes_passes(ddp))
        return;
    const bool quiet = gyre_ddp_quiet_begin();
    gyre_repeat_begin(repeat,
                      &(struct gyre_repeat_batch){.samples = (uint64_t)scale + 1, .quiet = quiet});
    if (quiet)
        gyre_ddp_quiet_end();
}

int gyre_ddp_end_behind(struct gyre_ddp *ddp)
{
    struct gyre_trouble told = {0};
    return gyre_ddp_told(gyre_repeat_end(&ddp->place.repeat, &told), &told);
}
