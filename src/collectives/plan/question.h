/* Which algorithm, and how it is cut, for an operation of this communicator. A pure function of
 * what is equal on all ranks; collectives/choose/choose.h does the arithmetic. */
#ifndef GYRE_COLLECTIVES_PLAN_QUESTION_H
#define GYRE_COLLECTIVES_PLAN_QUESTION_H

#include "collectives/choose/choose.h"
#include "collectives/plan/plan.h"

/* The places of the shape's unequal blocks are filled in. GYRE_INVALID with the story where no
 * algorithm, or not the one that was asked for, builds it; -ENOMEM. */
int gyre_select(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                struct gyre_choice *choice, struct gyre_trouble *trouble);

/* The same with choice->cost_ps always computed, on mapped memory too. */
int gyre_select_priced(const struct gyre_shape *shape, const struct gyre_plan_options *options,
                       struct gyre_choice *choice, struct gyre_trouble *trouble);

#endif
