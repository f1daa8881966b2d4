/* The smallest scenario that still fails: faults and calls are left out one by one, then ranks,
 * then what makes links and calls special, until nothing more can go. What fails need not fail in
 * the same way. */
#include "sim/hunt/inside.h"

#include <string.h>

#define TRIES 2000

static struct {
    struct hunt_scenario *best;
    struct hunt_outcome *outcome;
    uint32_t tries;
} now;

static bool keep_if_wrong(const struct hunt_scenario *smaller)
{
    struct hunt_outcome outcome;
    if (now.tries++ >= TRIES)
        return false;
    hunt_play(smaller, NULL, &outcome);
    if (!outcome.wrong)
        return false;
    *now.best = *smaller;
    *now.outcome = outcome;
    return true;
}

static bool drop_faults(void)
{
    bool dropped = false;
    for (uint32_t i = now.best->faults; i-- > 0;) {
        struct hunt_scenario less = *now.best;
        memmove(&less.fault[i], &less.fault[i + 1], (less.faults - i - 1) * sizeof less.fault[0]);
        less.faults--;
        dropped |= keep_if_wrong(&less);
    }
    return dropped;
}

static bool drop_calls(void)
{
    bool dropped = false;
    for (uint32_t i = now.best->ops; i-- > 0;) {
        struct hunt_scenario less = *now.best;
        memmove(&less.op[i], &less.op[i + 1], (less.ops - i - 1) * sizeof less.op[0]);
        less.ops--;
        dropped |= keep_if_wrong(&less);
    }
    return dropped;
}

static bool drop_rank(void)
{
    struct hunt_scenario less = *now.best;
    if (less.n == 2)
        return false;
    less.n--;
    if (less.per_node >= less.n)
        less.per_node = less.n - 1;
    for (uint32_t i = 0; i < less.faults; i++) {
        less.fault[i].a %= less.n;
        less.fault[i].b %= less.n;
        if (less.fault[i].a == less.fault[i].b)
            less.fault[i].b = (less.fault[i].a + 1) % less.n;
    }
    return keep_if_wrong(&less);
}

static bool drop_flag(bool *flag, const struct hunt_scenario *less)
{
    bool was = *flag;
    *flag = false;
    return was && keep_if_wrong(less);
}

static bool plainer_call(uint32_t i)
{
    struct hunt_scenario less = *now.best;
    bool dropped = false;
    bool *const flags[] = {&less.op[i].in_place, &less.op[i].part, &less.op[i].late,
                           &less.op[i].grouped};
    for (uint32_t k = 0; k < 4; k++) {
        dropped |= drop_flag(flags[k], &less);
        less = *now.best;
    }
    less.op[i].count /= 2;
    return (less.op[i].count != now.best->op[i].count && keep_if_wrong(&less)) || dropped;
}

static bool plainer_wire(void)
{
    struct hunt_scenario less = *now.best;
    less.jitter_ns = less.bytes_per_second = less.coalesce_ns = 0;
    less.piece_bytes = less.window_bytes = 0;
    less.slice = "";
    less.algorithms = "auto";
    less.security = GYRE_SEAL_NONE;
    return memcmp(&less, now.best, sizeof less) != 0 && keep_if_wrong(&less);
}

static bool flat_watch(void)
{
    struct hunt_scenario less = *now.best;
    less.fan_out = 0;
    less.large = false;
    return now.best->fan_out && keep_if_wrong(&less);
}

static bool links_at_once(void)
{
    struct hunt_scenario less = *now.best;
    return drop_flag(&less.on_demand, &less);
}

void hunt_shrink(struct hunt_scenario *scenario, struct hunt_outcome *outcome)
{
    bool smaller = true;
    now.best = scenario;
    now.outcome = outcome;
    now.tries = 0;
    while (smaller && now.tries < TRIES) {
        smaller = drop_faults();
        smaller |= drop_calls();
        while (drop_rank())
            smaller = true;
        smaller |= plainer_wire();
        smaller |= flat_watch();
        smaller |= links_at_once();
        for (uint32_t i = 0; i < now.best->ops; i++)
            smaller |= plainer_call(i);
    }
}
