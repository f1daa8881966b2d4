/* Finds the gradient and the value of a parameter, and the part of a bucket that this rank updates:
 * the whole, or, sharded, a block.
 *
 *     bucket      ├── rank 0 ──┼── rank 1 ──┼── rank 2 ──┤
 *     parameters  ├─ 9 ─┼──── 8 ────┼── 7 ──┼──── 6 ─────┤      rank 1's pieces: of 8, and of 7
 *
 * Tested by tests/program/ddp/ddp.c. */
#include "ddp/inside.h"

#include <errno.h>

/* -- parameters -------------------------------------------------------------------------------- */

static bool known(const struct gyre_ddp *ddp, int parameter)
{
    return ddp && parameter >= 0 && (uint32_t)parameter < ddp->items;
}

void *gyre_ddp_gradient(struct gyre_ddp *ddp, int parameter)
{
    return known(ddp, parameter) ? ddp->gradients + ddp->cut.at[parameter] : NULL;
}

void *gyre_ddp_value(struct gyre_ddp *ddp, int parameter)
{
    if (!known(ddp, parameter))
        return NULL;
    return ddp->values ? ddp->values + ddp->cut.at[parameter] : ddp->item[parameter].value;
}

int gyre_ddp_bucket(const struct gyre_ddp *ddp, int index, uint64_t *bytes, int *parameters)
{
    if (!ddp || index < 0)
        return gyre_refuse("gyre_ddp_bucket: bucket %d", index);
    if ((uint32_t)index >= ddp->cut.buckets)
        return -ENOENT;
    const struct gyre_bucket *bucket = &ddp->cut.bucket[index];
    *bytes = bucket->elements * gyre_type_size(bucket->type);
    *parameters = (int)bucket->items;
    return 0;
}

/* -- pieces ------------------------------------------------------------------------------------ */

uint64_t gyre_ddp_own_count(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->options.sharded ? bucket->elements / (uint64_t)ddp->n : bucket->elements;
}

uint64_t gyre_ddp_own_first(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->options.sharded ? gyre_ddp_own_count(ddp, bucket) * (uint64_t)ddp->rank : 0;
}

void *gyre_ddp_own_gradient(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->gradients + bucket->at +
           gyre_ddp_own_first(ddp, bucket) * gyre_type_size(bucket->type);
}

/* The part of item i in this rank's blocks: elements [*first, *first + count) of the item. */
static uint64_t own_part(const struct gyre_ddp *ddp, uint32_t i, uint64_t *first)
{
    const struct gyre_bucket *bucket = &ddp->cut.bucket[ddp->cut.bucket_of[i]];
    uint64_t begin = (ddp->cut.at[i] - bucket->at) / gyre_type_size(bucket->type);
    uint64_t end = begin + ddp->item[i].elements;
    uint64_t from = gyre_ddp_own_first(ddp, bucket), to = from + gyre_ddp_own_count(ddp, bucket);
    uint64_t low = begin > from ? begin : from, high = end < to ? end : to;
    *first = low - begin;
    return high > low ? high - low : 0;
}

int gyre_ddp_piece(struct gyre_ddp *ddp, int index, struct gyre_ddp_piece *piece)
{
    if (!ddp || !piece || index < 0)
        return gyre_refuse("gyre_ddp_piece: piece %d of %s", index, ddp ? "the engine" : "NULL");
    for (uint32_t place = 0; place < ddp->items; place++) {
        uint32_t i = ddp->cut.order[place];
        uint64_t first, count = own_part(ddp, i, &first);
        size_t size = gyre_type_size(ddp->item[i].type);
        if (!count || index--)
            continue;
        *piece = (struct gyre_ddp_piece){
            .parameter = (int)i,
            .first = first,
            .count = count,
            .value = (uint8_t *)gyre_ddp_value(ddp, (int)i) + first * size,
            .gradient = (uint8_t *)gyre_ddp_gradient(ddp, (int)i) + first * size};
        return 0;
    }
    return -ENOENT;
}
