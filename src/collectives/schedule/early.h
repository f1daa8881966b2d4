/* Which receives of the next round may be posted already. */
#ifndef GYRE_COLLECTIVES_SCHEDULE_EARLY_H
#define GYRE_COLLECTIVES_SCHEDULE_EARLY_H

#include "collectives/schedule/schedule.h"

/* A longer message waits for word that its receive is posted, so its receive is posted a round
 * early where it can be. */
#define GYRE_EARLY_BYTES (UINT64_C(64) << 10)

/* Whether lanes look for early receives in a slice of an operation that has so many. Only a single
 * slice does: while one lane waits others transfer, and lanes whose messages were all asked for
 * early would share the wire and wait together. */
bool gyre_slice_looks_ahead(const struct gyre_slice *slice, uint64_t slices);

/* Whether the receive `step` of the next round may be posted in `round`: the message is long, and
 * no step of `round` reads or writes the place where it arrives. */
bool gyre_round_admits(const struct gyre_slice *slice, const struct gyre_round *round,
                       const struct gyre_step *step);

#endif
