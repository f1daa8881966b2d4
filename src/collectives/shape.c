/* Lengths and places that follow from a shape.
 *
 *     all_gather, rank 1 of 3, in place            reduce_scatter, rank 1 of 3, in place
 *
 *     OUTPUT  [ block 0 │ block 1 │ block 2 ]      INPUT   [ block 0 │ block 1 │ block 2 ]
 *     INPUT             [  block  ]                OUTPUT            [  block  ]
 *                       ◀ displacement = 1 block */
#include "collectives/shape.h"

static bool has_buffer(const struct gyre_shape *shape, uint32_t rank, bool everywhere)
{
    return everywhere || rank == shape->root;
}

static uint64_t block_bytes(const struct gyre_shape *shape)
{
    return shape->count * gyre_type_size(shape->type);
}

uint64_t gyre_shape_input_bytes(const struct gyre_shape *shape, uint32_t n, uint32_t rank)
{
    bool everywhere = shape->verb != GYRE_VERB_BROADCAST && shape->verb != GYRE_VERB_SCATTER;
    if (!has_buffer(shape, rank, everywhere))
        return 0;
    return (gyre_verb_scatters(shape->verb) ? n : 1) * block_bytes(shape);
}

uint64_t gyre_shape_output_bytes(const struct gyre_shape *shape, uint32_t n, uint32_t rank)
{
    bool everywhere = shape->verb != GYRE_VERB_REDUCE && shape->verb != GYRE_VERB_GATHER;
    if (!has_buffer(shape, rank, everywhere))
        return 0;
    return (gyre_verb_gathers(shape->verb) ? n : 1) * block_bytes(shape);
}

uint64_t gyre_shape_displacement(const struct gyre_shape *shape, uint32_t rank)
{
    bool one_is_longer = gyre_verb_gathers(shape->verb) != gyre_verb_scatters(shape->verb);
    return one_is_longer ? rank * block_bytes(shape) : 0;
}

bool gyre_shape_in_place(const struct gyre_shape *shape, uint32_t rank, const void *input,
                         const void *output)
{
    uintptr_t in = (uintptr_t)input, out = (uintptr_t)output;
    uint64_t apart = gyre_shape_displacement(shape, rank);
    return gyre_verb_gathers(shape->verb) ? in == out + apart : out == in + apart;
}

bool gyre_shape_narrow(const struct gyre_shape *shape)
{
    bool sums = shape->op == GYRE_SUM || shape->op == GYRE_AVG || shape->op == GYRE_PROD;
    return sums && (shape->type == GYRE_F16 || shape->type == GYRE_BF16);
}
