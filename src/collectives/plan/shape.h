/* A shape is a caller's request without addresses. All ranks have equal shapes, so a shape is the
 * key of a plan. It says how long INPUT and OUTPUT are and what in place means. */
#ifndef GYRE_COLLECTIVES_PLAN_SHAPE_H
#define GYRE_COLLECTIVES_PLAN_SHAPE_H

#include "collectives/schedule/schedule.h"

#include "device/device.h"

#include <gyre/gyre.h>

struct gyre_shape {
    enum gyre_verb verb;
    enum gyre_type type;
    enum gyre_op op; /* GYRE_SUM where nothing is reduced */
    uint32_t root;
    uint64_t count; /* elements of one block; of the largest, where blocks differ */
    /* all_gather_v: unequal blocks of OUTPUT; `at` NULL: one after the other. The tables are the
     * caller's or the plan's. */
    struct gyre_blocks blocks;
    bool barrier;        /* an all-reduce whose result no rank reads */
    bool in_order;       /* only the left fold over ranks 0 … n-1 is allowed */
    bool in_graph;       /* of a CUDA graph: no EXCHANGE, however short */
    uint32_t calls;      /* of a group that travel as this operation; 0: a single call */
    uint64_t pattern;    /* a hash of all else that must be equal on all ranks for these calls */
    gyre_fold fold;      /* of a reduction that the caller made; NULL: the kernels' own */
    const void *context; /* of `fold` */
};

/* Whether kernels sum in a wider type than the element's, so that a partial sum would be
 * rounded. */
bool gyre_shape_rounds_partials(const struct gyre_shape *shape);

bool gyre_blocks_same(const struct gyre_blocks *a, const struct gyre_blocks *b, uint32_t n);

static inline bool gyre_shape_same(const struct gyre_shape *a, const struct gyre_shape *b,
                                   uint32_t n)
{
    return a->count == b->count && a->type == b->type && a->op == b->op && a->verb == b->verb &&
           a->root == b->root && a->barrier == b->barrier && a->in_order == b->in_order &&
           a->in_graph == b->in_graph && a->pattern == b->pattern && a->fold == b->fold &&
           a->context == b->context &&
           ((!a->blocks.count && !b->blocks.count) || gyre_blocks_same(&a->blocks, &b->blocks, n));
}

uint64_t gyre_shape_hash(const struct gyre_shape *shape, uint32_t n);

/* First element of an unequal block. */
uint64_t gyre_shape_block_at(const struct gyre_shape *shape, uint32_t block);

/* Whether two of n unequal blocks overlap. No block ends beyond memory. */
bool gyre_blocks_overlap(const struct gyre_blocks *blocks, uint32_t n);

/* The bytes of a rank's buffers; 0: the rank has none. */
uint64_t gyre_shape_input_bytes(const struct gyre_shape *shape, uint32_t n, uint32_t rank);
uint64_t gyre_shape_output_bytes(const struct gyre_shape *shape, uint32_t n, uint32_t rank);

/* Bytes from the beginning of the longer buffer to the beginning of the other in place; 0 where
 * both are equally long. */
uint64_t gyre_shape_displacement(const struct gyre_shape *shape, uint32_t rank);

/* Bytes from INPUT to OUTPUT where a rank that has both runs in place, modulo 2⁶⁴. */
uintptr_t gyre_shape_distance(const struct gyre_shape *shape, uint32_t rank);

static inline bool gyre_buffers_overlap(uintptr_t in, uint64_t in_bytes, uintptr_t out,
                                        uint64_t out_bytes)
{
    return in_bytes && out_bytes && in < out + out_bytes && out < in + in_bytes;
}

/* Whether this rank's buffers stand to each other as in place means for the verb. */
bool gyre_shape_in_place(const struct gyre_shape *shape, uint32_t rank, const void *input,
                         const void *output);

#endif
