/* The ring. Every rank talks to two others only: it sends to its right neighbour and receives from
 * its left one.
 *
 * All-reduce cuts the data into n blocks, here n = 4. In each step every rank sends one block (the
 * capital) to the right, receives another from the left and adds what came to its own:
 *
 *          rank 0             rank 1             rank 2             rank 3
 *       [ a  b  c  D ]  ─▶ [ A  b  c  d ]  ─▶ [ a  B  c  d ]  ─▶ [ a  b  C  d ]  ─▶ rank 0
 *       [ a  b  C₂ d ]     [ a  b  c  D₂]     [ A₂ b  c  d ]     [ a  B₂ c  d ]   ₂: of two ranks
 *       [ a  B₃ c  d ]     [ a  b  C₃ d ]     [ a  b  c  D₃]     [ A₃ b  c  d ]   ₃: of three
 *       [ a₄ b  c  d ]     [ a  b₄ c  d ]     [ a  b  c₄ d ]     [ a  b  c  d₄]   ₄: complete
 *
 * After these n-1 steps, the reduce-scatter, rank r holds block r complete. n-1 more, the
 * all-gather, hand the complete blocks once around:
 *
 *       [ A₄ b  c  d₄]     [ a₄ B₄ c  d ]     [ a  b₄ C₄ d ]     [ a  b  c₄ D₄]   and so on
 *
 * Each rank sends 2(n-1)/n of the data; no algorithm can send less. A step of the reduce-scatter is
 * two rounds, exchange and reduce, for a REDUCE may only read what an earlier round received; while
 * one lane reduces, others transfer. Sums grow in OUTPUT and INPUT is never written, so in place a
 * sum simply lands on its own summand.
 *
 * Broadcast opens the ring before the root. Segments run down the chain, one behind the other:
 *
 *       round 0     root ─0─▶ 1
 *       round 1     root ─1─▶ 1 ─0─▶ 2
 *       round 2     root ─2─▶ 1 ─1─▶ 2 ─0─▶ 3 */
#include "base/size.h"
#include "collectives/schedule.h"

#define SEGMENT_BYTES (UINT64_C(64) << 10) /* a broadcast's segment is at least this long, … */
#define SEGMENTS_MAX  8                    /* … and there are at most so many of them */

struct span {
    uint64_t at, bytes;
};

/* Piece i of the slice, cut into `parts`. */
static struct span cut(const struct gyre_slice *s, uint64_t parts, uint64_t i)
{
    return (struct span){gyre_block_start(s->count, parts, i) * s->element,
                         gyre_block_count(s->count, parts, i) * s->element};
}

static uint32_t neighbour(const struct gyre_slice *s, uint32_t places_right)
{
    return (s->rank + places_right) % s->n;
}

/* The block that is `steps` places to the left of this rank's own. */
static struct span block(const struct gyre_slice *s, uint64_t steps)
{
    return cut(s, s->n, (s->rank + 2 * (uint64_t)s->n - steps) % s->n);
}

static void reduce_scatter(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t step = index / 2;
    struct span out = block(s, step + 1), in = block(s, step + 2);

    if (index % 2 == 0) {
        gyre_round_recv(round, neighbour(s, s->n - 1), gyre_at(GYRE_SCRATCH, 0), in.bytes);
        gyre_round_send(round, neighbour(s, 1),
                        gyre_at(step == 0 ? GYRE_INPUT : GYRE_OUTPUT, out.at), out.bytes);
    } else {
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, in.at), in.bytes,
                          step == s->n - 2 ? GYRE_STEP_FINAL : 0);
        gyre_round_source(round, gyre_at(GYRE_SCRATCH, 0));
        gyre_round_source(round, gyre_at(GYRE_INPUT, in.at));
    }
}

static void all_gather(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    struct span out = block(s, step), in = block(s, step + 1);
    gyre_round_recv(round, neighbour(s, s->n - 1), gyre_at(GYRE_OUTPUT, in.at), in.bytes);
    gyre_round_send(round, neighbour(s, 1), gyre_at(GYRE_OUTPUT, out.at), out.bytes);
}

static void all_reduce(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t reduced = 2 * (uint64_t)(s->n - 1); /* the first round of the all-gather */

    if (s->n == 1) { /* the sum of one; the average of one is taken here too */
        gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, 0), block(s, 0).bytes, GYRE_STEP_FINAL);
        gyre_round_source(round, gyre_at(GYRE_INPUT, 0));
    } else if (index < reduced) {
        reduce_scatter(s, index, round);
    } else {
        all_gather(s, index - reduced, round);
    }
}

static uint64_t segments(const struct gyre_slice *s)
{
    uint64_t whole = s->count * s->element / SEGMENT_BYTES;
    return whole < 1 ? 1 : whole > SEGMENTS_MAX ? SEGMENTS_MAX : whole;
}

/* How far down the chain this rank stands; the root is 0. */
static uint64_t position(const struct gyre_slice *s)
{
    return (s->rank + (uint64_t)s->n - s->root) % s->n;
}

/* Position p sends segment k in round p + k, and so receives it in the round before. */
static void broadcast(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t parts = segments(s), p = position(s), k = index - p; /* below 0 it wraps: no segment */
    struct span out = cut(s, parts, k), in = cut(s, parts, k + 1);

    if (p > 0 && k + 1 < parts)
        gyre_round_recv(round, neighbour(s, s->n - 1), gyre_at(GYRE_OUTPUT, in.at), in.bytes);
    if (p < s->n - 1 && k < parts)
        gyre_round_send(round, neighbour(s, 1), gyre_at(p == 0 ? GYRE_INPUT : GYRE_OUTPUT, out.at),
                        out.bytes);
    if (p == 0 && k < parts)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, out.at), gyre_at(GYRE_INPUT, out.at),
                        out.bytes);
}

static void ring_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    s->verb == GYRE_VERB_ALL_REDUCE ? all_reduce(s, index, round) : broadcast(s, index, round);
}

static struct gyre_extent ring_extent(const struct gyre_slice *s)
{
    if (s->verb == GYRE_VERB_BROADCAST)
        return (struct gyre_extent){segments(s) + (s->n > 1 ? s->n - 2 : 0), 0, 3, 1};
    if (s->n == 1)
        return (struct gyre_extent){1, 0, 1, 1};
    return (struct gyre_extent){3 * (uint64_t)(s->n - 1), cut(s, s->n, 0).bytes, 2, 2};
}

/* All-reduce: every block but the own, then every block but the right neighbour's. */
static uint64_t ring_sent_bytes(const struct gyre_slice *s)
{
    uint64_t bytes = s->count * s->element;
    if (s->verb == GYRE_VERB_BROADCAST)
        return position(s) < s->n - 1 ? bytes : 0;
    return 2 * bytes - block(s, 0).bytes - block(s, s->n - 1).bytes;
}

const struct gyre_algorithm gyre_algorithm_ring = {
    .name = "ring",
    .summary = "neighbours only: reduce-scatter and all-gather; broadcast as a pipelined chain",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_BROADCAST,
    .extent = ring_extent,
    .round = ring_round,
    .sent_bytes = ring_sent_bytes,
};
