/* The ring. Every rank talks to two others only: a rank sends to its right neighbour and receives
 * from its left one. Neighbours are neighbours in the order of nodes (order.h), so the ring enters
 * and leaves each node once.
 *
 * All-reduce cuts the data into n blocks, here n = 4. In each step every rank sends one block (the
 * capital) to the right, receives another from the left and adds its own to the received one:
 *
 *          rank 0             rank 1             rank 2             rank 3
 *       [ a  b  c  D ]  ─▶ [ A  b  c  d ]  ─▶ [ a  B  c  d ]  ─▶ [ a  b  C  d ]  ─▶ rank 0
 *       [ a  b  C₂ d ]     [ a  b  c  D₂]     [ A₂ b  c  d ]     [ a  B₂ c  d ]   ₂: of two ranks
 *       [ a  B₃ c  d ]     [ a  b  C₃ d ]     [ a  b  c  D₃]     [ A₃ b  c  d ]   ₃: of three
 *       [ a₄ b  c  d ]     [ a  b₄ c  d ]     [ a  b  c₄ d ]     [ a  b  c  d₄]   ₄: complete
 *
 * After these n-1 steps, the reduce-scatter, rank r holds block r complete. n-1 more steps, the
 * all-gather, pass the complete blocks once around:
 *
 *       [ A₄ b  c  d₄]     [ a₄ B₄ c  d ]     [ a  b₄ C₄ d ]     [ a  b  c₄ D₄]   and so on
 *
 * Each rank sends 2(n-1)/n of the data; no algorithm can send less. A step of the reduce-scatter is
 * two rounds, exchange and reduce, because a REDUCE may only read what an earlier round received.
 * While one lane reduces, others transfer. Sums grow where they arrived, in two slots of SCRATCH by
 * turns: one is sent while the other fills. INPUT is never written.
 *
 * Each half alone is the verb of its name. Broadcast and reduce open the ring: open_ring.c.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "base/size.h"
#include "collectives/algorithms/open_ring.h"
#include "collectives/algorithms/order.h"

/* The block of the rank that stands `steps` places to the left. */
static struct gyre_span ring_block(const struct gyre_slice *s, uint64_t steps)
{
    return gyre_slice_share(s, gyre_order_after(s, 2 * (uint64_t)s->n - steps));
}

static uint64_t slot_bytes(const struct gyre_slice *s)
{
    return (s->verb == GYRE_VERB_ALL_REDUCE ? gyre_block_count(s->count, s->n, 0) : s->count) *
           s->element;
}

static struct gyre_place ring_slot(const struct gyre_slice *s, uint64_t step)
{
    return gyre_at(GYRE_SCRATCH, step % 2 * slot_bytes(s));
}

/* The place of this rank's complete block. */
static struct gyre_place own_output(const struct gyre_slice *s)
{
    return gyre_at(GYRE_OUTPUT, s->verb == GYRE_VERB_REDUCE_SCATTER ? 0 : ring_block(s, 0).at);
}

static void ring_reduce_scatter(const struct gyre_slice *s, uint64_t index,
                                struct gyre_round *round)
{
    uint64_t step = index / 2;
    struct gyre_span out = ring_block(s, step + 1), in = ring_block(s, step + 2);
    bool last = step + 2 >= s->n;

    if (s->n > 1 && index % 2 == 0) {
        gyre_round_recv(round, gyre_order_after(s, s->n - 1), ring_slot(s, step), in.bytes);
        gyre_round_send(round, gyre_order_after(s, 1),
                        step == 0 ? gyre_at(GYRE_INPUT, out.at) : ring_slot(s, step - 1),
                        out.bytes);
    } else { /* one rank has only this round: an average of one rank is taken here */
        gyre_round_reduce(round, last ? own_output(s) : ring_slot(s, step), in.bytes,
                          last ? GYRE_STEP_FINAL : 0);
        if (s->n > 1)
            gyre_round_source(round, ring_slot(s, step));
        gyre_round_source(round, gyre_at(GYRE_INPUT, in.at));
    }
}

static void ring_all_gather(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    struct gyre_span out = ring_block(s, step), in = ring_block(s, step + 1);
    bool own = s->verb == GYRE_VERB_ALL_GATHER && step == 0; /* the own block is in INPUT still */
    if (s->n > 1) {
        gyre_round_recv(round, gyre_order_after(s, s->n - 1), gyre_at(GYRE_OUTPUT, in.at),
                        in.bytes);
        gyre_round_send(round, gyre_order_after(s, 1),
                        own ? gyre_at(GYRE_INPUT, 0) : gyre_at(GYRE_OUTPUT, out.at), out.bytes);
    }
    if (own)
        gyre_round_copy(round, own_output(s), gyre_at(GYRE_INPUT, 0), out.bytes);
}

/* -- the entry: which halves, and how many rounds they have ------------------------------------ */

static bool is_open(const struct gyre_slice *s)
{
    return s->verb == GYRE_VERB_BROADCAST || s->verb == GYRE_VERB_REDUCE;
}

static uint64_t summing(const struct gyre_slice *s)
{
    uint64_t rounds = s->n > 1 ? 2 * (uint64_t)(s->n - 1) : 1;
    return s->verb == GYRE_VERB_ALL_GATHER ? 0 : rounds;
}

static uint64_t handing_on(const struct gyre_slice *s)
{
    if (s->n == 1)
        return s->verb == GYRE_VERB_ALL_GATHER;
    return s->verb == GYRE_VERB_REDUCE_SCATTER ? 0 : s->n - 1;
}

static void ring_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (is_open(s))
        gyre_open_ring_round(s, index, round);
    else if (index < summing(s))
        ring_reduce_scatter(s, index, round);
    else
        ring_all_gather(s, index - summing(s), round);
}

static struct gyre_extent ring_extent(const struct gyre_slice *s)
{
    uint64_t slots = summing(s) == 0 || s->n == 1 ? 0 : s->n == 2 ? 1 : 2;
    if (is_open(s))
        return gyre_open_ring_extent(s);
    return (struct gyre_extent){summing(s) + handing_on(s), slots * slot_bytes(s),
                                2 + (s->verb == GYRE_VERB_ALL_GATHER), 2};
}

/* Summing sends every block but the own, passing on every block but the right neighbour's. */
static uint64_t ring_sent_bytes(const struct gyre_slice *s)
{
    uint64_t all = gyre_slice_all_bytes(s);
    if (is_open(s))
        return gyre_open_ring_sent_bytes(s);
    return (summing(s) ? all - ring_block(s, 0).bytes : 0) +
           (handing_on(s) ? all - ring_block(s, s->n - 1).bytes : 0);
}

const struct gyre_algorithm gyre_algorithm_ring = {
    .name = "ring",
    .summary = "neighbours only: reduce-scatter and all-gather; broadcast and reduce in segments",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_REDUCE_SCATTER |
             1u << GYRE_VERB_ALL_GATHER | 1u << GYRE_VERB_BROADCAST | 1u << GYRE_VERB_REDUCE,
    .extent = ring_extent,
    .round = ring_round,
    .sent_bytes = ring_sent_bytes,
};
