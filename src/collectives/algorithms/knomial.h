/* All-reduce and its two halves by splitting groups: into halves (halving_doubling.c) or into
 * `radix` parts (knomial.c, which builds both). */
#ifndef GYRE_COLLECTIVES_ALGORITHMS_KNOMIAL_H
#define GYRE_COLLECTIVES_ALGORITHMS_KNOMIAL_H

#include "collectives/schedule/schedule.h"

#define GYRE_KNOMIAL_VERBS                                                                         \
    (1u << GYRE_VERB_ALL_REDUCE | 1u << GYRE_VERB_REDUCE_SCATTER | 1u << GYRE_VERB_ALL_GATHER)

/* Whether blocks have equal lengths. */
bool gyre_knomial_suits(const struct gyre_slice *slice);

struct gyre_extent gyre_knomial_extent(const struct gyre_slice *slice, uint32_t radix);
void gyre_knomial_round(const struct gyre_slice *slice, uint32_t radix, uint64_t index,
                        struct gyre_round *round);
uint64_t gyre_knomial_sent_bytes(const struct gyre_slice *slice, uint32_t radix);

#endif
