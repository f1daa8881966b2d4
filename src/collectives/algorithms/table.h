/* The algorithms by name. */
#ifndef GYRE_COLLECTIVES_ALGORITHMS_TABLE_H
#define GYRE_COLLECTIVES_ALGORITHMS_TABLE_H

#include "collectives/schedule/schedule.h"

/* Every algorithm; ends with NULL. */
extern const struct gyre_algorithm *const gyre_algorithms[];

/* Finds an algorithm by its name; NULL if there is none. */
const struct gyre_algorithm *gyre_algorithm_find(const char *name);

/* Does the algorithm build the slice: has it the verb, and does the slice suit it? */
bool gyre_algorithm_builds(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice);

#endif
