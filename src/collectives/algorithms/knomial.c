/* K-nomial scatter-reduce and gather: halving_doubling.c with k parts in place of two halves, hence
 * ⌈log_k n⌉ exchanges each way in place of ⌈log₂ n⌉. In each, a rank meets k-1 counterparts at once
 * and adds k sources in one pass. Here k = 4 and n = 8, with blocks a … h; a part is two ranks:
 *
 *           parts    [0 1] [2 3] [4 5] [6 7]
 *           0 ⇄ 2, 4, 6     0 gives cd to 2, ef to 4, gh to 6, and adds three that come for its ab
 *           0 ⇄ 1           two ranks are two parts: 0 keeps a, 1 keeps b, complete
 *           0 ⇄ 1           and back: both have ab
 *           0 ⇄ 2, 4, 6     all have all
 *
 * Parts differ by one rank at most; the larger come first. Position i of a part meets position i of
 * every other; where a part has none, its last one serves, so any n will do:
 *
 *           n = 7, k = 4     [0 1] [2 3] [4 5] [6]       1 ⇄ 3, 5, and hands in to 6
 *
 * A rank's sum is in OUTPUT from its first addition on and its INPUT before. Sources are added in
 * the order of ranks. Block r is completed by rank r alone, so all end bitwise equal. */
#include "collectives/algorithms/knomial.h"

#include "base/size.h"

#define RADIX 4

/* A rank in the splitting of one level: ranks low … high - 1, and the blocks of these numbers, fall
 * into parts. */
struct stage {
    uint32_t low, high, parts;
    uint32_t part, position; /* of this rank */
    bool summed;             /* it has added something at a level before */
};

static uint32_t part_start(const struct stage *g, uint32_t part)
{
    return g->low + (uint32_t)gyre_block_start(g->high - g->low, g->parts, part);
}

static uint32_t part_size(const struct stage *g, uint32_t part)
{
    return part_start(g, part + 1) - part_start(g, part);
}

/* Whom this rank hands the blocks of another part to, and gets them back from. */
static uint32_t counterpart(const struct stage *g, uint32_t part)
{
    uint32_t last = part_size(g, part) - 1;
    return part_start(g, part) + (g->position < last ? g->position : last);
}

/* Who of another part has this rank as counterpart: ranks *first … *first + count - 1. */
static uint32_t clients(const struct stage *g, uint32_t part, uint32_t *first)
{
    uint32_t size = part_size(g, part), last = part_size(g, g->part) - 1;
    *first = part_start(g, part) + g->position;
    if (g->position >= size)
        return 0;
    return g->position == last ? size - last : 1;
}

static uint32_t all_clients(const struct stage *g)
{
    uint32_t count = 0, first;
    for (uint32_t part = 0; part < g->parts; part++)
        count += part == g->part ? 0 : clients(g, part, &first);
    return count;
}

static void split(struct stage *g, uint32_t rank, uint32_t radix)
{
    g->parts = g->high - g->low < radix ? g->high - g->low : radix;
    for (g->part = 0; part_start(g, g->part + 1) <= rank;)
        g->part++;
    g->position = rank - part_start(g, g->part);
}

static struct stage stage_at(const struct gyre_slice *s, uint32_t radix, uint64_t level)
{
    struct stage g = {.high = s->n};
    split(&g, s->rank, radix);
    for (; level > 0; level--) {
        uint32_t start = part_start(&g, g.part), size = part_size(&g, g.part);
        g.summed |= all_clients(&g) > 0;
        g.low = start;
        g.high = start + size;
        split(&g, s->rank, radix);
    }
    return g;
}

/* Of the largest part, which is never empty-handed. */
static uint64_t levels(uint32_t n, uint32_t radix)
{
    uint64_t count = 0;
    for (; n > 1; n = (n + radix - 1) / radix)
        count++;
    return count;
}

static struct gyre_span blocks(const struct gyre_slice *s, const struct stage *g, uint32_t part)
{
    uint64_t start = gyre_block_start(s->count, s->n, part_start(g, part));
    uint64_t end = gyre_block_start(s->count, s->n, part_start(g, part + 1));
    return (struct gyre_span){start * s->element, (end - start) * s->element};
}

/* -- the way there: hand in, add --------------------------------------------------------------- */

static void hand_in(const struct gyre_slice *s, const struct stage *g, struct gyre_round *round)
{
    struct gyre_span own = blocks(s, g, g->part);
    uint64_t slot = 0;
    for (uint32_t part = 0; part < g->parts; part++) {
        uint32_t first, count = part == g->part ? 0 : clients(g, part, &first);
        for (uint32_t i = 0; i < count; i++)
            gyre_round_recv(round, first + i, gyre_at(GYRE_SCRATCH, slot++ * own.bytes), own.bytes);
    }
    for (uint32_t part = 0; part < g->parts; part++) {
        struct gyre_span theirs = blocks(s, g, part);
        if (part != g->part)
            gyre_round_send(round, counterpart(g, part),
                            gyre_at(g->summed ? GYRE_OUTPUT : GYRE_INPUT, theirs.at), theirs.bytes);
    }
}

static void add(const struct gyre_slice *s, const struct stage *g, struct gyre_round *round)
{
    struct gyre_span own = blocks(s, g, g->part);
    uint64_t slot = 0;
    if (all_clients(g) == 0)
        return;
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, own.at), own.bytes,
                      part_size(g, g->part) == 1 ? GYRE_STEP_FINAL : 0);
    for (uint32_t part = 0; part < g->parts; part++) {
        uint32_t first, count = part == g->part ? 0 : clients(g, part, &first);
        if (part == g->part)
            gyre_round_source(round, gyre_at(g->summed ? GYRE_OUTPUT : GYRE_INPUT, own.at));
        for (uint32_t i = 0; i < count; i++)
            gyre_round_source(round, gyre_at(GYRE_SCRATCH, slot++ * own.bytes));
    }
}

/* -- the way back ------------------------------------------------------------------------------ */

static void hand_back(const struct gyre_slice *s, const struct stage *g, struct gyre_round *round)
{
    struct gyre_span own = blocks(s, g, g->part);
    for (uint32_t part = 0; part < g->parts; part++) {
        struct gyre_span theirs = blocks(s, g, part);
        if (part != g->part)
            gyre_round_recv(round, counterpart(g, part), gyre_at(GYRE_OUTPUT, theirs.at),
                            theirs.bytes);
    }
    for (uint32_t part = 0; part < g->parts; part++) {
        uint32_t first, count = part == g->part ? 0 : clients(g, part, &first);
        for (uint32_t i = 0; i < count; i++)
            gyre_round_send(round, first + i, gyre_at(GYRE_OUTPUT, own.at), own.bytes);
    }
}

/* -- the whole --------------------------------------------------------------------------------- */

void gyre_knomial_round(const struct gyre_slice *s, uint32_t radix, uint64_t index,
                        struct gyre_round *round)
{
    uint64_t depth = levels(s->n, radix);
    bool there = index < 2 * depth;
    if (s->n == 1) {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), s->count * s->element, GYRE_STEP_FINAL);
        gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
        return;
    }
    struct stage g = stage_at(s, radix, there ? index / 2 : 3 * depth - 1 - index);
    if (!there)
        hand_back(s, &g, round);
    else if (index % 2 == 0)
        hand_in(s, &g, round);
    else
        add(s, &g, round);
}

struct gyre_extent gyre_knomial_extent(const struct gyre_slice *s, uint32_t radix)
{
    struct gyre_extent extent = {3 * levels(s->n, radix), 0, 1, 1};
    if (s->n == 1)
        extent.rounds = 1;
    for (uint64_t level = 0; level < levels(s->n, radix); level++) {
        struct stage g = stage_at(s, radix, level);
        uint32_t count = all_clients(&g), steps = count + g.parts - 1;
        uint64_t slots = count * blocks(s, &g, g.part).bytes;
        extent.scratch_bytes = slots > extent.scratch_bytes ? slots : extent.scratch_bytes;
        extent.step_max = steps > extent.step_max ? steps : extent.step_max;
        extent.source_max = count + 1 > extent.source_max ? count + 1 : extent.source_max;
    }
    return extent;
}

/* At each level all blocks of the group but those of the own part, and these once to each client.
 */
uint64_t gyre_knomial_sent_bytes(const struct gyre_slice *s, uint32_t radix)
{
    uint64_t bytes = 0;
    for (uint64_t level = 0; level < levels(s->n, radix); level++) {
        struct stage g = stage_at(s, radix, level);
        for (uint32_t part = 0; part < g.parts; part++)
            bytes += part == g.part ? all_clients(&g) * blocks(s, &g, part).bytes
                                    : blocks(s, &g, part).bytes;
    }
    return bytes;
}

static struct gyre_extent knomial_extent(const struct gyre_slice *s)
{
    return gyre_knomial_extent(s, RADIX);
}

static void knomial_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    gyre_knomial_round(s, RADIX, index, round);
}

static uint64_t knomial_sent_bytes(const struct gyre_slice *s)
{
    return gyre_knomial_sent_bytes(s, RADIX);
}

const struct gyre_algorithm gyre_algorithm_knomial = {
    .name = "knomial",
    .summary = "groups of four: log4(n) exchanges with three peers each way, the ring's bytes",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE,
    .extent = knomial_extent,
    .round = knomial_round,
    .sent_bytes = knomial_sent_bytes,
};
