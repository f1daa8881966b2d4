/* The binomial tree: ceil(log2 n) steps, whatever n and whoever is root. For small data and many
 * ranks.
 *
 * Ranks are renumbered so that the root is 0. An edge of weight m joins v and v + m where v is a
 * multiple of 2m; the tree of 8 has the edges
 *
 *        0 ─1─ 1      2 ─1─ 3      4 ─1─ 5      6 ─1─ 7
 *        0 ────2───── 2            4 ────2───── 6
 *        0 ───────────4─────────── 4
 *
 * and for other n those whose two ends exist. Broadcast walks the weights down (… 4, 2, 1), each
 * edge from left to right: whoever has the data doubles each time. All-reduce first walks them up
 * (1, 2, 4 …), from right to left, adding at the left end, and then broadcasts from rank 0.
 *
 * A subtree always holds consecutive ranks, so the sum is bracketed ((0+1)+(2+3))+…: the same on
 * every rank and in every run, but not the left-to-right sum of `direct`. A rank keeps its partial
 * sum in OUTPUT; until its first addition, or for ever if nothing hangs below it, its contribution
 * is its INPUT. */
#include "collectives/schedule.h"

static uint64_t all_bytes(const struct gyre_slice *s)
{
    return s->count * s->element;
}

static uint32_t depth(uint32_t n)
{
    return n == 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

/* This rank's number in the tree, and back. */
static uint32_t number(const struct gyre_slice *s)
{
    return (uint32_t)(((uint64_t)s->rank + s->n - s->root) % s->n);
}

static uint32_t rank_of(const struct gyre_slice *s, uint64_t node)
{
    return (uint32_t)((node + s->root) % s->n);
}

/* Does the edge of this weight have `v` as its left end (towards the root) or as its right end? */
static bool is_parent(const struct gyre_slice *s, uint32_t v, uint64_t weight)
{
    return v % (2 * weight) == 0 && v + weight < s->n;
}

static bool is_child(uint32_t v, uint64_t weight)
{
    return v % (2 * weight) == weight;
}

static bool adds(const struct gyre_slice *s, uint32_t v)
{
    return is_parent(s, v, 1); /* whoever has a child has one at weight 1 */
}

static void down(const struct gyre_slice *s, uint64_t step, enum gyre_buffer at_root,
                 struct gyre_round *round)
{
    uint64_t weight = UINT64_C(1) << (depth(s->n) - 1 - step);
    uint32_t v = number(s);
    if (is_child(v, weight))
        gyre_round_recv(round, rank_of(s, v - weight), gyre_at(GYRE_OUTPUT, 0), all_bytes(s));
    if (is_parent(s, v, weight))
        gyre_round_send(round, rank_of(s, v + weight), gyre_at(v == 0 ? at_root : GYRE_OUTPUT, 0),
                        all_bytes(s));
}

static void up(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t weight = UINT64_C(1) << step;
    uint32_t v = number(s);
    enum gyre_buffer partial = adds(s, v) ? GYRE_OUTPUT : GYRE_INPUT;
    if (is_parent(s, v, weight))
        gyre_round_recv(round, rank_of(s, v + weight), gyre_at(GYRE_SCRATCH, 0), all_bytes(s));
    if (is_child(v, weight))
        gyre_round_send(round, rank_of(s, v - weight), gyre_at(partial, 0), all_bytes(s));
}

static void add(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint32_t v = number(s);
    if (!is_parent(s, v, UINT64_C(1) << step))
        return;
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), all_bytes(s),
                      v == 0 && step + 1 == depth(s->n) ? GYRE_STEP_FINAL : 0);
    gyre_round_source(round, gyre_at(step == 0 ? GYRE_INPUT : GYRE_OUTPUT, 0));
    gyre_round_source(round, gyre_at(GYRE_SCRATCH, 0));
}

static void all_reduce(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t summed = 2 * (uint64_t)depth(s->n); /* the first round of the broadcast */
    if (s->n == 1) {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), all_bytes(s), GYRE_STEP_FINAL);
        gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
    } else if (index >= summed) {
        down(s, index - summed, GYRE_OUTPUT, round);
    } else if (index % 2 == 0) {
        up(s, index / 2, round);
    } else {
        add(s, index / 2, round);
    }
}

static void broadcast(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (s->n > 1)
        down(s, index, GYRE_INPUT, round);
    if (index == 0 && s->rank == s->root)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_INPUT, 0), all_bytes(s));
}

static void tree_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    s->verb == GYRE_VERB_ALL_REDUCE ? all_reduce(s, index, round) : broadcast(s, index, round);
}

static struct gyre_extent tree_extent(const struct gyre_slice *s)
{
    uint64_t steps = depth(s->n);
    if (s->verb == GYRE_VERB_BROADCAST)
        return (struct gyre_extent){s->n == 1 ? 1 : steps, 0, 2, 1};
    return (struct gyre_extent){s->n == 1 ? 1 : 3 * steps, adds(s, s->rank) ? all_bytes(s) : 0, 1,
                                2};
}

/* One message down each edge to the right, and for all-reduce one up the edge to the left. */
static uint64_t tree_sent_bytes(const struct gyre_slice *s)
{
    uint64_t messages = s->verb == GYRE_VERB_ALL_REDUCE && s->rank != 0;
    for (uint64_t weight = 1; weight < s->n; weight *= 2)
        messages += is_parent(s, number(s), weight);
    return messages * all_bytes(s);
}

const struct gyre_algorithm gyre_algorithm_tree = {
    .name = "tree",
    .summary = "binomial tree: log2(n) steps for small data; all-reduce goes up and down",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_BROADCAST,
    .extent = tree_extent,
    .round = tree_round,
    .sent_bytes = tree_sent_bytes,
};
