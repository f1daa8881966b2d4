/* A replica's running means. A device's are in host memory while a pass is under way, and what a
 * load has read is the device's from its next pass on. Tested by tests/program/ddp/checkpoint.c and
 * tests/program/cuda/train.sh. */
#include "checkpoint/run/engine.h"
#include "checkpoint/run/inside.h"

#include <errno.h>

struct bound_running {
    struct gyre_bound bound;
    struct gyre_running *running;
};

/* Lists nothing: the tensors behind it are listed as any caller's. */
static int list_running(struct gyre_bound *bound, struct gyre_run_pass *pass)
{
    struct gyre_running *running = ((struct bound_running *)bound)->running;
    int status = gyre_running_bring_home(running, &pass->trouble);
    if (!status && pass->loading)
        gyre_running_written(running);
    return status;
}

int gyre_run_add_running(struct gyre_checkpoint *c, struct gyre_replica *r)
{
    static const struct gyre_bound_kind kind = {.list = list_running};
    struct bound_running *b = gyre_run_bind(c, &kind, sizeof *b);
    if (!b)
        return -ENOMEM;
    b->running = &r->running;
    return gyre_checkpoint_add_tensors(c, GYRE_CHECKPOINT_MODEL, r->host_item + r->parameters,
                                       r->buffers);
}
