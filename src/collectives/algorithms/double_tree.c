/* Two binary trees, each for half of the data. In one binary tree the inner ranks do all the work
 * while the leaves, half of all ranks, only send up or receive what comes down. So there are two
 * trees, and a rank that is inner in one is a leaf in the other. Root 0 stands above both; here 8
 * ranks:
 *
 *        first half      0                    second half      0
 *                        │                                     │
 *                ┌───────4──────┐                      ┌───────3──────┐
 *            ┌───2───┐       ┌──6──┐               ┌───1───┐       ┌──5──┐
 *            1       3       5     7               7       2       4     6
 *
 * The first tree has its nodes in the order of their numbers: the lowest set bit is the height, odd
 * numbers are leaves. The second tree is the first with every rank moved by one place, or mirrored
 * where an even number of ranks is below the root. So even and odd numbers change places.
 *
 * Each half is cut into segments that follow each other. A node d levels below the root, of L
 * levels, sends segment k up in step L-d + k. Its children's segments came in the step before and
 * have been added. The root completes segment k and sends it down in step L + k, and so on level by
 * level:
 *
 *        step      exchange      segments up            one round
 *                  reduce        own and children's     one round, and segments down
 *
 * When no segment goes up any more, a step is one round. Reduce stops at the root; broadcast has
 * the way down only. With layouts, numbers are places in the order of nodes: neighbours in a tree
 * are mostly neighbours there.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/algorithms/order.h"
#include "collectives/schedule/schedule.h"

#define SEGMENT_BYTES (UINT64_C(32) << 10) /* of a segment, at least */
#define SEGMENTS_MAX  8                    /* of a half, at most */

#define NOBODY UINT32_MAX

/* Steps and sources of a round, at most: 3 steps each way in one tree and 1 in the other; a sum
 * needs 4 sources. */
#define STEPS_MAX 8

/* This rank in one of the trees, by numbers: 0 is the root, 1 … n-1 are below. */
struct node {
    uint32_t half; /* the half of the data, which is also the tree */
    uint32_t depth;
    uint32_t parent, child[2]; /* ranks, or NOBODY */
};

static uint32_t trees(const struct gyre_slice *s)
{
    return s->n > 2 ? 2 : 1; /* with two ranks both trees would be one edge */
}

/* -- numbers ----------------------------------------------------------------------------------- */

static uint32_t lowest_bit(uint32_t number)
{
    return number & -number;
}

/* Levels below the root. */
static uint32_t height(const struct gyre_slice *s)
{
    return s->n == 1 ? 0 : 32 - (uint32_t)__builtin_clz(s->n - 1);
}

/* In a tree of `below` nodes under the root: the parent of `number`, and its children to the left
 * and right. */
static uint32_t above(uint32_t number, uint32_t below)
{
    uint32_t rest = number ^ lowest_bit(number), up = rest | lowest_bit(number) << 1;
    return up > below ? rest : up;
}

static uint32_t left_child(uint32_t number)
{
    return number % 2 == 0 && number > 0 ? number - lowest_bit(number) / 2 : NOBODY;
}

static uint32_t right_child(uint32_t number, uint32_t below)
{
    uint32_t step = lowest_bit(number) / 2;
    while (step > 0 && number + step > below)
        step /= 2;
    return step > 0 ? number + step : NOBODY;
}

static uint32_t top(const struct gyre_slice *s)
{
    return s->n > 1 ? UINT32_C(1) << (height(s) - 1) : NOBODY;
}

/* A rank's number in tree `half`, and the rank of a number. */
static uint32_t number_of(const struct gyre_slice *s, uint32_t half, uint32_t rank)
{
    uint32_t below = s->n - 1, root = gyre_order_place(s, s->root);
    uint32_t first = (uint32_t)((gyre_order_place(s, rank) + (uint64_t)s->n - root) % s->n);
    if (half == 0 || first == 0)
        return first;
    return below % 2 == 0 ? below + 1 - first : first % below + 1;
}

static uint32_t rank_of(const struct gyre_slice *s, uint32_t half, uint32_t number)
{
    uint32_t below = s->n - 1, first = number;
    if (number == NOBODY)
        return NOBODY;
    if (half == 1 && number > 0)
        first = below % 2 == 0 ? below + 1 - number : (number + below - 2) % below + 1;
    return gyre_order_rank(s, (uint32_t)((first + (uint64_t)gyre_order_place(s, s->root)) % s->n));
}

static struct node node_in(const struct gyre_slice *s, uint32_t half)
{
    uint32_t number = number_of(s, half, s->rank), below = s->n - 1;
    struct node node = {.half = half, .parent = NOBODY, .child = {NOBODY, NOBODY}};
    for (uint32_t up = number; up > 0; up = above(up, below))
        node.depth++;
    if (number == 0) {
        node.child[0] = rank_of(s, half, top(s));
        return node;
    }
    node.parent = rank_of(s, half, above(number, below));
    node.child[0] = rank_of(s, half, left_child(number));
    node.child[1] = rank_of(s, half, right_child(number, below));
    return node;
}

/* -- pieces ------------------------------------------------------------------------------------ */

static struct gyre_span half_of(const struct gyre_slice *s, uint32_t half)
{
    return gyre_slice_cut(s, gyre_slice_whole(s), trees(s), half);
}

static uint64_t double_tree_segments(const struct gyre_slice *s)
{
    uint64_t whole = half_of(s, 0).bytes / SEGMENT_BYTES;
    return whole < 1 ? 1 : whole > SEGMENTS_MAX ? SEGMENTS_MAX : whole;
}

static struct gyre_span double_tree_segment(const struct gyre_slice *s, uint32_t half,
                                            uint64_t index)
{
    return gyre_slice_cut(s, half_of(s, half), double_tree_segments(s), index);
}

static bool adds(const struct node *node)
{
    return node->child[0] != NOBODY;
}

/* The place where child i's segment is received. A sum that may not stay in OUTPUT waits behind the
 * children's segments. The root has one child in each tree and a place for each. */
static struct gyre_place double_tree_slot(const struct gyre_slice *s, const struct node *node,
                                          uint32_t i)
{
    uint32_t before = node->depth == 0 ? 0 : i;
    uint64_t root_first =
        node->depth == 0 && node->half == 1 ? double_tree_segment(s, 0, 0).bytes : 0;
    return gyre_at(GYRE_SCRATCH, root_first + before * double_tree_segment(s, node->half, 0).bytes);
}

static uint32_t children(const struct node *node)
{
    return (node->child[0] != NOBODY) + (node->child[1] != NOBODY);
}

static struct gyre_place double_tree_sum(const struct gyre_slice *s, const struct node *node,
                                         uint64_t index)
{
    if (s->verb == GYRE_VERB_REDUCE && node->depth > 0)
        return double_tree_slot(s, node, children(node));
    return gyre_at(GYRE_OUTPUT, double_tree_segment(s, node->half, index).at);
}

/* -- rounds ------------------------------------------------------------------------------------ */

static void double_tree_up(const struct gyre_slice *s, const struct node *node, uint64_t step,
                           struct gyre_round *round)
{
    /* Below 0 the number wraps: no such segment. */
    uint64_t out = step - (height(s) - node->depth), in = out + 1;
    struct gyre_span sent = double_tree_segment(s, node->half, out);
    for (uint32_t i = 0; in < double_tree_segments(s) && i < children(node); i++)
        gyre_round_recv(round, node->child[i], double_tree_slot(s, node, i),
                        double_tree_segment(s, node->half, in).bytes);
    if (node->parent != NOBODY && out < double_tree_segments(s))
        gyre_round_send(round, node->parent,
                        adds(node) ? double_tree_sum(s, node, out) : gyre_at(GYRE_INPUT, sent.at),
                        sent.bytes);
}

static void add_child_sums(const struct gyre_slice *s, const struct node *node, uint64_t step,
                           struct gyre_round *round)
{
    uint64_t in = step - (height(s) - node->depth) + 1;
    if (!adds(node) || in >= double_tree_segments(s))
        return;
    struct gyre_span own = double_tree_segment(s, node->half, in);
    gyre_round_reduce(round, double_tree_sum(s, node, in), own.bytes,
                      node->depth == 0 ? GYRE_STEP_FINAL : 0);
    gyre_round_source(round, gyre_at(GYRE_INPUT, own.at));
    for (uint32_t i = 0; i < children(node); i++)
        gyre_round_source(round, double_tree_slot(s, node, i));
}

/* The way down: the root sends its first segment in step 0. */
static void double_tree_down(const struct gyre_slice *s, const struct node *node, uint64_t step,
                             struct gyre_round *round)
{
    bool from_input = s->verb == GYRE_VERB_BROADCAST && node->depth == 0;
    uint64_t out = step - node->depth, in = out + 1;
    struct gyre_span sent = double_tree_segment(s, node->half, out),
                     got = double_tree_segment(s, node->half, in);
    if (node->parent != NOBODY && in < double_tree_segments(s))
        gyre_round_recv(round, node->parent, gyre_at(GYRE_OUTPUT, got.at), got.bytes);
    for (uint32_t i = 0; out < double_tree_segments(s) && i < children(node); i++)
        gyre_round_send(round, node->child[i],
                        gyre_at(from_input ? GYRE_INPUT : GYRE_OUTPUT, sent.at), sent.bytes);
}

/* The steps with a segment on the way up. */
static uint64_t double_tree_steps_up(const struct gyre_slice *s)
{
    return height(s) + double_tree_segments(s) - 1;
}

static void sum_round(const struct gyre_slice *s, const struct node *node, uint64_t index,
                      struct gyre_round *round)
{
    uint64_t both = 2 * double_tree_steps_up(s), step = index < both ? index / 2 : index - both / 2;
    if (index < both && index % 2 == 0) {
        double_tree_up(s, node, step, round);
        return;
    }
    if (s->verb == GYRE_VERB_ALL_REDUCE)
        double_tree_down(s, node, step - height(s), round);
    add_child_sums(s, node, step, round);
}

static void double_tree_alone(const struct gyre_slice *s, struct gyre_round *round)
{
    if (s->verb == GYRE_VERB_BROADCAST)
        return;
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), half_of(s, 0).bytes, GYRE_STEP_FINAL);
    gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
}

static void double_tree_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    bool copies = s->verb == GYRE_VERB_BROADCAST && s->rank == s->root && index == 0;
    for (uint32_t half = 0; s->n > 1 && half < trees(s); half++) {
        struct node node = node_in(s, half);
        s->verb == GYRE_VERB_BROADCAST ? double_tree_down(s, &node, index, round)
                                       : sum_round(s, &node, index, round);
    }
    if (s->n == 1)
        double_tree_alone(s, round);
    if (copies)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_INPUT, 0),
                        s->count * s->element);
}

/* -- the entry --------------------------------------------------------------------------------- */

static uint64_t double_tree_scratch_bytes(const struct gyre_slice *s)
{
    uint64_t bytes = 0;
    for (uint32_t half = 0; s->verb != GYRE_VERB_BROADCAST && half < trees(s); half++) {
        struct node node = node_in(s, half);
        uint32_t sums = s->verb == GYRE_VERB_REDUCE && node.depth > 0 && adds(&node);
        bytes += (children(&node) + sums) * double_tree_segment(s, half, 0).bytes;
    }
    return bytes;
}

static uint64_t rounds(const struct gyre_slice *s)
{
    uint64_t there = 2 * double_tree_steps_up(s), back = height(s);
    if (s->verb == GYRE_VERB_BROADCAST)
        return back + (s->n > 1 ? double_tree_segments(s) - 1 : 1);
    if (s->n == 1)
        return 1;
    return s->verb == GYRE_VERB_REDUCE ? there : there + back;
}

/* The extent counts the steps of every round: how many of both trees fall into one round depends on
 * this rank's depth in both. */
static struct gyre_extent double_tree_extent(const struct gyre_slice *s)
{
    struct gyre_step step[STEPS_MAX];
    struct gyre_place source[STEPS_MAX];
    struct gyre_extent extent = {.rounds = rounds(s),
                                 .scratch_bytes = double_tree_scratch_bytes(s)};
    for (uint64_t index = 0; index < extent.rounds; index++) {
        struct gyre_round round = {step, source, 0, STEPS_MAX, 0, STEPS_MAX, false};
        double_tree_round(s, index, &round);
        extent.step_max = round.steps > extent.step_max ? round.steps : extent.step_max;
        extent.source_max = round.sources > extent.source_max ? round.sources : extent.source_max;
    }
    return extent;
}

/* The half of each tree once to the parent, and once to each child. */
static uint64_t double_tree_sent_bytes(const struct gyre_slice *s)
{
    uint64_t bytes = 0;
    for (uint32_t half = 0; half < trees(s); half++) {
        struct node node = node_in(s, half);
        bool goes_up = node.parent != NOBODY && s->verb != GYRE_VERB_BROADCAST;
        uint32_t down = s->verb != GYRE_VERB_REDUCE ? children(&node) : 0;
        bytes += (goes_up + down) * half_of(s, half).bytes;
    }
    return bytes;
}

const struct gyre_algorithm gyre_algorithm_double_tree = {
    .name = "double_tree",
    .summary =
        "two binary trees, half of the data each; inner ranks of one are leaves of the other",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_BROADCAST | 1u << GYRE_VERB_REDUCE,
    .extent = double_tree_extent,
    .round = double_tree_round,
    .sent_bytes = double_tree_sent_bytes,
};
