/* Direct: every rank talks to every other, and each element is summed in one place, over ranks 0 …
 * n-1 in that order.
 *
 *     one-shot (small)                         two-shot (large)
 *
 *     everyone sends all it has to all;        everyone sends block j to rank j;
 *     everyone adds n sources itself           rank j adds n sources into its own block j
 *                                              and sends the finished block to all
 *
 *          0 ──▶ 1                                  block 1 of 0 ─┐
 *          0 ──▶ 2      1 exchange                  block 1 of 1 ─┼─▶ 1: sum ──▶ 0, 2   2 exchanges
 *          …                                        block 1 of 2 ─┘
 *
 * One-shot moves (n-1) × the data in one exchange, two-shot 2(n-1)/n × in two. Both fold the same
 * sources in the same order in one REDUCE, so the bits of a result depend neither on the size, nor
 * on the cut into slices, nor on who sits where: this is the algorithm for those who compare runs.
 *
 * Broadcast has the same two shapes with one source: the root sends everything to all, or it
 * scatters blocks and all gather them. In the gather nobody sends to the root, which has had
 * everything from the start.
 *
 * An exchange with n-1 peers is cut into rounds of 32: in round k of it a rank sends to the ranks
 * at distance 32k+1 … 32k+32 to its right and receives from those as far to its left, so a message
 * stands in the same round of both ends, no peer is met by all at once, and no plan grows with n.
 */
#include "base/size.h"
#include "collectives/schedule.h"

#define PEERS_PER_ROUND 32
#define ONE_SHOT_BYTES  (UINT64_C(4) << 10) /* unless the slice says otherwise */

static uint64_t all_bytes(const struct gyre_slice *s)
{
    return s->count * s->element;
}

static uint64_t block_at(const struct gyre_slice *s, uint32_t rank)
{
    return gyre_block_start(s->count, s->n, rank) * s->element;
}

static uint64_t block_bytes(const struct gyre_slice *s, uint32_t rank)
{
    return gyre_block_count(s->count, s->n, rank) * s->element;
}

static bool one_shot(const struct gyre_slice *s)
{
    return all_bytes(s) <= (s->small ? s->small : ONE_SHOT_BYTES);
}

static uint32_t exchange_rounds(const struct gyre_slice *s)
{
    return (s->n - 1 + PEERS_PER_ROUND - 1) / PEERS_PER_ROUND;
}

/* The peers of one exchange round, as distances first … last; the sender stands to the left of the
 * receiver. */
struct reach {
    uint64_t first, last;
};

static struct reach reach_of(const struct gyre_slice *s, uint64_t exchange)
{
    uint64_t first = exchange * PEERS_PER_ROUND + 1, last = first + PEERS_PER_ROUND - 1;
    return (struct reach){first, last < s->n ? last : s->n - 1};
}

static uint32_t right(const struct gyre_slice *s, uint64_t distance)
{
    return (uint32_t)((s->rank + distance) % s->n);
}

static uint32_t left(const struct gyre_slice *s, uint64_t distance)
{
    return (uint32_t)((s->rank + s->n - distance) % s->n);
}

/* Where a peer's contribution waits: one slot for each other rank, by rank, `bytes` long. */
static struct gyre_place slot(const struct gyre_slice *s, uint32_t peer, uint64_t bytes)
{
    return gyre_at(GYRE_SCRATCH, (peer < s->rank ? peer : peer - 1) * bytes);
}

/* -- all-reduce: collect contributions to my share, fold them, and (two-shot) spread the result -
 */

static uint64_t share_at(const struct gyre_slice *s, uint32_t rank)
{
    return one_shot(s) ? 0 : block_at(s, rank);
}

static uint64_t share_bytes(const struct gyre_slice *s, uint32_t rank)
{
    return one_shot(s) ? all_bytes(s) : block_bytes(s, rank);
}

static void collect(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    uint64_t own = share_bytes(s, s->rank);
    for (uint64_t d = reach.first; d <= reach.last; d++)
        gyre_round_recv(round, left(s, d), slot(s, left(s, d), own), own);
    for (uint64_t d = reach.first; d <= reach.last; d++)
        gyre_round_send(round, right(s, d), gyre_at(GYRE_INPUT, share_at(s, right(s, d))),
                        share_bytes(s, right(s, d)));
}

static void fold(const struct gyre_slice *s, struct gyre_round *round)
{
    uint64_t at = share_at(s, s->rank), own = share_bytes(s, s->rank);
    gyre_round_reduce(round, gyre_at(GYRE_OUTPUT, at), own, GYRE_STEP_FINAL);
    for (uint32_t rank = 0; rank < s->n; rank++)
        gyre_round_source(round, rank == s->rank ? gyre_at(GYRE_INPUT, at) : slot(s, rank, own));
}

static void spread(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    for (uint64_t d = reach.first; d <= reach.last; d++)
        gyre_round_recv(round, left(s, d), gyre_at(GYRE_OUTPUT, block_at(s, left(s, d))),
                        block_bytes(s, left(s, d)));
    for (uint64_t d = reach.first; d <= reach.last; d++)
        gyre_round_send(round, right(s, d), gyre_at(GYRE_OUTPUT, block_at(s, s->rank)),
                        block_bytes(s, s->rank));
}

static void all_reduce(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t exchanges = exchange_rounds(s);
    if (index < exchanges)
        collect(s, reach_of(s, index), round);
    else if (index == exchanges)
        fold(s, round);
    else
        spread(s, reach_of(s, index - exchanges - 1), round);
}

/* -- broadcast: the root scatters (one-shot: everything to everyone), then all give the rest ----
 */

static void scatter(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    uint64_t to_root = (s->rank + (uint64_t)s->n - s->root) % s->n;
    if (to_root >= reach.first && to_root <= reach.last)
        gyre_round_recv(round, s->root, gyre_at(GYRE_OUTPUT, share_at(s, s->rank)),
                        share_bytes(s, s->rank));
    for (uint64_t d = reach.first; s->rank == s->root && d <= reach.last; d++)
        gyre_round_send(round, right(s, d), gyre_at(GYRE_INPUT, share_at(s, right(s, d))),
                        share_bytes(s, right(s, d)));
}

static void gather(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    enum gyre_buffer from = s->rank == s->root ? GYRE_INPUT : GYRE_OUTPUT;
    for (uint64_t d = reach.first; s->rank != s->root && d <= reach.last; d++)
        gyre_round_recv(round, left(s, d), gyre_at(GYRE_OUTPUT, block_at(s, left(s, d))),
                        block_bytes(s, left(s, d)));
    for (uint64_t d = reach.first; d <= reach.last; d++)
        if (right(s, d) != s->root)
            gyre_round_send(round, right(s, d), gyre_at(from, block_at(s, s->rank)),
                            block_bytes(s, s->rank));
}

static void broadcast(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t exchanges = exchange_rounds(s);
    if (index < exchanges)
        scatter(s, reach_of(s, index), round);
    else
        gather(s, reach_of(s, index - exchanges), round);
    if (index == 0 && s->rank == s->root)
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_INPUT, 0), all_bytes(s));
}

/* -- the entry --------------------------------------------------------------------------------- */

static void direct_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    s->verb == GYRE_VERB_ALL_REDUCE ? all_reduce(s, index, round) : broadcast(s, index, round);
}

static struct gyre_extent direct_extent(const struct gyre_slice *s)
{
    uint32_t peers = s->n - 1 < PEERS_PER_ROUND ? s->n - 1 : PEERS_PER_ROUND;
    uint64_t rounds = (uint64_t)exchange_rounds(s) * (one_shot(s) ? 1 : 2);
    if (s->verb == GYRE_VERB_ALL_REDUCE)
        return (struct gyre_extent){rounds + 1, share_bytes(s, s->rank) * (s->n - 1),
                                    2 * peers + (peers == 0), s->n};
    return (struct gyre_extent){s->n == 1 ? 1 : rounds, 0, 2 * peers + 1, 1};
}

static uint64_t direct_sent_bytes(const struct gyre_slice *s)
{
    uint64_t all = all_bytes(s), own = block_bytes(s, s->rank), others = s->n - 1;
    bool root = s->rank == s->root;
    if (s->verb == GYRE_VERB_ALL_REDUCE)
        return one_shot(s) ? others * all : all - own + others * own;
    if (one_shot(s))
        return root ? others * all : 0;
    return root ? all - own + others * own : (others - 1) * own;
}

const struct gyre_algorithm gyre_algorithm_direct = {
    .name = "direct",
    .summary =
        "everyone to everyone, summed in rank order: one-shot when small, two-shot when large",
    .verbs = 1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_BROADCAST,
    .rank_order = true,
    .extent = direct_extent,
    .round = direct_round,
    .sent_bytes = direct_sent_bytes,
};
