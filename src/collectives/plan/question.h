/* Selection: the algorithm of an operation of this communicator, and its cut. A pure function of
 * what is equal on all ranks; collectives/choose/choose.h does the arithmetic. */
#ifndef GYRE_COLLECTIVES_PLAN_QUESTION_H
#define GYRE_COLLECTIVES_PLAN_QUESTION_H

#include "collectives/choose/choose.h"
#include "collectives/choose/preference.h"
#include "collectives/plan/shape.h"

/* The communicator's properties and the caller's settings for plans; equal on all ranks. */
struct gyre_plan_options {
    uint32_t n, rank;
    bool mapped;                              /* every pair of ranks shares memory */
    const struct gyre_layout *layout;         /* NULL: all on one node; outlives the plans */
    enum gyre_link_kind near, far;            /* links inside a node and to the others */
    const struct gyre_preference *preference; /* NULL: none, and the built-in prices */
    const struct gyre_algorithm *algorithm;   /* NULL: select */
    uint64_t slice_bytes;                     /* 0: select */
    uint32_t lanes;                           /* 0: select */
};

/* Chooses for a shape whose unequal blocks have their places filled in. GYRE_INVALID with the
 * story: no algorithm, or not the caller's, builds the operation; -ENOMEM. */
int gyre_select(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                struct gyre_choice *choice, struct gyre_trouble *trouble);

/* Chooses, and always computes choice->cost_ps, on mapped memory too. */
int gyre_select_priced(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                       struct gyre_choice *choice, struct gyre_trouble *trouble);

#endif
