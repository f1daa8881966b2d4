/* Direct: every rank talks to every other, and one REDUCE sums each element, over ranks 0 … n-1 in
 * that order.
 *
 *     one-shot (small)                         two-shot (large)
 *
 *     every rank sends all its data to all;    every rank sends block j to rank j;
 *     every rank adds n sources itself         rank j adds n sources into its own block j
 *                                              and sends the finished block to all
 *
 *          0 ──▶ 1                                  block 1 of 0 ─┐
 *          0 ──▶ 2      1 exchange                  block 1 of 1 ─┼─▶ 1: sum ──▶ 0, 2   2 exchanges
 *          …                                        block 1 of 2 ─┘
 *
 * One-shot moves (n-1) × the data in one exchange, two-shot 2(n-1)/n × in two. Both fold the same
 * sources in the same order in one REDUCE. So the bits of a result depend neither on the size, nor
 * on the cut into slices, nor on the placement of ranks: direct is an algorithm for users who
 * compare runs.
 *
 * The other verbs are parts of these two. Reduce-scatter stops after the sum, and all-gather starts
 * there. Reduce sends the finished blocks to the root instead of to all; one-shot, only the root
 * adds. Broadcast has the same two shapes with one source: the root sends everything to all, or it
 * scatters blocks and all gather them. No rank sends to the root of a broadcast, which has
 * everything from the start. Scatter and gather are the first exchange, and the same backwards.
 *
 * An exchange with n-1 peers is cut into rounds of 32. In round k a rank sends to the ranks at
 * distance 32k+1 … 32k+32 to its right and receives from the ranks as far to its left. So a message
 * stands in the same round of both ends, no peer is met by all at once, and no plan grows with n.
 *
 * All-to-all pairs ranks instead: i and j meet in turn (i + j) mod n, 32 turns to a round. So
 * each of the two sends the block in whose place it receives one. A rank that works in place saves
 * these 32 blocks in the round before and sends from there.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/schedule/schedule.h"

#define PEERS_PER_ROUND 32
#define ONE_SHOT_BYTES  (UINT64_C(4) << 10) /* unless the slice says otherwise */

static uint64_t direct_all_bytes(const struct gyre_slice *s)
{
    return s->count * s->element;
}

static bool one_shot(const struct gyre_slice *s)
{
    return direct_all_bytes(s) <= (s->small ? s->small : ONE_SHOT_BYTES);
}

static bool is_root(const struct gyre_slice *s)
{
    return s->rank == s->root;
}

static uint32_t direct_exchange_rounds(const struct gyre_slice *s)
{
    return (s->n - 1 + PEERS_PER_ROUND - 1) / PEERS_PER_ROUND;
}

/* The part of the data that `rank` sums or has: one-shot, the whole. */
static struct gyre_span share(const struct gyre_slice *s, uint32_t rank)
{
    bool blocks = gyre_verb_scatters(s->verb) || gyre_verb_gathers(s->verb);
    return one_shot(s) && !blocks ? (struct gyre_span){0, direct_all_bytes(s)}
                                  : gyre_slice_share(s, rank);
}

/* The peers of one exchange round, as distances first … last. The sender stands to the left of the
 * receiver. */
struct reach {
    uint64_t first, last;
};

static struct reach reach_of(const struct gyre_slice *s, uint64_t exchange)
{
    uint64_t first = exchange * PEERS_PER_ROUND + 1, last = first + PEERS_PER_ROUND - 1;
    return (struct reach){first, last < s->n ? last : s->n - 1};
}

static uint32_t direct_right(const struct gyre_slice *s, uint64_t distance)
{
    return (uint32_t)((s->rank + distance) % s->n);
}

static uint32_t direct_left(const struct gyre_slice *s, uint64_t distance)
{
    return (uint32_t)((s->rank + s->n - distance) % s->n);
}

static bool within(struct reach reach, uint64_t distance)
{
    return distance >= reach.first && distance <= reach.last;
}

/* -- collect contributions to my share and fold them ------------------------------------------- */

/* The place where a peer's contribution waits: one slot for each other rank, by rank. The slot
 * behind the last is for the sum of a rank without OUTPUT. */
static struct gyre_place direct_slot(const struct gyre_slice *s, uint32_t peer)
{
    return gyre_at(GYRE_SCRATCH, (peer < s->rank ? peer : peer - 1) * share(s, s->rank).bytes);
}

static struct gyre_place finished(const struct gyre_slice *s)
{
    if (gyre_slice_blocks(s, GYRE_OUTPUT) == 0)
        return gyre_at(GYRE_SCRATCH, (s->n - 1) * share(s, s->rank).bytes);
    return gyre_at(GYRE_OUTPUT, s->verb == GYRE_VERB_REDUCE_SCATTER ? 0 : share(s, s->rank).at);
}

static bool folds(const struct gyre_slice *s, uint32_t rank)
{
    return s->verb != GYRE_VERB_REDUCE || !one_shot(s) || rank == s->root;
}

static void collect(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    for (uint64_t d = reach.first; folds(s, s->rank) && d <= reach.last; d++)
        gyre_round_recv(round, direct_left(s, d), direct_slot(s, direct_left(s, d)),
                        share(s, s->rank).bytes);
    for (uint64_t d = reach.first; d <= reach.last; d++)
        if (folds(s, direct_right(s, d)))
            gyre_round_send(round, direct_right(s, d),
                            gyre_at(GYRE_INPUT, share(s, direct_right(s, d)).at),
                            share(s, direct_right(s, d)).bytes);
}

static void fold_whole(const struct gyre_slice *s, struct gyre_round *round)
{
    struct gyre_span own = share(s, s->rank);
    if (!folds(s, s->rank))
        return;
    gyre_round_reduce(round, finished(s), own.bytes, GYRE_STEP_FINAL);
    for (uint32_t rank = 0; rank < s->n; rank++)
        gyre_round_source(round,
                          rank == s->rank ? gyre_at(GYRE_INPUT, own.at) : direct_slot(s, rank));
}

/* -- give what I have to all, or to the root --------------------------------------------------- */

/* Whether a rank receives nothing: the root of a broadcast, which has its share in INPUT. */
static bool needs_nothing(const struct gyre_slice *s, uint32_t rank)
{
    return s->verb == GYRE_VERB_BROADCAST && rank == s->root;
}

static void direct_spread(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    struct gyre_span own = share(s, s->rank);
    struct gyre_place mine = gyre_at(GYRE_OUTPUT, own.at);
    if (s->verb == GYRE_VERB_ALL_GATHER)
        mine = gyre_at(GYRE_INPUT, 0);
    else if (needs_nothing(s, s->rank))
        mine.buffer = GYRE_INPUT;
    for (uint64_t d = reach.first; !needs_nothing(s, s->rank) && d <= reach.last; d++)
        gyre_round_recv(round, direct_left(s, d),
                        gyre_at(GYRE_OUTPUT, share(s, direct_left(s, d)).at),
                        share(s, direct_left(s, d)).bytes);
    for (uint64_t d = reach.first; d <= reach.last; d++)
        if (!needs_nothing(s, direct_right(s, d)))
            gyre_round_send(round, direct_right(s, d), mine, own.bytes);
}

static void deliver(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    uint64_t to_root = (s->root + (uint64_t)s->n - s->rank) % s->n;
    struct gyre_place mine = s->verb == GYRE_VERB_GATHER ? gyre_at(GYRE_INPUT, 0) : finished(s);
    for (uint64_t d = reach.first; is_root(s) && d <= reach.last; d++)
        gyre_round_recv(round, direct_left(s, d),
                        gyre_at(GYRE_OUTPUT, share(s, direct_left(s, d)).at),
                        share(s, direct_left(s, d)).bytes);
    if (within(reach, to_root))
        gyre_round_send(round, s->root, mine, share(s, s->rank).bytes);
}

static void hand_out(const struct gyre_slice *s, struct reach reach, struct gyre_round *round)
{
    struct gyre_span own = share(s, s->rank);
    uint64_t from_root = (s->rank + (uint64_t)s->n - s->root) % s->n;
    if (within(reach, from_root))
        gyre_round_recv(round, s->root,
                        gyre_at(GYRE_OUTPUT, s->verb == GYRE_VERB_SCATTER ? 0 : own.at), own.bytes);
    for (uint64_t d = reach.first; is_root(s) && d <= reach.last; d++)
        gyre_round_send(round, direct_right(s, d),
                        gyre_at(GYRE_INPUT, share(s, direct_right(s, d)).at),
                        share(s, direct_right(s, d)).bytes);
}

/* -- all-to-all -------------------------------------------------------------------------------- */

static uint64_t pair_rounds(const struct gyre_slice *s)
{
    return (s->n + (uint64_t)PEERS_PER_ROUND - 1) / PEERS_PER_ROUND;
}

/* The turns of a pair of rounds, and the rank that this rank meets in a turn. */
static struct reach turns_of(const struct gyre_slice *s, uint64_t pair)
{
    uint64_t first = pair * PEERS_PER_ROUND, last = first + PEERS_PER_ROUND - 1;
    return (struct reach){first, last < s->n ? last : s->n - 1};
}

static uint32_t partner(const struct gyre_slice *s, uint64_t turn)
{
    return (uint32_t)((turn + s->n - s->rank) % s->n);
}

static void swap_with(const struct gyre_slice *s, uint32_t peer, uint64_t saved,
                      struct gyre_round *round)
{
    struct gyre_span in = gyre_slice_in_block(s, peer), out = gyre_slice_out_block(s, peer);
    struct gyre_place from =
        s->in_place ? gyre_at(GYRE_SCRATCH, saved) : gyre_at(GYRE_INPUT, in.at);
    gyre_round_recv(round, peer, gyre_at(GYRE_OUTPUT, out.at), out.bytes);
    gyre_round_send(round, peer, from, in.bytes);
}

static void direct_all_to_all(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    struct reach turns = turns_of(s, index / 2);
    uint64_t saved = 0;
    for (uint64_t turn = turns.first; turn <= turns.last; turn++) {
        uint32_t peer = partner(s, turn);
        struct gyre_span in = gyre_slice_in_block(s, peer);
        if (index % 2 == 1 && peer == s->rank)
            gyre_round_copy(round, gyre_at(GYRE_OUTPUT, gyre_slice_out_block(s, peer).at),
                            gyre_at(GYRE_INPUT, in.at), in.bytes);
        if (peer == s->rank)
            continue;
        if (index % 2 == 1)
            swap_with(s, peer, saved, round);
        else if (s->in_place)
            gyre_round_copy(round, gyre_at(GYRE_SCRATCH, saved), gyre_at(GYRE_INPUT, in.at),
                            in.bytes);
        saved += in.bytes;
    }
}

static uint64_t most_saved(const struct gyre_slice *s)
{
    uint64_t most = 0;
    for (uint64_t pair = 0; pair < pair_rounds(s); pair++) {
        struct reach turns = turns_of(s, pair);
        uint64_t saved = 0;
        for (uint64_t turn = turns.first; turn <= turns.last; turn++)
            if (partner(s, turn) != s->rank)
                saved += gyre_slice_in_block(s, partner(s, turn)).bytes;
        most = saved > most ? saved : most;
    }
    return most;
}

/* -- the verbs --------------------------------------------------------------------------------- */

/* Copies the own block where the rank has it already: of a gather, of a scatter, of a broadcast's
 * root. */
static void direct_keep_own(const struct gyre_slice *s, struct gyre_round *round)
{
    struct gyre_span own = share(s, s->rank);
    if (s->verb == GYRE_VERB_ALL_GATHER || (s->verb == GYRE_VERB_GATHER && is_root(s)))
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, own.at), gyre_at(GYRE_INPUT, 0), own.bytes);
    else if (s->verb == GYRE_VERB_SCATTER && is_root(s))
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_INPUT, own.at), own.bytes);
    else if (s->verb == GYRE_VERB_BROADCAST && is_root(s))
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_INPUT, 0),
                        direct_all_bytes(s));
}

static void direct_exchange(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t exchanges = direct_exchange_rounds(s);
    if (s->verb == GYRE_VERB_ALL_GATHER || index >= exchanges)
        direct_spread(s, reach_of(s, index < exchanges ? index : index - exchanges), round);
    else if (s->verb == GYRE_VERB_GATHER)
        deliver(s, reach_of(s, index), round);
    else
        hand_out(s, reach_of(s, index), round);
    if (index == 0)
        direct_keep_own(s, round);
}

static void direct_reduce(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t exchanges = direct_exchange_rounds(s);
    if (index < exchanges)
        collect(s, reach_of(s, index), round);
    else if (index == exchanges)
        fold_whole(s, round);
    else if (s->verb == GYRE_VERB_ALL_REDUCE)
        direct_spread(s, reach_of(s, index - exchanges - 1), round);
    else
        deliver(s, reach_of(s, index - exchanges - 1), round);
}

static void direct_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (gyre_verb_reduces(s->verb))
        direct_reduce(s, index, round);
    else if (s->verb == GYRE_VERB_ALL_TO_ALL)
        direct_all_to_all(s, index, round);
    else
        direct_exchange(s, index, round);
}

static uint64_t direct_rounds(const struct gyre_slice *s)
{
    uint64_t exchanges = direct_exchange_rounds(s), least = s->n == 1;
    switch (s->verb) {
    case GYRE_VERB_ALL_REDUCE:
    case GYRE_VERB_REDUCE:
        return exchanges + 1 + (one_shot(s) ? 0 : exchanges);
    case GYRE_VERB_REDUCE_SCATTER:
        return exchanges + 1;
    case GYRE_VERB_ALL_TO_ALL:
        return 2 * pair_rounds(s);
    case GYRE_VERB_BROADCAST:
        return exchanges * (one_shot(s) ? 1 : 2) + least;
    default:
        return exchanges + least;
    }
}

static uint64_t direct_scratch(const struct gyre_slice *s)
{
    bool homeless = gyre_slice_blocks(s, GYRE_OUTPUT) == 0; /* the sum needs a place in SCRATCH */
    if (s->verb == GYRE_VERB_ALL_TO_ALL)
        return most_saved(s);
    if (!gyre_verb_reduces(s->verb) || !folds(s, s->rank))
        return 0;
    return (s->n - 1 + (uint64_t)homeless) * share(s, s->rank).bytes;
}

static struct gyre_extent direct_extent(const struct gyre_slice *s)
{
    uint32_t peers = s->n - 1 < PEERS_PER_ROUND ? s->n - 1 : PEERS_PER_ROUND;
    if (gyre_verb_reduces(s->verb))
        return (struct gyre_extent){direct_rounds(s), direct_scratch(s), 2 * peers + (peers == 0),
                                    s->n};
    uint64_t idle = s->verb == GYRE_VERB_ALL_TO_ALL ? pair_rounds(s) : 0;
    return (struct gyre_extent){direct_rounds(s), direct_scratch(s), 2 * peers + 1, peers + 1,
                                idle};
}

static uint64_t direct_sent_bytes(const struct gyre_slice *s)
{
    uint64_t own = share(s, s->rank).bytes, others = s->n - 1, rest = direct_all_bytes(s) - own;
    switch (s->verb) {
    case GYRE_VERB_ALL_REDUCE:
        return one_shot(s) ? others * own : rest + others * own;
    case GYRE_VERB_REDUCE:
        return one_shot(s) ? (is_root(s) ? 0 : own) : rest + (is_root(s) ? 0 : own);
    case GYRE_VERB_BROADCAST:
        if (one_shot(s))
            return is_root(s) ? others * own : 0;
        return is_root(s) ? rest + others * own : (others - 1) * own;
    case GYRE_VERB_ALL_GATHER:
        return others * own;
    case GYRE_VERB_GATHER:
        return is_root(s) ? 0 : own;
    case GYRE_VERB_SCATTER:
        return is_root(s) ? gyre_slice_all_bytes(s) - own : 0;
    default: /* everything but the own block */
        return gyre_slice_all_bytes(s) - own;
    }
}

const struct gyre_algorithm gyre_algorithm_direct = {
    .name = "direct",
    .summary =
        "everyone to everyone, summed in rank order: one-shot when small, two-shot when large",
    .verbs = (1u << GYRE_VERBS) - 1,
    .rank_order = true,
    .extent = direct_extent,
    .round = direct_round,
    .sent_bytes = direct_sent_bytes,
};
