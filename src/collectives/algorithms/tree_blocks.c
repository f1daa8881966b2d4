/* Gather and scatter along the binomial tree (tree.c): one message for each edge, with the blocks
 * of the whole subtree at its right end.
 *
 * A subtree's numbers are consecutive, so its blocks lie side by side in the SCRATCH of a rank that
 * passes them on. At the root the blocks have their places in a larger buffer, in the order of
 * ranks. So the root unpacks (gather) or packs (scatter) them, 32 to a round:
 *
 *     gather, n = 6       3: [3] ─▶ 2: [2 3] ─▶ 0: [1 2 3 4 5] ─▶ OUTPUT
 *                                   1: [1] ───▶ 0
 *                         5: [5] ─▶ 4: [4 5] ─▶ 0
 *
 * Scatter is the same backwards. A leaf sends from INPUT and receives into OUTPUT. The root copies
 * its own block. An inner rank has its own block first in SCRATCH.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/algorithms/tree_blocks.h"

#include "collectives/algorithms/binomial.h"

#define COPIES_PER_ROUND 32

static uint64_t tree_packing_rounds(const struct gyre_slice *s)
{
    return (s->n - 1 + (uint64_t)COPIES_PER_ROUND - 1) / COPIES_PER_ROUND;
}

/* The blocks of v's subtree, v's own included. */
static uint32_t subtree(const struct gyre_slice *s, uint32_t v)
{
    uint32_t whole = v & (~v + 1), left = s->n - v;
    return v == 0 || whole > left ? left : whole;
}

/* Bytes of the blocks of numbers from … to - 1. */
static uint64_t packed(const struct gyre_slice *s, uint64_t from, uint64_t to)
{
    uint64_t bytes = 0;
    if (!s->in.count && !s->out.count)
        return (to - from) * s->count * s->element;
    for (uint64_t v = from; v < to; v++)
        bytes += gyre_slice_share(s, gyre_tree_rank(s, v)).bytes;
    return bytes;
}

/* The place of the block of number `u` in v's SCRATCH. The root's SCRATCH lacks its own block. */
static struct gyre_place held(const struct gyre_slice *s, uint32_t v, uint64_t u)
{
    return gyre_at(GYRE_SCRATCH, packed(s, v == 0 ? 1 : v, u));
}

static uint64_t subtree_bytes(const struct gyre_slice *s, uint64_t v)
{
    return packed(s, v, v + subtree(s, (uint32_t)v));
}

/* -- the root's buffer ------------------------------------------------------------------------- */

static void copy_own(const struct gyre_slice *s, struct gyre_round *round)
{
    struct gyre_span own = gyre_slice_share(s, s->rank);
    bool gather = s->verb == GYRE_VERB_GATHER;
    gyre_round_copy(round, gyre_at(GYRE_OUTPUT, gather ? own.at : 0),
                    gyre_at(GYRE_INPUT, gather ? 0 : own.at), own.bytes);
}

/* Copies the blocks of 32 numbers between the root's SCRATCH and their places in its buffer. */
static void tree_pack(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t u = 1 + index * COPIES_PER_ROUND, end = u + COPIES_PER_ROUND;
    struct gyre_place at = held(s, 0, u);
    for (; s->rank == s->root && u < end && u < s->n; u++) {
        struct gyre_span block = gyre_slice_share(s, gyre_tree_rank(s, u));
        if (s->verb == GYRE_VERB_GATHER)
            gyre_round_copy(round, gyre_at(GYRE_OUTPUT, block.at), at, block.bytes);
        else
            gyre_round_copy(round, at, gyre_at(GYRE_INPUT, block.at), block.bytes);
        at.offset += block.bytes;
    }
}

/* -- along the edges --------------------------------------------------------------------------- */

static void gather_step(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t weight = UINT64_C(1) << step;
    uint32_t v = gyre_tree_number(s);
    bool inner = v != 0 && gyre_tree_has_child(s, v);
    if (gyre_tree_is_parent(s, v, weight))
        gyre_round_recv(round, gyre_tree_rank(s, v + weight), held(s, v, v + weight),
                        subtree_bytes(s, v + weight));
    if (gyre_tree_is_child(v, weight))
        gyre_round_send(round, gyre_tree_rank(s, v - weight),
                        gyre_at(inner ? GYRE_SCRATCH : GYRE_INPUT, 0), subtree_bytes(s, v));
    if (step == 0 && inner)
        gyre_round_copy(round, gyre_at(GYRE_SCRATCH, 0), gyre_at(GYRE_INPUT, 0),
                        packed(s, v, v + UINT64_C(1)));
}

/* An inner rank copies its own block to OUTPUT while it begins to pass the others on. */
static void scatter_step(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t weight = UINT64_C(1) << (gyre_tree_depth(s->n) - 1 - step);
    uint32_t v = gyre_tree_number(s);
    if (gyre_tree_is_child(v, weight))
        gyre_round_recv(round, gyre_tree_rank(s, v - weight),
                        gyre_at(gyre_tree_has_child(s, v) ? GYRE_SCRATCH : GYRE_OUTPUT, 0),
                        subtree_bytes(s, v));
    if (gyre_tree_is_parent(s, v, weight))
        gyre_round_send(round, gyre_tree_rank(s, v + weight), held(s, v, v + weight),
                        subtree_bytes(s, v + weight));
    if (gyre_tree_has_child(s, v) && gyre_tree_is_child(v, 2 * weight))
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_SCRATCH, 0),
                        packed(s, v, v + UINT64_C(1)));
}

/* -- the parts of tree's entry ----------------------------------------------------------------- */

void gyre_tree_blocks_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t steps = gyre_tree_depth(s->n), packing = tree_packing_rounds(s);
    if (s->verb == GYRE_VERB_GATHER)
        index < steps ? gather_step(s, index, round) : tree_pack(s, index - steps, round);
    else if (index < packing)
        tree_pack(s, index, round);
    else if (s->n > 1)
        scatter_step(s, index - packing, round);
    if (index == 0 && s->rank == s->root)
        copy_own(s, round);
}

struct gyre_extent gyre_tree_blocks_extent(const struct gyre_slice *s)
{
    uint32_t v = gyre_tree_number(s);
    uint64_t rounds = gyre_tree_depth(s->n) + tree_packing_rounds(s), scratch = 0;
    if (gyre_tree_has_child(s, v))
        scratch = v == 0 ? packed(s, 1, s->n) : subtree_bytes(s, v);
    return (struct gyre_extent){s->n == 1 ? 1 : rounds, scratch, COPIES_PER_ROUND + 1,
                                COPIES_PER_ROUND + 1};
}

uint64_t gyre_tree_blocks_sent_bytes(const struct gyre_slice *s)
{
    uint32_t v = gyre_tree_number(s);
    if (s->verb == GYRE_VERB_GATHER)
        return v == 0 ? 0 : subtree_bytes(s, v);
    return packed(s, v + UINT64_C(1), v + (uint64_t)subtree(s, v));
}
