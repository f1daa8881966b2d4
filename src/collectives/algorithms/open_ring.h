/* Broadcast and reduce of the ring (ring.c), opened at the root. open_ring.c explains and builds
 * both. */
#ifndef GYRE_COLLECTIVES_ALGORITHMS_OPEN_RING_H
#define GYRE_COLLECTIVES_ALGORITHMS_OPEN_RING_H

#include "collectives/schedule/schedule.h"

struct gyre_extent gyre_open_ring_extent(const struct gyre_slice *slice);
void gyre_open_ring_round(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round);
uint64_t gyre_open_ring_sent_bytes(const struct gyre_slice *slice);

#endif
