/* Parents and children in the binomial tree, which tree.c draws. */
#ifndef GYRE_COLLECTIVES_ALGORITHMS_BINOMIAL_H
#define GYRE_COLLECTIVES_ALGORITHMS_BINOMIAL_H

#include "collectives/algorithms/order.h"
#include "collectives/schedule/schedule.h"

static inline uint32_t gyre_tree_depth(uint32_t n)
{
    return n == 1 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

/* This rank's number in the tree, and the rank of a number. The root's number is 0. */
static inline uint32_t gyre_tree_number(const struct gyre_slice *slice)
{
    uint64_t place = gyre_order_place(slice, slice->rank) + (uint64_t)slice->n;
    return (uint32_t)((place - gyre_order_place(slice, slice->root)) % slice->n);
}

static inline uint32_t gyre_tree_rank(const struct gyre_slice *slice, uint64_t number)
{
    uint64_t place = number + gyre_order_place(slice, slice->root);
    return gyre_order_rank(slice, (uint32_t)(place % slice->n));
}

/* Whether the edge of this weight has `v` as its left end (the parent) or as its right end (the
 * child). */
static inline bool gyre_tree_is_parent(const struct gyre_slice *slice, uint32_t v, uint64_t weight)
{
    return v % (2 * weight) == 0 && v + weight < slice->n;
}

static inline bool gyre_tree_is_child(uint32_t v, uint64_t weight)
{
    return v % (2 * weight) == weight;
}

/* Whether v has children: a parent has a child at weight 1. */
static inline bool gyre_tree_has_child(const struct gyre_slice *slice, uint32_t v)
{
    return gyre_tree_is_parent(slice, v, 1);
}

#endif
