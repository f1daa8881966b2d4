/* Two levels: ranks of a node sum first, so each byte of the result crosses between nodes as seldom
 * as possible. Here are two nodes, of four and of two ranks. The smallest node has m = 2 ranks, so
 * there are two blocks, and in each node two ranks serve one block each:
 *
 *          node 0:  0   1   2   3            node 1:  4   5
 *
 *      1.  all give block a to 0,            5 gives a to 4,        reduce-scatter in the node
 *          and block b to 1                  4 gives b to 5
 *      2.           0 ◀────────── a ──────────────▶ 4               all-reduce between the nodes,
 *                       1 ◀────── b ──────────────────▶ 5           a ring for each block
 *      3.  0 gives a, 1 gives b to all       4 and 5 alike          all-gather in the node
 *
 * Each of N nodes sends 2(N-1)/N of the data, in m flows at once; no algorithm can send less. The
 * flat ring in the order of nodes sends 2(n-1)/n from each node, for two nodes nearly twice as
 * much, by one flow and in 2(n-1) exchanges. Two levels have 2(N-1) exchanges between nodes and two
 * within.
 *
 * Ranks beyond m give and get back within their node, so the ranks that serve have more to do. Each
 * of these takes (size-1)/m of the data in its node and gives as much; in the ring a rank has
 * 2(n-1)/n. With nodes of about equal size the difference is small. With 5+1 ranks one rank gives
 * four times all the data: there the ring wins, and choose/ compares what both send.
 *
 * With one node the algorithm is direct's two-shot; with one rank per node it is the ring.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/algorithms/order.h"
#include "collectives/schedule/schedule.h"

#define PEERS_PER_ROUND 32 /* in a node, as in direct.c */

/* This rank's place in its node. */
struct node_place {
    uint32_t nodes, node;
    /* The node's first place, its number of ranks, this one among them. */
    uint32_t first, size, local;
    uint32_t blocks; /* m: ranks of the smallest node */
    uint32_t widest; /* ranks of the largest node */
};

static struct node_place seat_of(const struct gyre_slice *s)
{
    const struct gyre_layout *layout = s->layout;
    struct node_place node_place = {1, 0, 0, s->n, s->rank, s->n, s->n};
    if (!layout)
        return node_place;
    node_place.nodes = layout->nodes;
    node_place.node = layout->node[s->rank];
    node_place.first = layout->start[node_place.node];
    node_place.size = layout->start[node_place.node + 1] - node_place.first;
    node_place.local = layout->place[s->rank] - node_place.first;
    node_place.widest = 0;
    for (uint32_t node = 0; node < layout->nodes; node++) {
        uint32_t size = layout->start[node + 1] - layout->start[node];
        node_place.blocks = size < node_place.blocks ? size : node_place.blocks;
        node_place.widest = size > node_place.widest ? size : node_place.widest;
    }
    return node_place;
}

static bool serves_a_block(const struct node_place *t, uint32_t local)
{
    return local < t->blocks;
}

static uint32_t colleague(const struct gyre_slice *s, const struct node_place *t, uint32_t local)
{
    return gyre_order_rank(s, t->first + local);
}

static struct gyre_span node_block(const struct gyre_slice *s, const struct node_place *t,
                                   uint32_t index)
{
    return gyre_slice_cut(s, gyre_slice_whole(s), t->blocks, index);
}

/* -- within the node --------------------------------------------------------------------------- */

static uint32_t two_level_exchange_rounds(const struct node_place *t)
{
    return (t->widest - 1 + PEERS_PER_ROUND - 1) / PEERS_PER_ROUND;
}

/* The distances first … *last - 1 within the node that one round of an exchange serves. */
static uint32_t exchange_distances(const struct node_place *t, uint64_t exchange, uint32_t *last)
{
    uint64_t first = exchange * PEERS_PER_ROUND + 1, end = first + PEERS_PER_ROUND;
    *last = (uint32_t)(end < t->size ? end : t->size);
    return (uint32_t)first;
}

static uint32_t two_level_right(const struct node_place *t, uint32_t distance)
{
    return (t->local + distance) % t->size;
}

static uint32_t two_level_left(const struct node_place *t, uint32_t distance)
{
    return (t->local + t->size - distance) % t->size;
}

/* The place where a colleague's contribution to the own block waits. */
static struct gyre_place two_level_slot(const struct gyre_slice *s, const struct node_place *t,
                                        uint32_t local)
{
    uint32_t index = local < t->local ? local : local - 1;
    return gyre_at(GYRE_SCRATCH, index * node_block(s, t, t->local).bytes);
}

static void two_level_hand_in(const struct gyre_slice *s, const struct node_place *t,
                              uint64_t exchange, struct gyre_round *round)
{
    uint32_t last, first = exchange_distances(t, exchange, &last);
    for (uint32_t d = first; serves_a_block(t, t->local) && d < last; d++)
        gyre_round_recv(round, colleague(s, t, two_level_left(t, d)),
                        two_level_slot(s, t, two_level_left(t, d)),
                        node_block(s, t, t->local).bytes);
    for (uint32_t d = first; d < last; d++) {
        struct gyre_span theirs = node_block(s, t, two_level_right(t, d));
        if (serves_a_block(t, two_level_right(t, d)))
            gyre_round_send(round, colleague(s, t, two_level_right(t, d)),
                            gyre_at(GYRE_INPUT, theirs.at), theirs.bytes);
    }
}

static void fold_over_nodes(const struct gyre_slice *s, const struct node_place *t,
                            struct gyre_round *round)
{
    struct gyre_span own = node_block(s, t, t->local);
    if (!serves_a_block(t, t->local) || t->size == 1)
        return;
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, own.at), own.bytes,
                      t->nodes == 1 ? GYRE_STEP_FINAL : 0);
    for (uint32_t local = 0; local < t->size; local++)
        gyre_round_source(round, local == t->local ? gyre_at(GYRE_INPUT, own.at)
                                                   : two_level_slot(s, t, local));
}

static void two_level_hand_back(const struct gyre_slice *s, const struct node_place *t,
                                uint64_t exchange, struct gyre_round *round)
{
    struct gyre_span own = node_block(s, t, t->local);
    uint32_t last, first = exchange_distances(t, exchange, &last);
    for (uint32_t d = first; d < last; d++) {
        struct gyre_span theirs = node_block(s, t, two_level_left(t, d));
        if (serves_a_block(t, two_level_left(t, d)))
            gyre_round_recv(round, colleague(s, t, two_level_left(t, d)),
                            gyre_at(GYRE_OUTPUT, theirs.at), theirs.bytes);
    }
    for (uint32_t d = first; serves_a_block(t, t->local) && d < last; d++)
        gyre_round_send(round, colleague(s, t, two_level_right(t, d)), gyre_at(GYRE_OUTPUT, own.at),
                        own.bytes);
}

/* -- between the nodes: as ring.c, with nodes for ranks and the own block for the data --------- */

static uint32_t neighbour(const struct gyre_slice *s, const struct node_place *t,
                          uint32_t nodes_right)
{
    uint32_t node = (t->node + nodes_right) % t->nodes;
    return gyre_order_rank(s, (s->layout ? s->layout->start[node] : 0) + t->local);
}

/* The piece of the own block whose index is that of the node `steps` to the left. */
static struct gyre_span piece(const struct gyre_slice *s, const struct node_place *t,
                              uint64_t steps)
{
    uint64_t index = (t->node + 2 * (uint64_t)t->nodes - steps) % t->nodes;
    return gyre_slice_cut(s, node_block(s, t, t->local), t->nodes, index);
}

static void two_level_reduce_scatter(const struct gyre_slice *s, const struct node_place *t,
                                     uint64_t index, struct gyre_round *round)
{
    enum gyre_buffer mine = t->size > 1 ? GYRE_OUTPUT : GYRE_INPUT; /* the node's own sum */
    uint64_t step = index / 2;
    struct gyre_span out = piece(s, t, step + 1), in = piece(s, t, step + 2);
    if (index % 2 == 0) {
        gyre_round_recv(round, neighbour(s, t, t->nodes - 1), gyre_at(GYRE_SCRATCH, 0), in.bytes);
        gyre_round_send(round, neighbour(s, t, 1), gyre_at(step == 0 ? mine : GYRE_OUTPUT, out.at),
                        out.bytes);
        return;
    }
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, in.at), in.bytes,
                      step == t->nodes - 2 ? GYRE_STEP_FINAL : 0);
    gyre_round_source(round, gyre_at(GYRE_SCRATCH, 0));
    gyre_round_source(round, gyre_at(mine, in.at));
}

static void two_level_all_gather(const struct gyre_slice *s, const struct node_place *t,
                                 uint64_t step, struct gyre_round *round)
{
    struct gyre_span out = piece(s, t, step), in = piece(s, t, step + 1);
    gyre_round_recv(round, neighbour(s, t, t->nodes - 1), gyre_at(GYRE_OUTPUT, in.at), in.bytes);
    gyre_round_send(round, neighbour(s, t, 1), gyre_at(GYRE_OUTPUT, out.at), out.bytes);
}

/* -- the whole --------------------------------------------------------------------------------- */

static void two_level_alone(const struct gyre_slice *s, struct gyre_round *round)
{
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), s->count * s->element, GYRE_STEP_FINAL);
    gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
}

static void two_level_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    struct node_place t = seat_of(s);
    uint64_t exchanges = two_level_exchange_rounds(&t), folds = exchanges > 0,
             ring = 2 * (uint64_t)(t.nodes - 1), ring_starts = exchanges + folds,
             gather_starts = ring_starts + ring, back_starts = gather_starts + t.nodes - 1;
    if (s->n == 1)
        two_level_alone(s, round);
    else if (index < exchanges)
        two_level_hand_in(s, &t, index, round);
    else if (index < ring_starts)
        fold_over_nodes(s, &t, round);
    else if (index >= back_starts)
        two_level_hand_back(s, &t, index - back_starts, round);
    else if (serves_a_block(&t, t.local))
        index < gather_starts ? two_level_reduce_scatter(s, &t, index - ring_starts, round)
                              : two_level_all_gather(s, &t, index - gather_starts, round);
}

static struct gyre_extent two_level_extent(const struct gyre_slice *s)
{
    struct node_place t = seat_of(s);
    uint32_t peers = t.widest - 1 < PEERS_PER_ROUND ? t.widest - 1 : PEERS_PER_ROUND;
    uint64_t within = 2 * (uint64_t)two_level_exchange_rounds(&t) + (t.widest > 1);
    struct gyre_extent extent = {within + 3 * (uint64_t)(t.nodes - 1), 0, 2 * peers, t.widest};
    if (s->n == 1)
        return (struct gyre_extent){1, 0, 1, 1};
    if (serves_a_block(&t, t.local)) {
        uint64_t own = node_block(s, &t, t.local).bytes, handed_in = (t.size - 1) * own;
        uint64_t received = t.nodes > 1 ? piece(s, &t, t.node).bytes : 0;
        extent.scratch_bytes = handed_in > received ? handed_in : received;
    }
    extent.step_max = extent.step_max > 2 ? extent.step_max : 2;
    extent.source_max = extent.source_max > 2 ? extent.source_max : 2;
    return extent;
}

/* In the node a block to each rank that serves; between nodes all pieces of the own block but one,
 * twice; then the own block to each rank of the node. */
static uint64_t two_level_sent_bytes(const struct gyre_slice *s)
{
    struct node_place t = seat_of(s);
    uint64_t all = s->count * s->element, own = node_block(s, &t, t.local).bytes;
    if (t.size == 1 && t.nodes == 1)
        return 0;
    if (!serves_a_block(&t, t.local))
        return all;
    uint64_t between = 2 * own - piece(s, &t, 0).bytes - piece(s, &t, t.nodes - 1).bytes;
    uint64_t handed_in = t.size > 1 ? all - own : 0;
    return handed_in + (t.nodes > 1 ? between : 0) + (t.size - 1) * own;
}

const struct gyre_algorithm gyre_algorithm_two_level = {
    .name = "two_level",
    .summary = "sums in each node, a ring between nodes for each local rank, and back",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE,
    .extent = two_level_extent,
    .round = two_level_round,
    .sent_bytes = two_level_sent_bytes,
};
