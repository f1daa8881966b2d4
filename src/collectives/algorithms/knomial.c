/* K-nomial scatter-reduce and gather: halving_doubling.c with k parts in place of two halves, hence
 * ⌈log_k n⌉ exchanges each way in place of ⌈log₂ n⌉. In each exchange a rank meets k-1 counterparts
 * at once and adds k sources in one pass. Here k = 4 and n = 8, with blocks a … h; a part is two
 * ranks:
 *
 *           parts    [0 1] [2 3] [4 5] [6 7]
 *           0 ⇄ 2, 4, 6     0 gives cd to 2, ef to 4, gh to 6, and adds three that come for its ab
 *           0 ⇄ 1           two ranks are two parts: 0 keeps a, 1 keeps b, complete
 *           0 ⇄ 1           and back: both have ab
 *           0 ⇄ 2, 4, 6     all have all
 *
 * Parts differ by one rank at most; the larger come first. Position i of a part meets position i of
 * every other part. Where a part has no position i, its last rank serves, so any n will do:
 *
 *           n = 7, k = 4     [0 1] [2 3] [4 5] [6]       1 ⇄ 3, 5, and gives to 6
 *
 * A rank's sum is in OUTPUT from its first addition on, before that its INPUT is its sum. Sources
 * are added in the order of ranks. Rank r alone completes block r, so all ranks end bitwise equal.
 *
 * The way there alone is reduce-scatter, the way back all-gather. Their n blocks lie apart, and a
 * message has several blocks. So blocks are packed into SCRATCH first, or unpacked from there, 32
 * to a round.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/algorithms/knomial.h"

#include "base/size.h"

#define RADIX            4
#define COPIES_PER_ROUND 32

/* A rank at one level of the splitting: ranks low … high - 1, and the blocks of these numbers, fall
 * into parts. */
struct stage {
    uint32_t low, high, parts;
    uint32_t part, position; /* of this rank */
    bool summed;             /* this rank has added something at a level before */
};

static uint32_t part_start(const struct stage *g, uint32_t part)
{
    return g->low + (uint32_t)gyre_block_start(g->high - g->low, g->parts, part);
}

static uint32_t part_size(const struct stage *g, uint32_t part)
{
    return part_start(g, part + 1) - part_start(g, part);
}

/* The rank of another part that gets the other part's blocks from this rank, and later gives them
 * back. */
static uint32_t counterpart(const struct stage *g, uint32_t part)
{
    uint32_t last = part_size(g, part) - 1;
    return part_start(g, part) + (g->position < last ? g->position : last);
}

/* The ranks of another part that have this rank as counterpart: *first … *first + count - 1. */
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

/* The number of levels, which follows the largest part. */
static uint64_t levels(uint32_t n, uint32_t radix)
{
    uint64_t count = 0;
    for (; n > 1; n = (n + radix - 1) / radix)
        count++;
    return count;
}

/* -- places ------------------------------------------------------------------------------------ */

static bool packs(const struct gyre_slice *s)
{
    return s->verb != GYRE_VERB_ALL_REDUCE;
}

/* Where a block begins, in the data or in the packed blocks. */
static uint64_t block_start(const struct gyre_slice *s, uint32_t block)
{
    return (packs(s) ? block * s->count : gyre_block_start(s->count, s->n, block)) * s->element;
}

static struct gyre_span blocks(const struct gyre_slice *s, const struct stage *g, uint32_t part)
{
    uint64_t start = block_start(s, part_start(g, part));
    return (struct gyre_span){start, block_start(s, part_start(g, part + 1)) - start};
}

/* This rank's sum, or its INPUT, at this stage. */
static struct gyre_place terms(const struct gyre_slice *s, const struct stage *g, uint64_t at)
{
    return gyre_at(packs(s) ? GYRE_SCRATCH : g->summed ? GYRE_OUTPUT : GYRE_INPUT, at);
}

static struct gyre_place results(const struct gyre_slice *s, uint64_t at)
{
    return gyre_at(packs(s) ? GYRE_SCRATCH : GYRE_OUTPUT, at);
}

/* The place where a counterpart's blocks are received, behind the packed blocks. */
static struct gyre_place knomial_slot(const struct gyre_slice *s, uint64_t index, uint64_t bytes)
{
    return gyre_at(GYRE_SCRATCH, (packs(s) ? block_start(s, s->n) : 0) + index * bytes);
}

/* -- the way there: hand in, add --------------------------------------------------------------- */

static void knomial_hand_in(const struct gyre_slice *s, const struct stage *g,
                            struct gyre_round *round)
{
    struct gyre_span own = blocks(s, g, g->part);
    uint64_t taken = 0;
    for (uint32_t part = 0; part < g->parts; part++) {
        uint32_t first, count = part == g->part ? 0 : clients(g, part, &first);
        for (uint32_t i = 0; i < count; i++)
            gyre_round_recv(round, first + i, knomial_slot(s, taken++, own.bytes), own.bytes);
    }
    for (uint32_t part = 0; part < g->parts; part++) {
        struct gyre_span theirs = blocks(s, g, part);
        if (part != g->part)
            gyre_round_send(round, counterpart(g, part), terms(s, g, theirs.at), theirs.bytes);
    }
}

static void reduce_stage(const struct gyre_slice *s, const struct stage *g,
                         struct gyre_round *round)
{
    struct gyre_span own = blocks(s, g, g->part);
    uint64_t taken = 0;
    if (all_clients(g) == 0)
        return;
    bool last = part_size(g, g->part) == 1, whole = last && s->verb == GYRE_VERB_REDUCE_SCATTER;
    gyre_round_reduce(round, whole ? gyre_at(GYRE_OUTPUT, 0) : results(s, own.at), own.bytes,
                      last ? GYRE_STEP_FINAL : 0);
    for (uint32_t part = 0; part < g->parts; part++) {
        uint32_t first, count = part == g->part ? 0 : clients(g, part, &first);
        if (part == g->part)
            gyre_round_source(round, terms(s, g, own.at));
        for (uint32_t i = 0; i < count; i++)
            gyre_round_source(round, knomial_slot(s, taken++, own.bytes));
    }
}

/* -- the way back ------------------------------------------------------------------------------ */

static void knomial_hand_back(const struct gyre_slice *s, const struct stage *g,
                              struct gyre_round *round)
{
    struct gyre_span own = blocks(s, g, g->part);
    for (uint32_t part = 0; part < g->parts; part++) {
        struct gyre_span theirs = blocks(s, g, part);
        if (part != g->part)
            gyre_round_recv(round, counterpart(g, part), results(s, theirs.at), theirs.bytes);
    }
    for (uint32_t part = 0; part < g->parts; part++) {
        uint32_t first, count = part == g->part ? 0 : clients(g, part, &first);
        for (uint32_t i = 0; i < count; i++)
            gyre_round_send(round, first + i, results(s, own.at), own.bytes);
    }
}

/* -- packing ----------------------------------------------------------------------------------- */

static uint64_t knomial_packing_rounds(const struct gyre_slice *s)
{
    return (s->n + (uint64_t)COPIES_PER_ROUND - 1) / COPIES_PER_ROUND;
}

static uint32_t packed_until(const struct gyre_slice *s, uint64_t index)
{
    uint64_t end = (index + 1) * COPIES_PER_ROUND;
    return end < s->n ? (uint32_t)end : s->n;
}

static void knomial_pack(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t bytes = s->count * s->element;
    uint32_t from = (uint32_t)index * COPIES_PER_ROUND, to = packed_until(s, index);
    if (s->verb == GYRE_VERB_ALL_GATHER)
        gyre_round_copy(round, results(s, block_start(s, s->rank)), gyre_at(GYRE_INPUT, 0), bytes);
    for (uint32_t block = from; s->verb == GYRE_VERB_REDUCE_SCATTER && block < to; block++)
        gyre_round_copy(round, results(s, block_start(s, block)),
                        gyre_at(GYRE_INPUT, gyre_slice_in_block(s, block).at), bytes);
}

static void knomial_unpack(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint32_t from = (uint32_t)index * COPIES_PER_ROUND, to = packed_until(s, index);
    for (uint32_t block = from; block < to; block++)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, gyre_slice_out_block(s, block).at),
                        results(s, block_start(s, block)), s->count * s->element);
}

/* -- the whole --------------------------------------------------------------------------------- */

/* The rounds of each phase. */
struct phases {
    uint64_t pack, there, back, unpack;
};

static struct phases phases_of(const struct gyre_slice *s, uint32_t radix)
{
    uint64_t depth = levels(s->n, radix);
    if (s->verb == GYRE_VERB_REDUCE_SCATTER)
        return (struct phases){.pack = knomial_packing_rounds(s), .there = 2 * depth};
    if (s->verb == GYRE_VERB_ALL_GATHER)
        return (struct phases){.pack = 1, .back = depth, .unpack = knomial_packing_rounds(s)};
    return (struct phases){.there = 2 * depth, .back = depth};
}

static bool knomial_alone(const struct gyre_slice *s)
{
    return s->n == 1 && s->verb != GYRE_VERB_ALL_GATHER;
}

void gyre_knomial_round(const struct gyre_slice *s, uint32_t radix, uint64_t index,
                        struct gyre_round *round)
{
    struct phases phases = phases_of(s, radix);
    uint64_t there = phases.pack, back = there + phases.there, end = back + phases.back;
    if (knomial_alone(s)) {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), s->count * s->element, GYRE_STEP_FINAL);
        gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
        return;
    }
    if (index < there) {
        knomial_pack(s, index, round);
        return;
    }
    if (index >= end) {
        knomial_unpack(s, index - end, round);
        return;
    }
    struct stage g = stage_at(s, radix, index < back ? (index - there) / 2 : end - 1 - index);
    if (index >= back)
        knomial_hand_back(s, &g, round);
    else if ((index - there) % 2 == 0)
        knomial_hand_in(s, &g, round);
    else
        reduce_stage(s, &g, round);
}

static uint32_t larger_count(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

struct gyre_extent gyre_knomial_extent(const struct gyre_slice *s, uint32_t radix)
{
    struct phases phases = phases_of(s, radix);
    uint32_t copies = phases.unpack > 0 || phases.pack > 0 ? packed_until(s, 0) : 1;
    struct gyre_extent extent = {phases.pack + phases.there + phases.back + phases.unpack, 0,
                                 copies, copies};
    uint64_t slots = 0;
    if (knomial_alone(s))
        return (struct gyre_extent){1, 0, 1, 1};
    for (uint64_t level = 0; level < levels(s->n, radix); level++) {
        struct stage g = stage_at(s, radix, level);
        uint32_t count = all_clients(&g);
        uint64_t bytes = phases.there ? count * blocks(s, &g, g.part).bytes : 0;
        slots = bytes > slots ? bytes : slots;
        extent.step_max = larger_count(extent.step_max, count + g.parts - 1);
        extent.source_max = larger_count(extent.source_max, phases.there ? count + 1 : 1);
    }
    extent.scratch_bytes = (packs(s) ? block_start(s, s->n) : 0) + slots;
    return extent;
}

/* There: at each level all blocks of the group but those of the own part. Back: the own part's
 * blocks once to each client. */
uint64_t gyre_knomial_sent_bytes(const struct gyre_slice *s, uint32_t radix)
{
    struct phases phases = phases_of(s, radix);
    uint64_t there = 0, back = 0;
    for (uint64_t level = 0; level < levels(s->n, radix); level++) {
        struct stage g = stage_at(s, radix, level);
        back += all_clients(&g) * blocks(s, &g, g.part).bytes;
        for (uint32_t part = 0; part < g.parts; part++)
            there += part == g.part ? 0 : blocks(s, &g, part).bytes;
    }
    return (phases.there ? there : 0) + (phases.back ? back : 0);
}

bool gyre_knomial_suits(const struct gyre_slice *s)
{
    return !s->in.count && !s->out.count;
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
    .verbs = GYRE_KNOMIAL_VERBS,
    .suits = gyre_knomial_suits,
    .extent = knomial_extent,
    .round = knomial_round,
    .sent_bytes = knomial_sent_bytes,
};
