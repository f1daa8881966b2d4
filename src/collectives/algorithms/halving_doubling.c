/* Recursive halving, then doubling: all-reduce in 2 ⌈log₂ n⌉ exchanges, which together send no byte
 * more than the ring. For data between small (doubling: fewer exchanges) and large (ring:
 * neighbours only).
 *
 * The data are n blocks. The group of all ranks falls into two halves. Each rank gives the blocks
 * of the other half to its counterpart there and adds what the counterpart gives for its own. Then
 * each half does the same by itself, until rank r is alone with block r, complete. Here n = 4:
 *
 *              rank 0        rank 1        rank 2        rank 3
 *           [ a b C D ]   [ a b C D ]   [ A B c d ]   [ A B c d ]     0 ⇄ 2   1 ⇄ 3   half
 *           [ a₂B₂    ]   [ A₂b₂    ]   [     c₂D₂]   [     C₂d₂]     0 ⇄ 1   2 ⇄ 3   a quarter
 *           [ a₄      ]   [   b₄    ]   [     c₄  ]   [       d₄]     ₂: of two ranks, ₄: complete
 *
 * The way back is the same exchanges in reverse order; each doubles what a rank holds.
 *
 * Any n will do. In an odd group one half has a rank more, which finds no counterpart. That rank
 * gives to the last rank of the other half, and gets back from there. It need not send all its data
 * in advance, as where n is first rounded to a power of two. Here n = 3:
 *
 *           0 ⇄ 2,  1 ─▶ 2      then      0 ⇄ 1      then back      0 ⇄ 1,      0 ⇄ 2,  1 ◀─ 2
 *
 * The way there alone is reduce-scatter, the way back all-gather.
 *
 * This algorithm is the k-nomial with k = 2; knomial.c builds it.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/algorithms/knomial.h"

#define RADIX 2

static struct gyre_extent halving_extent(const struct gyre_slice *s)
{
    return gyre_knomial_extent(s, RADIX);
}

static void halving_round(const struct gyre_slice *s, uint64_t index, struct gyre_round *round)
{
    gyre_knomial_round(s, RADIX, index, round);
}

static uint64_t halving_sent_bytes(const struct gyre_slice *s)
{
    return gyre_knomial_sent_bytes(s, RADIX);
}

const struct gyre_algorithm gyre_algorithm_halving_doubling = {
    .name = "halving_doubling",
    .summary =
        "recursive halving and doubling: log2(n) exchanges each way, any n, the ring's bytes",
    .verbs = GYRE_KNOMIAL_VERBS,
    .suits = gyre_knomial_suits,
    .extent = halving_extent,
    .round = halving_round,
    .sent_bytes = halving_sent_bytes,
};
