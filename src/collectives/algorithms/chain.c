/* The chain: sums travel from rank 0 to rank n-1, and each rank adds its own input on the way. So
 * every element is the left fold ((0 + 1) + 2) + …, whatever the size, the cut and the placement.
 * Chain and direct are the algorithms for users who compare runs. In direct a rank talks to all n-1
 * others, here to its two neighbours. The chain follows ranks, not nodes, because it sums in the
 * order of ranks.
 *
 * The slice is cut into segments. They follow each other up the chain and, complete, down again:
 *
 *        step 0    0 ─a▶ 1                      rank 1 adds its a, …
 *        step 1    0 ─b▶ 1 ─a▶ 2
 *        step 2    0 ─c▶ 1 ─b▶ 2 ─a▶ 3          … rank 3 adds the last: a is complete
 *        step 3          1 ─c▶ 2 ─b▶ 3          3 ─a▶ 2 begins the way down
 *        step 4                2 ─c▶ 3          3 ─b▶ 2 ─a▶ 1
 *
 * A step on the way up is two rounds, exchange and reduce; segments on the way down share the
 * second. All ranks reach full speed once n segments are under way. Reduce ends at rank n-1, which
 * sends the sum to the root.
 *
 * A partial sum waits in OUTPUT, in the element's type. Where the accumulator is a wider type, the
 * partial sum would be rounded there and the fold would be rounded more than once. Such slices do
 * not suit.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/schedule/schedule.h"

#define SEGMENT_BYTES (UINT64_C(16) << 10) /* of a segment, at least */
#define SEGMENTS_MAX  64                   /* of a slice, at most */

static uint64_t chain_segments(const struct gyre_slice *s)
{
    uint64_t whole = s->count * s->element / SEGMENT_BYTES;
    return whole < 1 ? 1 : whole > SEGMENTS_MAX ? SEGMENTS_MAX : whole;
}

static struct gyre_span chain_segment(const struct gyre_slice *s, uint64_t index)
{
    return gyre_slice_cut(s, gyre_slice_whole(s), chain_segments(s), index);
}

/* Whether sums become complete on this rank. */
static bool at_end(const struct gyre_slice *s)
{
    return s->rank == s->n - 1;
}

/* The place of the sum of a segment. Where the result does not stay (reduce, off the root) sums
 * wait in SCRATCH behind the segment that is received. There are two places, because the last rank
 * sends one sum while it completes the next. */
static struct gyre_place chain_sum(const struct gyre_slice *s, uint64_t index)
{
    if (s->verb == GYRE_VERB_ALL_REDUCE || (at_end(s) && s->rank == s->root))
        return gyre_at(GYRE_OUTPUT, chain_segment(s, index).at);
    return gyre_at(GYRE_SCRATCH, (1 + index % 2) * chain_segment(s, 0).bytes);
}

/* The way up: rank r sends segment k in step r + k and receives it in the step before. */
static void chain_up(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t out = step - s->rank, in = out + 1; /* below 0 the number wraps: no such segment */
    if (s->rank > 0 && in < chain_segments(s))
        gyre_round_recv(round, s->rank - 1, gyre_at(GYRE_SCRATCH, 0), chain_segment(s, in).bytes);
    if (!at_end(s) && out < chain_segments(s))
        gyre_round_send(round, s->rank + 1,
                        s->rank == 0 ? gyre_at(GYRE_INPUT, chain_segment(s, out).at)
                                     : chain_sum(s, out),
                        chain_segment(s, out).bytes);
}

static void reduce_segment(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t in = step - s->rank + 1;
    if (s->rank == 0 || in >= chain_segments(s))
        return;
    gyre_round_reduce(round, chain_sum(s, in), chain_segment(s, in).bytes,
                      at_end(s) ? GYRE_STEP_FINAL : 0);
    gyre_round_source(round, gyre_at(GYRE_SCRATCH, 0));
    gyre_round_source(round, gyre_at(GYRE_INPUT, chain_segment(s, in).at));
}

/* The way down: rank n-1-q sends segment k in step n-1 + q + k. */
static void chain_down(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t out = step - (s->n - 1) - (s->n - 1 - s->rank), in = out + 1;
    if (!at_end(s) && in < chain_segments(s))
        gyre_round_recv(round, s->rank + 1, gyre_at(GYRE_OUTPUT, chain_segment(s, in).at),
                        chain_segment(s, in).bytes);
    if (s->rank > 0 && out < chain_segments(s))
        gyre_round_send(round, s->rank - 1, gyre_at(GYRE_OUTPUT, chain_segment(s, out).at),
                        chain_segment(s, out).bytes);
}

static void to_root(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint64_t index = step - (s->n - 1);
    if (index >= chain_segments(s) || s->root == s->n - 1)
        return;
    if (s->rank == s->root)
        gyre_round_recv(round, s->n - 1, gyre_at(GYRE_OUTPUT, chain_segment(s, index).at),
                        chain_segment(s, index).bytes);
    else if (at_end(s))
        gyre_round_send(round, s->root, chain_sum(s, index), chain_segment(s, index).bytes);
}

/* The steps with a segment on the way up. From then on a step is one round. */
static uint64_t chain_steps_up(const struct gyre_slice *s)
{
    return s->n + chain_segments(s) - 2;
}

static void chain_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t both = 2 * chain_steps_up(s), step = index < both ? index / 2 : index - both / 2;
    if (s->n == 1) {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), s->count * s->element, GYRE_STEP_FINAL);
        gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
        return;
    }
    if (index < both && index % 2 == 0) {
        chain_up(s, step, round);
        return;
    }
    s->verb == GYRE_VERB_ALL_REDUCE ? chain_down(s, step, round) : to_root(s, step, round);
    reduce_segment(s, step, round);
}

static uint64_t chain_scratch_bytes(const struct gyre_slice *s)
{
    if (s->rank == 0)
        return 0;
    if (chain_sum(s, 0).buffer == GYRE_OUTPUT)
        return chain_segment(s, 0).bytes;
    return 2 * chain_segment(s, 0).bytes + (chain_segments(s) > 1 ? chain_segment(s, 1).bytes : 0);
}

static struct gyre_extent chain_extent(const struct gyre_slice *s)
{
    uint64_t both = 2 * chain_steps_up(s);
    uint32_t steps = chain_segments(s) > 1 ? 3 : 1; /* a rank handles one segment in a round */
    if (s->n == 1)
        return (struct gyre_extent){1, 0, 1, 1};
    if (s->verb == GYRE_VERB_ALL_REDUCE)
        return (struct gyre_extent){both + s->n - 1, chain_scratch_bytes(s), steps, 2};
    return (struct gyre_extent){both + (s->root != s->n - 1), chain_scratch_bytes(s), steps, 2};
}

/* The data once up, and once down or to the root. */
static uint64_t chain_sent_bytes(const struct gyre_slice *s)
{
    uint64_t bytes = s->count * s->element;
    if (s->verb == GYRE_VERB_ALL_REDUCE)
        return bytes * (!at_end(s) + (s->rank > 0));
    return at_end(s) ? bytes * (s->root != s->rank) : bytes;
}

static bool chain_suits(const struct gyre_slice *s)
{
    return !s->rounds_partials;
}

const struct gyre_algorithm gyre_algorithm_chain = {
    .name = "chain",
    .summary = "from rank to rank, added in their order, in segments: "
               "repeatable for any size",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_REDUCE,
    .rank_order = true,
    .suits = chain_suits,
    .extent = chain_extent,
    .round = chain_round,
    .sent_bytes = chain_sent_bytes,
};
