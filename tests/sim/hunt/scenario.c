/* Scenarios: drawn from a seed, and printed. Every number of a scenario may be changed by itself,
 * which shrink.c does. */
#include "sim/hunt/inside.h"

#include <string.h>

#define HUNT_NUMBERS 7

static uint64_t below(struct gyre_rng *rng, uint64_t bound)
{
    return gyre_rng_below(rng, bound);
}

static bool one_in(struct gyre_rng *rng, uint64_t n)
{
    return below(rng, n) == 0;
}

/* Mostly small; now and then what a link does not take at once, and one that needs many slices. */
static uint64_t draw_count(struct gyre_rng *rng)
{
    static const uint64_t corners[] = {0, 1, 2, 7, 64, 1023, 1024, 1025, 4096, 4097};
    switch (below(rng, 8)) {
    case 0:
    case 1:
        return corners[below(rng, sizeof corners / sizeof *corners)];
    case 2:
        return below(rng, 16 * 1024);
    case 3:
        return one_in(rng, 6) ? below(rng, 96 * 1024) : below(rng, 4096);
    default:
        return below(rng, 1500);
    }
}

static void draw_op(struct hunt_op *op, struct gyre_rng *rng)
{
    static const enum gyre_type types[] = {GYRE_F32, GYRE_F64, GYRE_F16, GYRE_BF16,
                                           GYRE_I32, GYRE_I64, GYRE_U8,  GYRE_I8,
                                           GYRE_U32, GYRE_U64, GYRE_I16, GYRE_U16};
    static const enum gyre_op ops[] = {GYRE_SUM, GYRE_MIN, GYRE_MAX, GYRE_SUM};
    *op = (struct hunt_op){.call = (enum hunt_call)below(rng, HUNT_CALLS),
                           .count = draw_count(rng),
                           .type = types[below(rng, sizeof types / sizeof *types)],
                           .op = ops[below(rng, 4)],
                           .root = (uint32_t)below(rng, HUNT_RANKS),
                           .in_place = one_in(rng, 3),
                           .part = one_in(rng, 4),
                           .late = one_in(rng, 3),
                           .grouped = one_in(rng, 4)};
    if (op->call == HUNT_ALL_REDUCE && one_in(rng, 3))
        op->count += 20000;
    bool many = op->call >= HUNT_ALL_GATHER && op->call <= HUNT_ALL_TO_ALL_V;
    if (many)
        op->count /= 8;
}

/* What number 0 to 6 of a fault stands for; where there are several, the seed decides. So the
 * drawings of seeds stayed as they were when kinds were added. */
static enum hunt_fault_kind kind_of(uint64_t number, uint64_t variant)
{
    static const enum hunt_fault_kind kinds[HUNT_NUMBERS][4] = {
        {HUNT_CRASH, HUNT_CRASH, HUNT_CRASH, HUNT_CRASH},
        {HUNT_PAUSE, HUNT_PAUSE, HUNT_PAUSE, HUNT_PAUSE},
        {HUNT_LOSS, HUNT_CLOG, HUNT_SPLIT, HUNT_SLOW},
        {HUNT_RESET, HUNT_RESET, HUNT_RESET, HUNT_RESET},
        {HUNT_CORRUPT, HUNT_CORRUPT, HUNT_CORRUPT, HUNT_CORRUPT},
        {HUNT_STALE, HUNT_TWIN, HUNT_STALE, HUNT_TWIN},
        {HUNT_NO_MEMORY, HUNT_NO_MEMORY, HUNT_NO_MEMORY, HUNT_NO_MEMORY}};
    return kinds[number][variant % 4];
}

/* Half of the damage, and of the missing memory, comes soon: later bytes and allocations are often
 * not made any more. */
static void draw_sooner(struct hunt_fault *fault, uint64_t first, uint64_t variant)
{
    if (variant / 64 % 2 == 0)
        return;
    if (fault->kind == HUNT_CORRUPT || fault->kind == HUNT_NO_MEMORY) {
        fault->at = first + (fault->at - first) / 4;
        fault->skip %= fault->kind == HUNT_CORRUPT ? 100 : 4;
    }
}

/* Faults come when all ranks have met, and while the job runs: without any it takes some hundred µs
 * of virtual time. */
static void draw_fault(struct hunt_fault *fault, const struct hunt_scenario *scenario,
                       uint64_t variant, struct gyre_rng *rng)
{
    uint64_t scale = scenario->latency_ns * (3 + 4 * scenario->ops);
    uint32_t a = (uint32_t)below(rng, scenario->n);
    uint32_t b = (uint32_t)((a + 1 + below(rng, scenario->n - 1)) % scenario->n);
    *fault = (struct hunt_fault){.kind = kind_of(below(rng, HUNT_NUMBERS), variant),
                                 .at = 5 * scenario->latency_ns + below(rng, scale),
                                 .lasts = below(rng, HUNT_DEAD * 6 / 10),
                                 .a = a,
                                 .b = b,
                                 .skip = below(rng, 20000)};
    if (one_in(rng, 4)) /* longer than the dead time */
        fault->lasts = HUNT_DEAD * 2 + below(rng, HUNT_DEAD);
    if (one_in(rng, 3)) /* so short that only bytes notice */
        fault->lasts = below(rng, 20 * scenario->latency_ns);
    if (fault->kind == HUNT_NO_MEMORY)
        fault->skip = below(rng, 40);
    else if (one_in(rng, 2))
        fault->skip = below(rng, 300);
    draw_sooner(fault, 5 * scenario->latency_ns, variant);
}

/* Adds resets of the watch's connections. They are drawn last, so a seed's other faults are what
 * they would be without. */
static void draw_watch_resets(struct hunt_scenario *scenario, struct gyre_rng *rng)
{
    uint32_t count = one_in(rng, 3) ? 1 + (uint32_t)below(rng, HUNT_RESETS) : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hunt_fault *fault = &scenario->fault[scenario->faults++];
        draw_fault(fault, scenario, 0, rng);
        fault->kind = HUNT_RESET_WATCH;
        fault->a = scenario->per_node + (uint32_t)below(rng, scenario->n - scenario->per_node);
        fault->b = 0;
    }
}

/* Adds faults of links that are made at their first use, in a job that has such. They come early,
 * when most are made. */
static void draw_dial_faults(struct hunt_scenario *scenario, struct gyre_rng *rng)
{
    uint32_t count = scenario->on_demand ? (uint32_t)below(rng, HUNT_DIALS + 1) : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct hunt_fault *fault = &scenario->fault[scenario->faults++];
        draw_fault(fault, scenario, 0, rng);
        fault->kind = one_in(rng, 2) ? HUNT_RESET_DIAL : HUNT_STALE_DIAL;
        fault->at /= 1 + below(rng, 4);
    }
}

static void draw_wire(struct hunt_scenario *scenario, struct gyre_rng *rng)
{
    static const uint32_t pieces[] = {0, 0, 1, 7, 64, 1000, 5000};
    static const char *const slices[] = {"", "", "16K", "64K"};
    scenario->latency_ns = 1000 + below(rng, 50000);
    scenario->jitter_ns = one_in(rng, 3) ? 0 : below(rng, 4 * scenario->latency_ns);
    scenario->bytes_per_second = one_in(rng, 4) ? 0 : UINT64_C(1000000000) << below(rng, 4);
    scenario->coalesce_ns = one_in(rng, 4) ? 20000 : 0;
    scenario->piece_bytes = pieces[below(rng, sizeof pieces / sizeof *pieces)];
    scenario->window_bytes = one_in(rng, 3) ? 4096 + (uint32_t)below(rng, 60000) : 0;
    scenario->slice = slices[below(rng, 4)];
}

/* A quarter of the jobs take an algorithm where it has the operation; the others take what is
 * cheapest, which is often the same. */
static void draw_algorithms(struct hunt_scenario *scenario, uint64_t seed)
{
    static const char *const rules[] = {
        "ring:-1G",  "tree:-1G",    "double_tree:-1G",      "direct:-1G", "doubling:-1G",
        "bruck:-1G", "knomial:-1G", "halving_doubling:-1G", "chain:-1G",  "two_level:-1G"};
    scenario->algorithms =
        seed % 4 == 2 ? rules[seed / 4 % (sizeof rules / sizeof *rules)] : "auto";
}

/* An eighth of the jobs have keys. */
static enum gyre_seal_mode draw_security(uint64_t seed)
{
    return seed % 8 != 5 ? GYRE_SEAL_NONE : seed / 8 % 2 ? GYRE_SEAL_AUTH : GYRE_SEAL_ENCRYPT;
}

/* Half of the jobs of three nodes and more have a tree of nodes, of one, two or three floors and
 * more: a fan-out of 1 is a chain. Half of those with nodes of three ranks and more have trees of
 * ranks in them. */
static void draw_tree(struct hunt_scenario *scenario, uint64_t seed)
{
    scenario->large = scenario->per_node >= 3 && seed / 128 % 2;
    bool deep = ((scenario->n - 1) / scenario->per_node >= 2 && seed / 16 % 2) || scenario->large;
    scenario->fan_out = deep ? 1 + (uint32_t)(seed / 32 % 3) : 0;
}

/* Pieces of few bytes cost an event each: then little is sent. */
static void cut_counts(struct hunt_scenario *scenario)
{
    uint64_t most = scenario->piece_bytes == 0     ? UINT64_MAX
                    : scenario->piece_bytes < 64   ? 50
                    : scenario->piece_bytes < 1000 ? 600
                                                   : 16000;
    for (uint32_t i = 0; i < scenario->ops; i++)
        if (scenario->op[i].count > most)
            scenario->op[i].count %= most;
}

void hunt_draw(struct hunt_scenario *scenario, uint64_t seed)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, seed);
    memset(scenario, 0, sizeof *scenario);
    scenario->seed = seed;
    scenario->n = 2 + (uint32_t)(one_in(&rng, 3) ? below(&rng, 8) : below(&rng, 4));
    /* Links join nodes only. */
    scenario->per_node = 1 + (uint32_t)below(&rng, scenario->n - 1);
    draw_tree(scenario, seed);
    draw_wire(scenario, &rng);
    draw_algorithms(scenario, seed);
    scenario->security = draw_security(seed);
    scenario->ops = 1 + (uint32_t)below(&rng, HUNT_OPS);
    for (uint32_t i = 0; i < scenario->ops; i++)
        draw_op(&scenario->op[i], &rng);
    cut_counts(scenario);
    scenario->faults = one_in(&rng, 4)   ? 0
                       : one_in(&rng, 2) ? 1
                                         : 1 + (uint32_t)below(&rng, HUNT_FAULTS);
    for (uint32_t i = 0; i < scenario->faults; i++)
        draw_fault(&scenario->fault[i], scenario, gyre_mix64(HUNT_FAULTS * seed + i), &rng);
    draw_watch_resets(scenario, &rng);
    scenario->on_demand = seed % 3 == 0; /* not so those that hunt.c has named before */
    draw_dial_faults(scenario, &rng);
}

/* -- print ------------------------------------------------------------------------------------- */

static const char *const calls[] = {
    "all_reduce",         "broadcast", "reduce",  "all_gather",   "reduce_scatter",
    "all_to_all",         "gather",    "scatter", "all_gather_v", "all_to_all_v",
    "a ring of messages", "barrier",   "compute"};

const char *hunt_fault_name(enum hunt_fault_kind kind)
{
    static const char *const names[] = {
        "crash",           "pause",     "slow",  "loss", "clog",      "split",
        "reset",           "corrupt",   "stale", "twin", "no_memory", "reset of the watch",
        "reset of a dial", "stale dial"};
    return names[kind];
}

void hunt_print(const struct hunt_scenario *is, FILE *to)
{
    fprintf(to,
            "seed %llu: %u ranks, %u a %s, fan-out %u; latency %llu ns, jitter %llu ns, %llu "
            "B/s, pieces "
            "%u, window %u, coalesce %llu ns, slice \"%s\", algorithms %s, %s%s\n",
            (unsigned long long)is->seed, is->n, is->per_node, is->large ? "large node" : "node",
            is->fan_out, (unsigned long long)is->latency_ns, (unsigned long long)is->jitter_ns,
            (unsigned long long)is->bytes_per_second, is->piece_bytes, is->window_bytes,
            (unsigned long long)is->coalesce_ns, is->slice, is->algorithms,
            gyre_seal_word(is->security), is->on_demand ? ", links at their first use" : "");
    for (uint32_t i = 0; i < is->ops; i++)
        fprintf(to, "  call %u: %s, %llu of type %d, reduction %d, root %u%s%s%s%s\n", i,
                calls[is->op[i].call], (unsigned long long)is->op[i].count, (int)is->op[i].type,
                (int)is->op[i].op, is->op[i].root, is->op[i].in_place ? ", in place" : "",
                is->op[i].part ? ", on a half" : "", is->op[i].late ? ", waited for late" : "",
                is->op[i].grouped ? ", in a group" : "");
    for (uint32_t i = 0; i < is->faults; i++)
        fprintf(to, "  fault %u: %s at %llu ns for %llu ns, rank %u, other %u, skip %llu\n", i,
                hunt_fault_name(is->fault[i].kind), (unsigned long long)is->fault[i].at,
                (unsigned long long)is->fault[i].lasts, is->fault[i].a, is->fault[i].b,
                (unsigned long long)is->fault[i].skip);
}
