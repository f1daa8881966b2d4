/* The algorithms and their names. */
#ifndef GYRE_COLLECTIVES_ALGORITHMS_TABLE_H
#define GYRE_COLLECTIVES_ALGORITHMS_TABLE_H

#include "collectives/schedule/schedule.h"

/* Every algorithm; NULL ends the list. */
extern const struct gyre_algorithm *const gyre_algorithms[];

/* Finds an algorithm by its name; NULL: there is none. */
const struct gyre_algorithm *gyre_algorithm_find(const char *name);

/* Whether the algorithm builds the slice: the algorithm has the verb, and the slice suits it. */
bool gyre_algorithm_builds(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice);

#endif
