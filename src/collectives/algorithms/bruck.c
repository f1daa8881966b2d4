/* Bruck's algorithms: all-gather and all-to-all in ⌈log₂ n⌉ messages, for small data.
 *
 * All-gather. A rank keeps blocks in SCRATCH in the order rank, rank + 1, … Each step doubles the
 * number of blocks that a rank has; here rank 0 of n = 5:
 *
 *        [0]                gets  1 from 1:    [0 1]
 *        [0 1]              gets 2 3 from 2:   [0 1 2 3]
 *        [0 1 2 3]          gets  4 from 4:    [0 1 2 3 4] ─▶ OUTPUT
 *
 * In step k a rank sends its first 2^k blocks to rank - 2^k and appends as many from rank + 2^k.
 *
 * All-to-all. Block i is this rank's block for rank + i, so it has to travel i places. The binary
 * digits of i say how: in step k all blocks whose digit k is set travel 2^k places, in one message.
 *
 *        i        1   2   3   4   5   6   7         n = 8
 *        step 0   ▪       ▪       ▪       ▪         to rank + 1
 *        step 1       ▪   ▪           ▪   ▪         to rank + 2
 *        step 2               ▪   ▪   ▪   ▪         to rank + 4
 *
 * A rank packs each message first. A block is packed from where it came last: the message of an
 * earlier step, which stays in SCRATCH, or INPUT. So INPUT is read to the end before OUTPUT is
 * written, and in place nothing differs. Blocks have equal lengths, because every rank on a block's
 * way must know the length. A round has at most 32 copies.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/schedule/schedule.h"

#define COPIES_PER_ROUND 32

static uint32_t depth(uint32_t n)
{
    return n == 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

static uint32_t rank_after(const struct gyre_slice *s, uint64_t places)
{
    return (uint32_t)((s->rank + places) % s->n);
}

static uint64_t copy_rounds(uint64_t copies)
{
    return (copies + COPIES_PER_ROUND - 1) / COPIES_PER_ROUND;
}

/* -- all-gather -------------------------------------------------------------------------------- */

static uint32_t growth(const struct gyre_slice *s, uint64_t step)
{
    uint32_t has = 1u << step;
    return has < s->n - has ? has : s->n - has;
}

static struct gyre_place nth(const struct gyre_slice *s, uint32_t blocks)
{
    return gyre_at(GYRE_SCRATCH, gyre_slice_out_run(s, s->rank, blocks));
}

static void grow_gathered(const struct gyre_slice *s, uint64_t step, struct gyre_round *round)
{
    uint32_t has = 1u << step, more = growth(s, step);
    gyre_round_recv(round, rank_after(s, has), nth(s, has),
                    gyre_slice_out_run(s, s->rank + (uint64_t)has, more));
    gyre_round_send(round, rank_after(s, s->n - has),
                    step == 0 ? gyre_at(GYRE_INPUT, 0) : gyre_at(GYRE_SCRATCH, 0),
                    gyre_slice_out_run(s, s->rank, more));
}

static void bruck_keep_own(const struct gyre_slice *s, struct gyre_round *round)
{
    struct gyre_span own = gyre_slice_out_block(s, s->rank);
    if (s->n > 2)
        gyre_round_copy(round, gyre_at(GYRE_SCRATCH, 0), gyre_at(GYRE_INPUT, 0), own.bytes);
    gyre_round_copy(round, gyre_at(GYRE_OUTPUT, own.at), gyre_at(GYRE_INPUT, 0), own.bytes);
}

static void bruck_unpack(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint32_t i = 1 + (uint32_t)index * COPIES_PER_ROUND, end = i + COPIES_PER_ROUND;
    struct gyre_place from = nth(s, i);
    for (; i < end && i < s->n; i++) {
        struct gyre_span block = gyre_slice_out_block(s, rank_after(s, i));
        gyre_round_copy(round, gyre_at(GYRE_OUTPUT, block.at), from, block.bytes);
        from.offset += block.bytes;
    }
}

static void bruck_all_gather(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (index < depth(s->n))
        grow_gathered(s, index, round);
    else
        bruck_unpack(s, index - depth(s->n), round);
    if (index == 0)
        bruck_keep_own(s, round);
}

/* -- all-to-all -------------------------------------------------------------------------------- */

/* How many of the numbers 0 … n-1 have binary digit k set; the j-th of them; and the position of
 * `i` among them. */
static uint64_t with_digit(const struct gyre_slice *s, uint32_t k)
{
    uint64_t half = UINT64_C(1) << k, rest = s->n % (2 * half);
    return s->n / (2 * half) * half + (rest > half ? rest - half : 0);
}

static uint64_t nth_with_digit(uint32_t k, uint64_t j)
{
    uint64_t low = (UINT64_C(1) << k) - 1;
    return (j & ~low) << 1 | (low + 1) | (j & low);
}

static uint64_t place_with_digit(uint32_t k, uint64_t i)
{
    uint64_t low = (UINT64_C(1) << k) - 1;
    return (i >> 1 & ~low) | (i & low);
}

static uint64_t block_bytes(const struct gyre_slice *s)
{
    return s->count * s->element;
}

/* The place of the message of step k in SCRATCH. Behind the last message lies the one being
 * packed. */
static uint64_t message_at(const struct gyre_slice *s, uint32_t k)
{
    uint64_t blocks = 0;
    for (uint32_t earlier = 0; earlier < k; earlier++)
        blocks += with_digit(s, earlier);
    return blocks * block_bytes(s);
}

/* The place of block i after the steps below k. */
static struct gyre_place whereabouts(const struct gyre_slice *s, uint32_t k, uint64_t i)
{
    uint64_t done = i & ((UINT64_C(1) << k) - 1);
    if (done == 0)
        return gyre_at(GYRE_INPUT, gyre_slice_in_block(s, rank_after(s, i)).at);
    uint32_t last = 63 - (uint32_t)__builtin_clzll(done);
    return gyre_at(GYRE_SCRATCH, message_at(s, last) + place_with_digit(last, i) * block_bytes(s));
}

static void bruck_pack(const struct gyre_slice *s, uint32_t k, uint64_t index,
                       struct gyre_round *round)
{
    uint64_t j = index * COPIES_PER_ROUND, end = j + COPIES_PER_ROUND;
    uint64_t at = message_at(s, depth(s->n));
    for (; j < end && j < with_digit(s, k); j++)
        gyre_round_copy(round, gyre_at(GYRE_SCRATCH, at + j * block_bytes(s)),
                        whereabouts(s, k, nth_with_digit(k, j)), block_bytes(s));
}

static void go_on(const struct gyre_slice *s, uint32_t k, struct gyre_round *round)
{
    uint64_t bytes = with_digit(s, k) * block_bytes(s);
    gyre_round_recv(round, rank_after(s, s->n - (1u << k)), gyre_at(GYRE_SCRATCH, message_at(s, k)),
                    bytes);
    gyre_round_send(round, rank_after(s, 1u << k),
                    gyre_at(GYRE_SCRATCH, message_at(s, depth(s->n))), bytes);
}

/* Copies blocks to OUTPUT: block i has come from rank - i. */
static void arrive(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    uint64_t i = index * COPIES_PER_ROUND, end = i + COPIES_PER_ROUND;
    for (; i < end && i < s->n; i++)
        gyre_round_copy(round,
                        gyre_at(GYRE_OUTPUT, gyre_slice_out_block(s, rank_after(s, s->n - i)).at),
                        whereabouts(s, depth(s->n), i), block_bytes(s));
}

static void bruck_all_to_all(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    for (uint32_t k = 0; k < depth(s->n); k++) {
        uint64_t packing = copy_rounds(with_digit(s, k));
        if (index < packing) {
            bruck_pack(s, k, index, round);
            return;
        }
        if (index == packing) {
            go_on(s, k, round);
            return;
        }
        index -= packing + 1;
    }
    arrive(s, index, round);
}

/* -- the entry --------------------------------------------------------------------------------- */

static bool bruck_suits(const struct gyre_slice *s)
{
    return s->verb == GYRE_VERB_ALL_GATHER || (!s->in.count && !s->out.count);
}

static void bruck_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    if (s->verb == GYRE_VERB_ALL_GATHER)
        bruck_all_gather(s, index, round);
    else
        bruck_all_to_all(s, index, round);
}

static struct gyre_extent bruck_extent(const struct gyre_slice *s)
{
    uint64_t rounds = copy_rounds(s->n), scratch;
    if (s->verb == GYRE_VERB_ALL_GATHER) {
        rounds = s->n == 1 ? 1 : depth(s->n) + copy_rounds(s->n - 1);
        scratch = s->n == 1 ? 0 : gyre_slice_out_run(s, s->rank, s->n);
    } else {
        for (uint32_t k = 0; k < depth(s->n); k++)
            rounds += copy_rounds(with_digit(s, k)) + 1;
        scratch = message_at(s, depth(s->n)) + s->n / 2 * block_bytes(s);
    }
    return (struct gyre_extent){rounds, scratch, COPIES_PER_ROUND + 1, COPIES_PER_ROUND + 1};
}

/* All-gather sends the blocks that the receiver lacks, all-to-all each block once per set digit. */
static uint64_t bruck_sent_bytes(const struct gyre_slice *s)
{
    uint64_t bytes = 0;
    if (s->verb == GYRE_VERB_ALL_TO_ALL)
        return message_at(s, depth(s->n));
    for (uint32_t step = 0; step < depth(s->n); step++)
        bytes += gyre_slice_out_run(s, s->rank, growth(s, step));
    return bytes;
}

const struct gyre_algorithm gyre_algorithm_bruck = {
    .name = "bruck",
    .summary = "log2(n) messages of many small blocks: all_gather doubles, all_to_all by digits",
    .verbs = 1u << GYRE_VERB_ALL_GATHER | 1u << GYRE_VERB_ALL_TO_ALL,
    .suits = bruck_suits,
    .extent = bruck_extent,
    .round = bruck_round,
    .sent_bytes = bruck_sent_bytes,
};
