/* Shares by weight.
 *
 * How many. Weights become whole numbers by one power of two, which is exact as long as 42 bits
 * hold them all. Then all arithmetic is that of integers: rank r's part of `whole` is whole · w[r]
 * / Σw, rounded down, and the rest goes to the largest remainders.
 *
 * Where. Sample k of a rank with `count` samples is due at the time (2k + 1) / (2 · count) of the
 * stretch. Places are given in the order of these times, at equal times to the lower rank first:
 *
 *     count 4, 2      rank 0    ⅛       ⅜       ⅝       ⅞
 *                     rank 1        ¼               ¾
 *                     places    0   1   0       0   1   0
 *
 * So every rank moves through the stretch at its own even pace, and a run that stops in the middle
 * has given all ranks nearly their part. With equal counts, or counts that differ by one, the
 * places of rank r are r, r + world, r + 2 · world, … A place is computed without those before it:
 *
 *     place(r, k) = Σ over ranks s of how many of their samples are due before that time
 *
 * From speeds. A rank is due d · its speed / the slowest's, where the slowest gets d. Rounding to a
 * whole number errs by a half at most, so d = 5 is within a tenth for all. Mostly a smaller d is
 * within a tenth too, and the smallest such d is taken. */
#include "sampler/shares.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define WEIGHT_BITS 42 /* of the largest; 2^20 of them stay below 2^63 */
#define LEAST_MOST  5  /* the slowest's, from speeds */

__extension__ typedef unsigned __int128 wide;

struct rest {
    uint64_t rest;
    uint32_t rank;
};

/* -- how many ---------------------------------------------------------------------------------- */

static int find_largest(const double *weight, uint32_t world, double *largest,
                        struct gyre_trouble *trouble)
{
    *largest = 0;
    for (uint32_t r = 0; r < world; r++) {
        if (!isfinite(weight[r]) || weight[r] <= 0)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "the share of rank %u is %g: shares are positive and finite", r,
                                    weight[r]);
        if (weight[r] > *largest)
            *largest = weight[r];
    }
    return 0;
}

static int by_rest(const void *one, const void *other)
{
    const struct rest *a = one, *b = other;
    if (a->rest != b->rest)
        return a->rest > b->rest ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void divide_positions(struct gyre_shares *shares, const double *weight, double largest,
                             uint64_t whole, struct rest *rests)
{
    int exponent;
    uint64_t sum = 0, left = whole;
    frexp(largest, &exponent);
    for (uint32_t r = 0; r < shares->world; r++)
        sum += shares->count[r] = (uint64_t)ldexp(weight[r], WEIGHT_BITS - exponent);
    for (uint32_t r = 0; r < shares->world; r++) {
        wide part = (wide)whole * shares->count[r];
        rests[r] = (struct rest){(uint64_t)(part % sum), r};
        left -= shares->count[r] = (uint64_t)(part / sum);
    }
    qsort(rests, shares->world, sizeof *rests, by_rest);
    for (uint64_t i = 0; i < left; i++)
        shares->count[rests[i].rank]++;
}

int gyre_shares_init(struct gyre_shares *shares, const double *weight, uint32_t world,
                     uint64_t whole, struct gyre_trouble *trouble)
{
    double largest;
    *shares = (struct gyre_shares){.world = world};
    int status = find_largest(weight, world, &largest, trouble);
    if (status)
        return status;
    struct rest *rests = calloc(world, sizeof *rests);
    shares->count = calloc(world, sizeof *shares->count);
    if (rests && shares->count)
        divide_positions(shares, weight, largest, whole, rests);
    else
        status = gyre_trouble_set(trouble, -ENOMEM, "no memory for the shares of %u ranks", world);
    free(rests);
    return status;
}

void gyre_shares_deinit(struct gyre_shares *shares)
{
    free(shares->count);
    *shares = (struct gyre_shares){0};
}

/* -- from speeds ------------------------------------------------------------------------------- */

/* Finds weights for this `least`; false: some rank would be off by more than a tenth. */
static bool weigh(const uint64_t *speed, uint32_t world, uint64_t slowest, uint64_t least,
                  double *weight)
{
    bool good = true;
    for (uint32_t r = 0; r < world; r++) {
        wide most = (wide)slowest * GYRE_SHARES_RATIO_MOST;
        wide due = least * (speed[r] < most ? speed[r] : most); /* in parts of the slowest */
        uint64_t whole = (uint64_t)((2 * due + slowest) / (2 * (wide)slowest));
        wide got = (wide)whole * slowest;
        good = good && 10 * (got > due ? got - due : due - got) <= due;
        weight[r] = (double)whole;
    }
    return good;
}

void gyre_shares_from_speeds(const uint64_t *speed, uint32_t world, double *weight)
{
    uint64_t slowest = UINT64_MAX, least = 1;
    for (uint32_t r = 0; r < world; r++)
        slowest = speed[r] < slowest ? speed[r] : slowest;
    while (!weigh(speed, world, slowest, least, weight) && least < LEAST_MOST)
        least++;
}

/* -- where ------------------------------------------------------------------------------------- */

/* The number of samples j of rank s that are due before sample k of rank r, or with it where s goes
 * first: (2j + 1) · count[r] < (2k + 1) · count[s]. */
static uint64_t due_before(const struct gyre_shares *shares, uint32_t s, uint32_t r, uint64_t k)
{
    wide time = (wide)(2 * k + 1) * shares->count[s], count = shares->count[r];
    uint64_t odd_limit = (uint64_t)((s < r ? time : time ? time - 1 : 0) / count);
    return (odd_limit + 1) / 2;
}

uint64_t gyre_shares_place(const struct gyre_shares *shares, uint32_t rank, uint64_t k)
{
    uint64_t place = k;
    for (uint32_t s = 0; s < shares->world; s++)
        if (s != rank)
            place += due_before(shares, s, rank, k);
    return place;
}

uint64_t gyre_shares_before(const struct gyre_shares *shares, uint32_t rank, uint64_t place)
{
    uint64_t low = 0, high = shares->count[rank];
    while (low < high) {
        uint64_t k = low + (high - low) / 2;
        if (gyre_shares_place(shares, rank, k) < place)
            low = k + 1;
        else
            high = k;
    }
    return low;
}
