/* The numbers 0 … n-1 in the order that torch or numpy would give for the same seed. */
#ifndef GYRE_SAMPLER_PERMUTATION_H
#define GYRE_SAMPLER_PERMUTATION_H

#include "base/status.h"
#include "sampler/mt19937.h"

#include <stdbool.h>
#include <stdint.h>

/* Entries are 4 bytes where n < 2^32, else 8; without entries the order is 0 … n-1. */
struct gyre_permutation {
    uint64_t n;
    uint32_t *narrow;
    uint64_t *wide;
};

/* Allocates the entries, without values. -ENOMEM with the size named. */
int gyre_permutation_init(struct gyre_permutation *order, uint64_t n, struct gyre_trouble *trouble);
void gyre_permutation_deinit(struct gyre_permutation *order);

static inline uint64_t gyre_permutation_at(const struct gyre_permutation *order, uint64_t i)
{
    return order->wide ? order->wide[i] : order->narrow ? order->narrow[i] : i;
}

/* The order of torch.randperm(n) on the CPU: forward, or inside out from 214,748,364 on. */
void gyre_permutation_randperm(struct gyre_permutation *order, struct gyre_mt19937 *mt);

/* The order of numpy.random.RandomState.permutation(n), by which scikit-learn's train_test_split
 * cuts. */
void gyre_permutation_numpy(struct gyre_permutation *order, struct gyre_mt19937 *mt);

/* The two ways of randperm, each for any n, and which of them it takes. */
void gyre_permutation_forward(struct gyre_permutation *order, struct gyre_mt19937 *mt);
void gyre_permutation_inside_out(struct gyre_permutation *order, struct gyre_mt19937 *mt);
bool gyre_permutation_is_inside_out(uint64_t n);

#endif
