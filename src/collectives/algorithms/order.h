/* Ranks in the order of their nodes. A walk from place to place enters and leaves each node once,
 * wherever its ranks are. Without a layout all ranks are on one node, and places are ranks. */
#ifndef GYRE_COLLECTIVES_ALGORITHMS_ORDER_H
#define GYRE_COLLECTIVES_ALGORITHMS_ORDER_H

#include "collectives/schedule/schedule.h"

static inline uint32_t gyre_order_place(const struct gyre_slice *slice, uint32_t rank)
{
    return slice->layout ? slice->layout->place[rank] : rank;
}

static inline uint32_t gyre_order_rank(const struct gyre_slice *slice, uint32_t place)
{
    return slice->layout ? slice->layout->order[place] : place;
}

/* The rank `places` places after this one; the first place follows the last. */
static inline uint32_t gyre_order_after(const struct gyre_slice *slice, uint64_t places)
{
    uint64_t place = gyre_order_place(slice, slice->rank) + places;
    return gyre_order_rank(slice, (uint32_t)(place % slice->n));
}

#endif
