/* Lengths and places that follow from a shape.
 *
 *     all_gather, rank 1 of 3, in place            reduce_scatter, rank 1 of 3, in place
 *
 *     OUTPUT  [ block 0 │ block 1 │ block 2 ]      INPUT   [ block 0 │ block 1 │ block 2 ]
 *     INPUT             [  block  ]                OUTPUT            [  block  ]
 *                       ◀ displacement = 1 block
 *
 * Tested by tests/unit/collectives/plan/plan_test.c. */
#include "collectives/plan/shape.h"

#include "base/rng.h"
#include "base/types.h"

#include <string.h>

/* -- equal or not ------------------------------------------------------------------------------ */

static bool same_words(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    return a == b || (a && b && memcmp(a, b, n * sizeof(*a)) == 0);
}

bool gyre_blocks_same(const struct gyre_blocks *a, const struct gyre_blocks *b, uint32_t n)
{
    return same_words(a->count, b->count, n) && same_words(a->at, b->at, n);
}

uint64_t gyre_shape_hash(const struct gyre_shape *shape, uint32_t n)
{
    uint64_t value = gyre_mix64(gyre_mix64(shape->count) ^ shape->pattern);
    for (uint32_t block = 0; shape->blocks.count && block < n; block++) {
        value = gyre_mix64(value + shape->blocks.count[block]);
        value = gyre_mix64(value + gyre_shape_block_at(shape, block));
    }
    return value;
}

/* -- lengths and places ------------------------------------------------------------------------ */

uint64_t gyre_shape_block_at(const struct gyre_shape *shape, uint32_t block)
{
    uint64_t at = 0;
    if (shape->blocks.at)
        return shape->blocks.at[block];
    for (uint32_t before = 0; before < block; before++)
        at += shape->blocks.count[before];
    return at;
}

static uint64_t bytes(const struct gyre_shape *shape, uint64_t elements)
{
    return elements * gyre_type_size(shape->type);
}

static uint32_t blocks_of_rank(const struct gyre_shape *shape, enum gyre_buffer buffer, uint32_t n,
                               uint32_t rank)
{
    return gyre_verb_blocks(shape->verb, buffer, n, rank == shape->root);
}

uint64_t gyre_shape_input_bytes(const struct gyre_shape *shape, uint32_t n, uint32_t rank)
{
    uint64_t blocks = blocks_of_rank(shape, GYRE_INPUT, n, rank);
    return bytes(shape,
                 blocks && shape->blocks.count ? shape->blocks.count[rank] : blocks * shape->count);
}

/* The end of the last unequal block. */
static uint64_t end_of_blocks(const struct gyre_shape *shape, uint32_t n)
{
    uint64_t end = 0, at = 0;
    for (uint32_t block = 0; block < n; block++) {
        at = shape->blocks.at ? shape->blocks.at[block] : at;
        at += shape->blocks.count[block];
        end = at > end ? at : end;
    }
    return end;
}

uint64_t gyre_shape_output_bytes(const struct gyre_shape *shape, uint32_t n, uint32_t rank)
{
    uint64_t blocks = blocks_of_rank(shape, GYRE_OUTPUT, n, rank);
    return bytes(shape,
                 blocks && shape->blocks.count ? end_of_blocks(shape, n) : blocks * shape->count);
}

/* Whether blocks overlap. Mostly blocks stand in order, which is seen at a glance. */
bool gyre_blocks_overlap(const struct gyre_blocks *blocks, uint32_t n)
{
    const uint64_t *at = blocks->at, *count = blocks->count;
    uint32_t ordered = 1;
    if (!at)
        return false;
    while (ordered < n && at[ordered - 1] + count[ordered - 1] <= at[ordered])
        ordered++;
    for (uint32_t b = ordered; b < n; b++)
        for (uint32_t a = 0; a < b; a++)
            if (count[a] && count[b] && at[a] < at[b] + count[b] && at[b] < at[a] + count[a])
                return true;
    return false;
}

uint64_t gyre_shape_displacement(const struct gyre_shape *shape, uint32_t rank)
{
    if (!gyre_verb_nests(shape->verb))
        return 0;
    return bytes(shape,
                 shape->blocks.count ? gyre_shape_block_at(shape, rank) : rank * shape->count);
}

uintptr_t gyre_shape_distance(const struct gyre_shape *shape, uint32_t rank)
{
    uintptr_t displacement = gyre_shape_displacement(shape, rank);
    return gyre_verb_nests(shape->verb) > 0 ? -displacement : displacement;
}

bool gyre_shape_in_place(const struct gyre_shape *shape, uint32_t rank, const void *input,
                         const void *output)
{
    if (gyre_verb_has_root(shape->verb) && rank != shape->root)
        return false;
    return (uintptr_t)output - (uintptr_t)input == gyre_shape_distance(shape, rank);
}

bool gyre_shape_rounds_partials(const struct gyre_shape *shape)
{
    bool scaled = shape->fold && !shape->in_order;
    bool known = (unsigned)shape->op < GYRE_OP_COUNT;
    bool computes = scaled || (known && gyre_op_rows[shape->op].computes);
    return computes && gyre_type_rows[shape->type].small_float;
}
