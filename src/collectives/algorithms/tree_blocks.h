/* Gather and scatter along the binomial tree: the part of tree.c that moves blocks. */
#ifndef GYRE_COLLECTIVES_ALGORITHMS_TREE_BLOCKS_H
#define GYRE_COLLECTIVES_ALGORITHMS_TREE_BLOCKS_H

#include "collectives/schedule/schedule.h"

struct gyre_extent gyre_tree_blocks_extent(const struct gyre_slice *slice);
void gyre_tree_blocks_round(const struct gyre_slice *slice, uint64_t index,
                            struct gyre_round *round);
uint64_t gyre_tree_blocks_sent_bytes(const struct gyre_slice *slice);

#endif
