/* The ring opened at the root: a chain, along which segments run one behind the other.
 *
 * Broadcast opens the ring before the root, at place 0 of the chain:
 *
 *       round 0     root ─0─▶ 1
 *       round 1     root ─1─▶ 1 ─0─▶ 2
 *       round 2     root ─2─▶ 1 ─1─▶ 2 ─0─▶ 3
 *
 * Reduce opens the ring behind the root, at the chain's end. Each rank adds its own segment to the
 * one that comes and sends the sum on. A REDUCE may only read what an earlier round received, so
 * every other round adds:
 *
 *       round 0     0 ─0─▶ 1
 *       round 1            1 adds 0
 *       round 2     0 ─1─▶ 1 ─0─▶ 2
 *       round 3            1 adds 1, 2 adds 0
 *       round 4     0 ─2─▶ 1 ─1─▶ 2 ─0─▶ root
 *
 * A sum grows where it arrived, in two slots of SCRATCH by turns: one is sent while the next
 * segment fills the other. Every rank sends the data once, and each link carries the data once. The
 * sum is bracketed along the chain, which depends on the root.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/algorithms/open_ring.h"

#include "collectives/algorithms/order.h"

#define SEGMENT_BYTES (UINT64_C(64) << 10) /* of a segment, at least */
#define SEGMENTS_MAX  8                    /* of a slice, at most */

static uint64_t open_ring_segments(const struct gyre_slice *s)
{
    uint64_t whole = s->count * s->element / SEGMENT_BYTES;
    return whole < 1 ? 1 : whole > SEGMENTS_MAX ? SEGMENTS_MAX : whole;
}

static struct gyre_span open_ring_segment(const struct gyre_slice *s, uint64_t k)
{
    return gyre_slice_cut(s, gyre_slice_whole(s), open_ring_segments(s), k);
}

/* This rank's place in the chain: the root of a broadcast is first, of a reduce last. */
static uint64_t position(const struct gyre_slice *s)
{
    uint64_t from_root = gyre_order_place(s, s->rank) + (uint64_t)s->n;
    from_root -= gyre_order_place(s, s->root);
    return (from_root + (s->verb == GYRE_VERB_REDUCE ? s->n - 1 : 0)) % s->n;
}

/* Position p sends segment k in turn p + k and receives it in the turn before. A number below 0
 * wraps, and there is no such segment. */
static void open_ring_broadcast(const struct gyre_slice *s, uint64_t turn, struct gyre_round *round)
{
    uint64_t parts = open_ring_segments(s), p = position(s), k = turn - p;
    struct gyre_span out = open_ring_segment(s, k), in = open_ring_segment(s, k + 1);

    if (p > 0 && k + 1 < parts)
        gyre_round_recv(round, gyre_order_after(s, s->n - 1), gyre_at(GYRE_OUTPUT, in.at),
                        in.bytes);
    if (p < s->n - 1 && k < parts)
        gyre_round_send(round, gyre_order_after(s, 1),
                        gyre_at(p == 0 ? GYRE_INPUT : GYRE_OUTPUT, out.at), out.bytes);
    if (p == 0 && k < parts)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, out.at), gyre_at(GYRE_INPUT, out.at),
                        out.bytes);
}

/* -- reduce ------------------------------------------------------------------------------------ */

static struct gyre_place open_ring_slot(const struct gyre_slice *s, uint64_t k)
{
    return gyre_at(GYRE_SCRATCH, k % 2 * open_ring_segment(s, 0).bytes);
}

static void pass_on(const struct gyre_slice *s, uint64_t turn, struct gyre_round *round)
{
    uint64_t parts = open_ring_segments(s), p = position(s), k = turn - p;
    struct gyre_span out = open_ring_segment(s, k), in = open_ring_segment(s, k + 1);

    if (p > 0 && k + 1 < parts)
        gyre_round_recv(round, gyre_order_after(s, s->n - 1), open_ring_slot(s, k + 1), in.bytes);
    if (p < s->n - 1 && k < parts)
        gyre_round_send(round, gyre_order_after(s, 1),
                        p == 0 ? gyre_at(GYRE_INPUT, out.at) : open_ring_slot(s, k), out.bytes);
}

static void add_segment_sum(const struct gyre_slice *s, uint64_t turn, struct gyre_round *round)
{
    uint64_t p = position(s), k = turn + 1 - p;
    struct gyre_span in = open_ring_segment(s, k);
    bool last = p == s->n - 1;
    if ((p == 0 && s->n > 1) || k >= open_ring_segments(s))
        return;
    gyre_round_reduce(round, last ? gyre_at(GYRE_OUTPUT, in.at) : open_ring_slot(s, k), in.bytes,
                      last ? GYRE_STEP_FINAL : 0);
    if (p > 0)
        gyre_round_source(round, open_ring_slot(s, k));
    gyre_round_source(round, gyre_at(GYRE_INPUT, in.at));
}

static void open_ring_reduce(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index % 2 == 0)
        pass_on(s, index / 2, round);
    else
        add_segment_sum(s, index / 2, round);
}

/* -- the parts of ring's entry ----------------------------------------------------------------- */

void gyre_open_ring_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (s->verb == GYRE_VERB_BROADCAST)
        open_ring_broadcast(s, index, round);
    else if (s->n == 1)
        add_segment_sum(s, index - 1, round); /* nothing is received: adds all segments */
    else
        open_ring_reduce(s, index, round);
}

struct gyre_extent gyre_open_ring_extent(const struct gyre_slice *s)
{
    uint64_t turns = open_ring_segments(s) + (s->n > 1 ? s->n - 2 : 0), p = position(s);
    if (s->verb == GYRE_VERB_BROADCAST)
        return (struct gyre_extent){turns, 0, 3, 1};
    uint64_t slots = open_ring_segment(s, 0).bytes +
                     (open_ring_segments(s) > 1 ? open_ring_segment(s, 1).bytes : 0);
    return (struct gyre_extent){s->n == 1 ? turns : 2 * turns, p == 0 ? 0 : slots, 2, 2};
}

uint64_t gyre_open_ring_sent_bytes(const struct gyre_slice *s)
{
    return position(s) < s->n - 1 ? s->count * s->element : 0;
}
