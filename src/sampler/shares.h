/* Divides a stretch of samples among ranks by weight: how many each gets, and at which places. */
#ifndef GYRE_SAMPLER_SHARES_H
#define GYRE_SAMPLER_SHARES_H

#include "base/status.h"

#include <stdint.h>

/* Ranks, at most: the weights of so many, in whole numbers, still add up to less than 2^63. */
#define GYRE_SHARES_WORLD_MAX (UINT32_C(1) << 20)

struct gyre_shares {
    uint32_t world;
    uint64_t *count; /* of each rank; they add up to the stretch */
};

/* Divides `whole` samples (at most 2^53) by the weights, one per rank: the largest remainders are
 * rounded up, of equal ones the lower rank's. In whole numbers, so equal on every machine.
 * GYRE_INVALID (a weight that is not positive and finite, named), -ENOMEM. */
int gyre_shares_init(struct gyre_shares *shares, const double *weight, uint32_t world,
                     uint64_t whole, struct gyre_trouble *trouble);
void gyre_shares_deinit(struct gyre_shares *shares);

#define GYRE_SHARES_RATIO_MOST 8

/* Finds weights for ranks of these speeds, each at least 1 in any unit: whole numbers, of which the
 * slowest rank gets as few as possible, 5 at most. No rank gets over a tenth more or less than it
 * is due, so ranks within a tenth of the slowest are alike; but none is due more than
 * GYRE_SHARES_RATIO_MOST times the slowest. Equal on every machine. */
void gyre_shares_from_speeds(const uint64_t *speed, uint32_t world, double *weight);

/* The place in the stretch of sample k of the rank; k is below its count. */
uint64_t gyre_shares_place(const struct gyre_shares *shares, uint32_t rank, uint64_t k);

/* The number of samples of the rank before `place`, which may be the end. */
uint64_t gyre_shares_before(const struct gyre_shares *shares, uint32_t rank, uint64_t place);

#endif
