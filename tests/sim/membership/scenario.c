/* Scenarios: drawn from a seed, printed, and made smaller. */
#include "sim/membership/inside.h"

static uint64_t below(struct gyre_rng *rng, uint64_t bound)
{
    return gyre_rng_below(rng, bound);
}

static bool one_in(struct gyre_rng *rng, uint64_t n)
{
    return below(rng, n) == 0;
}

const char *fault_name(enum fault_kind kind)
{
    static const char *const names[] = {"kill",  "stop",   "cut",  "one-way loss",
                                        "reset", "shrink", "grow", "fuse"};
    return names[kind];
}

/* Half of the faults come close to each other, while the first is dealt with. In some jobs each
 * fault comes when what the one before has done is over, or nearly so. */
static uint64_t draw_time(struct gyre_rng *rng, bool in_turn, uint32_t number)
{
    if (in_turn)
        return 100 * GYRE_MS + number * DEAD + below(rng, DEAD + DEAD / 2);
    switch (below(rng, 4)) {
    case 0:
        return 100 * GYRE_MS + below(rng, 30 * GYRE_MS);
    case 1:
        return 100 * GYRE_MS + below(rng, 400 * GYRE_MS);
    case 2:
        return GYRE_SECOND + below(rng, 500 * GYRE_MS);
    default:
        return 100 * GYRE_MS + below(rng, 5 * GYRE_SECOND);
    }
}

static uint64_t draw_length(struct gyre_rng *rng, bool may_last)
{
    if (may_last && one_in(rng, 3))
        return NEVER;
    return one_in(rng, 3) ? below(rng, DEAD / 2) : GYRE_MS + below(rng, 3 * DEAD);
}

static enum fault_kind draw_kind(struct gyre_rng *rng)
{
    static const enum fault_kind kinds[] = {KILL, KILL, KILL,  STOP,  STOP,   CUT,  GROW, GROW,
                                            CUT,  LOSE, RESET, RESET, SHRINK, FUSE, GROW};
    return kinds[below(rng, sizeof kinds / sizeof *kinds)];
}

/* Some of the processes, often the lowest. */
static uint32_t draw_side(const struct scenario *scenario, struct gyre_rng *rng)
{
    if (one_in(rng, 3))
        return (UINT32_C(1) << (1 + below(rng, scenario->processes - 1))) - 1;
    return 1 + (uint32_t)below(rng, (UINT64_C(1) << scenario->processes) - 2);
}

/* Mostly one process, often process 0; at times several at once. */
static uint32_t draw_victims(const struct scenario *scenario, struct gyre_rng *rng)
{
    if (one_in(rng, 4))
        return draw_side(scenario, rng);
    return UINT32_C(1) << (one_in(rng, 3) ? 0 : below(rng, scenario->processes));
}

static void draw_fault(struct fault *fault, const struct scenario *scenario, bool in_turn,
                       struct gyre_rng *rng)
{
    uint64_t length;
    *fault = (struct fault){.kind = draw_kind(rng),
                            .at = draw_time(rng, in_turn, (uint32_t)(fault - scenario->fault)),
                            .a = (uint32_t)below(rng, scenario->processes),
                            .side = draw_side(scenario, rng)};
    fault->b =
        (uint32_t)((fault->a + 1 + below(rng, scenario->processes - 1)) % scenario->processes);
    if (fault->kind == KILL || fault->kind == STOP)
        fault->side = draw_victims(scenario, rng);
    if (fault->kind == SHRINK)
        fault->side &= (uint32_t)gyre_rng_next(rng);
    length = draw_length(rng, fault->kind == STOP || fault->kind == CUT);
    if (fault->kind < STOP || fault->kind > LOSE)
        length = 0;
    fault->until = length == NEVER ? NEVER : fault->at + length;
}

/* Seeds of scenarios that are written by hand: 0, and the others, which differ in what is drawn
 * while they are played. */
enum { HAND_WRITTEN = 8 };

/* Seats 3 and 4 stand still, and are left out. Of the rest all but seat 2 end, seat 2 is cut off,
 * and then 3 and 4 go on. Neither part may take the other for gone. */
static const struct scenario two_remainders = {
    .n = 5,
    .processes = 5,
    .latency = GYRE_MS,
    .faults = 3,
    .fault = {{.kind = STOP, .side = 0x18, .at = 100 * GYRE_MS, .until = 5 * GYRE_SECOND},
              {.kind = KILL, .side = 0x03, .at = 3500 * GYRE_MS, .until = 3500 * GYRE_MS},
              {.kind = CUT, .side = 0x04, .at = 4500 * GYRE_MS, .until = NEVER}}};

/* Three members take a newcomer in. Seat 0 lets one of the others go, and ends: where that is the
 * newcomer, seats 1 and 2 have to look for it before they go on. */
static const struct scenario newcomer_first = {
    .n = 3,
    .processes = 4,
    .latency = GYRE_MS,
    .faults = 2,
    .fault = {{.kind = FUSE, .a = 4, .at = 50 * GYRE_MS, .until = 50 * GYRE_MS},
              {.kind = GROW, .a = 0, .at = 100 * GYRE_MS, .until = 100 * GYRE_MS}}};

void draw_scenario(struct scenario *scenario, uint64_t seed)
{
    struct gyre_rng rng;
    *scenario = seed ? newcomer_first : two_remainders;
    scenario->seed = seed;
    if (seed < HAND_WRITTEN)
        return;
    gyre_rng_seed(&rng, seed);
    *scenario = (struct scenario){.seed = seed,
                                  .n = 2 + (uint32_t)below(&rng, one_in(&rng, 3) ? 11 : 5),
                                  .latency = 20 * GYRE_MS / (1 + below(&rng, 200))};
    scenario->processes = scenario->n + (one_in(&rng, 3) ? 0 : 1 + (uint32_t)below(&rng, 3));
    scenario->jitter = one_in(&rng, 2) ? 0 : below(&rng, 2 * scenario->latency);
    for (uint32_t i = 0; i < scenario->processes; i++) {
        scenario->slow[i] = one_in(&rng, 5) ? below(&rng, 3 * DEAD) : below(&rng, 5 * GYRE_MS);
        scenario->linger[i] = one_in(&rng, 2) ? 0 : below(&rng, 2 * DEAD);
        scenario->comes[i] = one_in(&rng, 3) ? below(&rng, 3 * GYRE_SECOND) : 0;
    }
    scenario->faults = 1 + (uint32_t)below(&rng, FAULTS);
    bool in_turn = one_in(&rng, 2);
    for (uint32_t i = 0; i < scenario->faults; i++)
        draw_fault(&scenario->fault[i], scenario, in_turn, &rng);
    if (scenario->processes > scenario->n && one_in(&rng, 2)) /* amidst the others */
        scenario->fault[0] = (struct fault){.kind = GROW,
                                            .at = 100 * GYRE_MS + below(&rng, 30 * GYRE_MS),
                                            .a = (uint32_t)below(&rng, 3)};
}

void print_scenario(const struct scenario *is, FILE *to)
{
    fprintf(to, "  %u members, %u newcomers, latency %.3f ms, jitter %.3f ms\n", is->n,
            is->processes - is->n, (double)is->latency / 1e6, (double)is->jitter / 1e6);
    for (uint32_t i = 0; i < is->processes; i++)
        if (is->slow[i] > 10 * GYRE_MS || is->linger[i] || (i >= is->n && is->comes[i]))
            fprintf(to,
                    "  process %u comes at %.1f ms, calls after %.1f ms, finalizes after %.1f ms\n",
                    i, i < is->n ? 0 : (double)is->comes[i] / 1e6, (double)is->slow[i] / 1e6,
                    (double)is->linger[i] / 1e6);
    for (uint32_t i = 0; i < is->faults; i++) {
        const struct fault *fault = &is->fault[i];
        fprintf(to, "  fault %u: %s at %.3f ms, a %u, b %u, side %#x", i, fault_name(fault->kind),
                (double)fault->at / 1e6, fault->a, fault->b, fault->side);
        if (fault->until == NEVER)
            fprintf(to, ", for good\n");
        else
            fprintf(to, ", until %.3f ms\n", (double)fault->until / 1e6);
    }
}

/* -- smaller ----------------------------------------------------------------------------------- */

static bool still_fails(const struct scenario *scenario, char wrong[static 256])
{
    static struct world world;
    bool fails = play_scenario(scenario, NULL, &world);
    if (fails)
        memcpy(wrong, world.wrong, sizeof world.wrong);
    return fails;
}

static bool without_fault(struct scenario *scenario, char wrong[static 256])
{
    for (uint32_t i = 0; i < scenario->faults; i++) {
        struct scenario less = *scenario;
        memmove(&less.fault[i], &less.fault[i + 1], (--less.faults - i) * sizeof less.fault[0]);
        if (still_fails(&less, wrong)) {
            *scenario = less;
            return true;
        }
    }
    return false;
}

static void without_delays(struct scenario *scenario, char wrong[static 256])
{
    for (uint32_t i = 0; i < scenario->processes; i++) {
        struct scenario less = *scenario;
        less.slow[i] = less.linger[i] = less.comes[i] = 0;
        if (still_fails(&less, wrong))
            *scenario = less;
    }
    struct scenario less = *scenario;
    less.jitter = 0;
    if (still_fails(&less, wrong))
        *scenario = less;
}

void shorten_scenario(struct scenario *scenario, char wrong[static 256])
{
    while (without_fault(scenario, wrong))
        ;
    without_delays(scenario, wrong);
}
