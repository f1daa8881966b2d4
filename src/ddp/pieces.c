/* What is left of a step to a rank after the wait: the gradients that are its own to update, all of
 * them or, sharded, a block of each bucket; clipped, if it likes; and then the values of all ranks.
 *
 *     bucket      ├── rank 0 ──┼── rank 1 ──┼── rank 2 ──┤
 *     parameters  ├─ 9 ─┼──── 8 ────┼── 7 ──┼──── 6 ─────┤      rank 1's pieces: of 8, and of 7
 */
#include "base/clock.h"
#include "ddp/inside.h"

#include <math.h>

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

/* The part of item i that this rank's blocks hold: elements [*first, *first + count) of it. */
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
    return GYRE_AGAIN;
}

/* -- clipped ----------------------------------------------------------------------------------- */

static int check_clip(const struct gyre_ddp *ddp, double most)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_clip: the engine is NULL");
    if (ddp->failed)
        return ddp->failed;
    if (!ddp->options.norm)
        return gyre_refuse("gyre_ddp_clip: the engine computes no norm: set gyre_ddp_options.norm");
    if (!ddp->clips)
        return gyre_refuse("gyre_ddp_clip: once for each step, after its gyre_ddp_wait()");
    return most > 0 ? 0 : gyre_refuse("gyre_ddp_clip: a norm of at most %g is impossible", most);
}

int gyre_ddp_clip(struct gyre_ddp *ddp, double most)
{
    int status = check_clip(ddp, most);
    if (status)
        return status;
    double norm = ddp->result.norm, factor = most / (norm + 1e-6);
    ddp->clips = false;
    if (!isfinite(norm) || factor >= 1)
        return 0;
    if (ddp->options.unscaled)
        ddp->result.factor *= factor;
    for (uint32_t b = 0; !ddp->options.unscaled && b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        gyre_ddp_scale(gyre_ddp_own_gradient(ddp, bucket), gyre_ddp_own_count(ddp, bucket),
                       bucket->type, factor);
    }
    return 0;
}

/* -- the values of all ------------------------------------------------------------------------- */

int gyre_ddp_gather(struct gyre_ddp *ddp)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_gather: the engine is NULL");
    if (ddp->failed || !ddp->values)
        return ddp->failed;
    uint64_t start = gyre_now_ns();
    int status = gyre_ddp_spread_blocks(ddp, ddp->values);
    ddp->result.waited_ns += gyre_now_ns() - start;
    return gyre_ddp_fail(ddp, status);
}
