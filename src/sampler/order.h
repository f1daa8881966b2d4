/* What a sampler's position is worth only together with. */
#ifndef GYRE_SAMPLER_ORDER_H
#define GYRE_SAMPLER_ORDER_H

#include <gyre/sampler.h>

void gyre_sampler_order(const struct gyre_sampler *sampler, uint64_t *samples, uint64_t *seed);

#endif
