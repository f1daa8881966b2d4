/* The breaker's inside. */
#include "link/verbs_breaker.h"

#include "base/rng.h"
#include "transport/link/verbs/peer.h"

#include <infiniband/verbs.h>

static uint64_t seed = 1;
static uint32_t fuse, broken; /* polls until it happens; how many queue pairs it was */
static const struct gyre_wire *last;
static uint64_t seen; /* in memory */

/* Early in half of the nets, as connections begin to be used; somewhere in the others. */
void verbs_breaker_light(void)
{
    seed = gyre_mix64(seed);
    fuse = 1 + (uint32_t)(seed >> 8) % (seed & 1 ? 8 : 500);
    last = NULL;
}

uint32_t verbs_breaker_broken(void)
{
    return broken;
}

/* One queue pair of each pipe, if it has several. */
static void break_all(const struct gyre_verbs_wire *wire)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_ERR};
    for (uint32_t i = 0; i < wire->most; i++) {
        const struct gyre_verbs_pipe *pipe = wire->pipe[i];
        const struct gyre_verbs_queue *queue = pipe ? pipe->way[broken % pipe->ways] : NULL;
        if (queue && queue->pair && pipe->falls_back) {
            ibv_modify_qp(queue->pair, &wanted, IBV_QP_STATE);
            broken++;
        }
    }
}

int verbs_breaker_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out, int max)
{
    if (last != handle && fuse && --fuse == 0)
        break_all((const struct gyre_verbs_wire *)handle);
    last = handle;
    return gyre_driver_verbs.poll(handle, now, out, max);
}

/* The end that was not broken hears of it when it is polled. */
int verbs_breaker_arm(struct gyre_wire *handle, struct gyre_alarm *alarm)
{
    const struct gyre_verbs_wire *wire = (const struct gyre_verbs_wire *)handle;
    for (uint32_t i = 0; i < wire->most; i++) {
        const struct gyre_verbs_pipe *pipe = wire->pipe[i];
        if (pipe && !pipe->end.status && pipe->fallback.state && !pipe->ended &&
            pipe->fallback.state != GYRE_VERBS_ON_FALLBACK)
            return GYRE_AGAIN;
    }
    return gyre_driver_verbs.arm(handle, alarm);
}

uint64_t verbs_watcher_seen(void)
{
    return seen;
}

int verbs_watcher_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out, int max)
{
    const struct gyre_verbs_wire *wire = (const struct gyre_verbs_wire *)handle;
    uint64_t before = wire->seen;
    int got = gyre_driver_verbs.poll(handle, now, out, max);
    seen += wire->seen - before;
    return got;
}
