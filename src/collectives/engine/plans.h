/* The plans that an engine keeps. */
#ifndef GYRE_COLLECTIVES_ENGINE_PLANS_H
#define GYRE_COLLECTIVES_ENGINE_PLANS_H

#include "collectives/engine/flight.h"

/* Finds the plan of a shape, or makes one and gives lanes the storage for it. */
int gyre_engine_plan(struct gyre_engine *engine, const struct gyre_shape *shape,
                     struct gyre_plan **plan, struct gyre_trouble *trouble);

/* Frees all plans. */
void gyre_plans_drop(struct gyre_engine *engine);

#endif
