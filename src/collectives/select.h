/* Which algorithm, and how it is cut. A pure function of what is equal on all ranks. */
#ifndef GYRE_COLLECTIVES_SELECT_H
#define GYRE_COLLECTIVES_SELECT_H

#include "collectives/plan.h"

struct gyre_choice {
    const struct gyre_algorithm *algorithm;
    uint64_t slice_bytes;
    uint64_t small; /* as in struct gyre_slice */
    uint32_t lanes;
};

struct gyre_choice gyre_select(const struct gyre_shape *shape,
                               const struct gyre_plan_options *options);

#endif
