/* The binomial tree: ceil(log2 n) steps, for any n and any root. For small data and many ranks.
 *
 * Ranks are numbered in the order of nodes (order.h), from the root, which is 0. An edge of weight
 * m joins v and v + m where v is a multiple of 2m. The tree of 8 ranks has the edges
 *
 *        0 ─1─ 1      2 ─1─ 3      4 ─1─ 5      6 ─1─ 7
 *        0 ────2───── 2            4 ────2───── 6
 *        0 ───────────4─────────── 4
 *
 * and other trees have those edges whose two ends exist. Broadcast walks the weights down (… 4, 2,
 * 1), each edge from left to right: the number of ranks with data doubles each time. Reduce walks
 * the weights up (1, 2, 4 …), from right to left, and adds at the left end. All-reduce is a reduce
 * to rank 0 and a broadcast from there. Gather and scatter move the blocks of a subtree along the
 * same edges: tree_blocks.c.
 *
 * A subtree always holds consecutive numbers, so the sum is bracketed ((0+1)+(2+3))+…: the same on
 * every rank and in every run, but not the left-to-right sum of `direct`. A rank keeps its partial
 * sum in OUTPUT; a rank without OUTPUT keeps its sum in SCRATCH, behind what is received. Until its
 * first addition a rank's contribution is its INPUT; a leaf never adds.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/algorithms/binomial.h"
#include "collectives/algorithms/tree_blocks.h"

static uint64_t tree_all_bytes(const struct gyre_slice *s)
{
    return s->count * s->element;
}

static void tree_down(const struct gyre_slice *s, uint64_t step, enum gyre_buffer at_root,
                      struct gyre_round *round)
{
    uint64_t weight = UINT64_C(1) << (gyre_tree_depth(s->n) - 1 - step);
    uint32_t v = gyre_tree_number(s);
    if (gyre_tree_is_child(v, weight))
        gyre_round_recv(round, gyre_tree_rank(s, v - weight), gyre_at(GYRE_OUTPUT, 0),
                        tree_all_bytes(s));
    if (gyre_tree_is_parent(s, v, weight))
        gyre_round_send(round, gyre_tree_rank(s, v + weight),
                        gyre_at(v == 0 ? at_root : GYRE_OUTPUT, 0), tree_all_bytes(s));
}

static struct gyre_place partial(const struct gyre_slice *s)
{
    if (gyre_slice_blocks(s, GYRE_OUTPUT) > 0)
        return gyre_at(GYRE_OUTPUT, 0);
    return gyre_at(GYRE_SCRATCH, tree_all_bytes(s));
}

static void tree_up(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t weight = UINT64_C(1) << step;
    uint32_t v = gyre_tree_number(s);
    if (gyre_tree_is_parent(s, v, weight))
        gyre_round_recv(round, gyre_tree_rank(s, v + weight), gyre_at(GYRE_SCRATCH, 0),
                        tree_all_bytes(s));
    if (gyre_tree_is_child(v, weight))
        gyre_round_send(round, gyre_tree_rank(s, v - weight),
                        gyre_tree_has_child(s, v) ? partial(s) : gyre_at(GYRE_INPUT, 0),
                        tree_all_bytes(s));
}

static void add_subtree_sums(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint32_t v = gyre_tree_number(s);
    if (!gyre_tree_is_parent(s, v, UINT64_C(1) << step))
        return;
    gyre_round_reduce(round, partial(s), tree_all_bytes(s),
                      v == 0 && step + 1 == gyre_tree_depth(s->n) ? GYRE_STEP_FINAL : 0);
    gyre_round_source(round, step == 0 ? gyre_at(GYRE_INPUT, 0) : partial(s));
    gyre_round_source(round, gyre_at(GYRE_SCRATCH, 0));
}

static void tree_reduce(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t summed = 2 * (uint64_t)gyre_tree_depth(s->n); /* the first round of the broadcast */
    if (s->n == 1) {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), tree_all_bytes(s), GYRE_STEP_FINAL);
        gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
    } else if (index >= summed) {
        tree_down(s, index - summed, GYRE_OUTPUT, round);
    } else if (index % 2 == 0) {
        tree_up(s, index / 2, round);
    } else {
        add_subtree_sums(s, index / 2, round);
    }
}

static void tree_broadcast(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (s->n > 1)
        tree_down(s, index, GYRE_INPUT, round);
    if (index == 0 && s->rank == s->root)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_INPUT, 0), tree_all_bytes(s));
}

static bool moves_blocks(const struct gyre_slice *s)
{
    return s->verb == GYRE_VERB_GATHER || s->verb == GYRE_VERB_SCATTER;
}

static void tree_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (moves_blocks(s))
        gyre_tree_blocks_round(s, index, round);
    else if (s->verb == GYRE_VERB_BROADCAST)
        tree_broadcast(s, index, round);
    else
        tree_reduce(s, index, round);
}

static struct gyre_extent tree_extent(const struct gyre_slice *s)
{
    uint64_t steps = gyre_tree_depth(s->n), walks = s->verb == GYRE_VERB_ALL_REDUCE ? 3 : 2;
    uint32_t v = gyre_tree_number(s);
    uint64_t sums = gyre_slice_blocks(s, GYRE_OUTPUT) > 0 ? 1 : 2;
    if (moves_blocks(s))
        return gyre_tree_blocks_extent(s);
    if (s->verb == GYRE_VERB_BROADCAST)
        return (struct gyre_extent){s->n == 1 ? 1 : steps, 0, 2, 1};
    return (struct gyre_extent){s->n == 1 ? 1 : walks * steps,
                                gyre_tree_has_child(s, v) ? sums * tree_all_bytes(s) : 0, 1, 2};
}

/* One message down each edge to the right, and one up the edge to the left. */
static uint64_t tree_sent_bytes(const struct gyre_slice *s)
{
    uint32_t v = gyre_tree_number(s);
    uint64_t messages = gyre_verb_reduces(s->verb) && v != 0;
    if (moves_blocks(s))
        return gyre_tree_blocks_sent_bytes(s);
    for (uint64_t weight = 1; s->verb != GYRE_VERB_REDUCE && weight < s->n; weight *= 2)
        messages += gyre_tree_is_parent(s, v, weight);
    return messages * tree_all_bytes(s);
}

const struct gyre_algorithm gyre_algorithm_tree = {
    .name = "tree",
    .summary = "binomial tree: log2(n) steps for small data; all-reduce goes up and down",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_BROADCAST | 1u << GYRE_VERB_REDUCE |
             1u << GYRE_VERB_GATHER | 1u << GYRE_VERB_SCATTER,
    .extent = tree_extent,
    .round = tree_round,
    .sent_bytes = tree_sent_bytes,
};
