/* Reduces buckets. All but the last start as soon as they are complete and their turn has come.
 * gyre_ddp_wait() itself reduces the last, and every rank gets the notes of all ranks:
 *
 *     all-reduce         behind the gradients, in the same operation
 *     reduce-scatter     gathered beside the last bucket, in one group: a rank gets its block of a
 *                        sum, and notes in every block would be n times as many
 *       and the norm     gathered behind the last bucket, by the operation that makes the norm
 *     by a hook          behind the gradients, if it sums elements that hold a byte; else beside
 *
 * Tested by tests/program/ddp/buckets.c. */
#include "ddp/inside.h"

/* A bucket as it travels. */
struct load {
    uint8_t *data;
    uint64_t elements;
    enum gyre_type type;
    enum gyre_op op;
};

/* -- packed and unpacked ----------------------------------------------------------------------- */

static struct load pack_bucket(struct gyre_ddp *ddp, uint32_t b)
{
    const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
    uint64_t samples = gyre_ddp_own_note(ddp)->samples;
    struct load load = {ddp->gradients + bucket->at, bucket->elements, bucket->type, GYRE_SUM};
    if (ddp->options.mean == GYRE_DDP_MEAN_OF_RANKS && samples)
        gyre_ddp_scale(ddp, load.data, load.elements, load.type, 1.0 / (double)samples);
    if (gyre_ddp_is_encoded(ddp, bucket)) {
        gyre_ddp_encode(ddp, bucket);
        load = (struct load){gyre_ddp_wire_of(ddp, bucket), gyre_ddp_wire_elements(ddp, bucket),
                             ddp->hook.type, ddp->hook.op};
    }
    ddp->result.reduced_bytes += load.elements * gyre_type_size(load.type);
    return load;
}

static void unpack_bucket(struct gyre_ddp *ddp, uint32_t b)
{
    const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
    if (gyre_ddp_is_encoded(ddp, bucket))
        gyre_ddp_decode(ddp, bucket);
}

/* -- reduced ----------------------------------------------------------------------------------- */

/* This rank's own block of a sharded bucket, in place. */
static void *own_block(const struct gyre_ddp *ddp, const struct load *load)
{
    uint64_t block = load->elements / (uint64_t)ddp->n;
    return load->data + block * (uint64_t)ddp->rank * gyre_type_size(load->type);
}

int gyre_ddp_spread_blocks(struct gyre_ddp *ddp, uint8_t *memory)
{
    int status = 0;
    for (uint32_t b = 0; !status && ddp->n > 1 && b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        struct load p = {memory + bucket->at, bucket->elements, bucket->type, GYRE_SUM};
        status = gyre_all_gather(ddp->comm, own_block(ddp, &p), p.data,
                                 p.elements / (uint64_t)ddp->n, p.type);
    }
    return status;
}

/* Reduces a bucket: starts the reduction, or, where `work` is NULL, runs it to the end. */
static int reduce_bucket(struct gyre_ddp *ddp, const struct load *p, struct gyre_work **work)
{
    if (!ddp->options.sharded)
        return work ? gyre_all_reduce_start(ddp->comm, p->data, p->data, p->elements, p->type,
                                            p->op, work)
                    : gyre_all_reduce(ddp->comm, p->data, p->data, p->elements, p->type, p->op);
    uint64_t block = p->elements / (uint64_t)ddp->n;
    return work ? gyre_reduce_scatter_start(ddp->comm, p->data, own_block(ddp, p), block, p->type,
                                            p->op, work)
                : gyre_reduce_scatter(ddp->comm, p->data, own_block(ddp, p), block, p->type, p->op);
}

/* The same on a device: behind the passes, while the host goes on. */
static int reduce_on_road(struct gyre_ddp *ddp, const struct load *p)
{
    void *stream = ddp->place.road_stream;
    const uint64_t block = p->elements / (uint64_t)ddp->n;
    int status = gyre_ddp_meet_passes(ddp);
    if (status)
        return status;
    return ddp->options.sharded ? gyre_reduce_scatter_on(ddp->comm, p->data, own_block(ddp, p),
                                                         block, p->type, p->op, stream)
                                : gyre_all_reduce_on(ddp->comm, p->data, p->data, p->elements,
                                                     p->type, p->op, stream);
}

static int launch_bucket(struct gyre_ddp *ddp, uint32_t b)
{
    int status = gyre_ddp_meet_stream(ddp);
    if (status)
        return status;
    struct load load = pack_bucket(ddp, b);
    return ddp->place.on ? reduce_on_road(ddp, &load) : reduce_bucket(ddp, &load, &ddp->work[b]);
}

/* Whether the bucket whose turn has come is not the last, and lacks so many items. */
static bool next_lacks(const struct gyre_ddp *ddp, uint32_t items)
{
    return ddp->n > 1 && ddp->launched + 1 < ddp->cut.buckets &&
           ddp->missing[ddp->launched] == items;
}

int gyre_ddp_launch_complete(struct gyre_ddp *ddp)
{
    int status = 0;
    while (!status && next_lacks(ddp, 0))
        status = launch_bucket(ddp, ddp->launched++);
    return gyre_ddp_fail(ddp, status);
}

bool gyre_ddp_completes(const struct gyre_ddp *ddp, uint32_t i)
{
    return !ddp->no_sync && ddp->cut.bucket_of[i] == ddp->launched && next_lacks(ddp, 1);
}

/* -- the last, and the notes ------------------------------------------------------------------- */

static bool notes_ride(const struct gyre_ddp *ddp, const struct load *last)
{
    return !ddp->options.sharded && last->op == GYRE_SUM && gyre_ddp_note_elements(ddp, last->type);
}

static int reduce_with_notes(struct gyre_ddp *ddp, struct load *last)
{
    uint8_t *notes = last->data + last->elements * gyre_type_size(last->type);
    int status = gyre_ddp_put_note(ddp, notes, last->type);
    last->elements += gyre_ddp_note_elements(ddp, last->type);
    if (!status)
        status = reduce_bucket(ddp, last, NULL);
    return status ? status : gyre_ddp_get_notes(ddp, notes, last->type);
}

/* Of a device's memory and the host's, one after the other. */
static int reduce_beside_notes(struct gyre_ddp *ddp, const struct load *last)
{
    if (ddp->place.on) {
        int reduced = reduce_bucket(ddp, last, NULL);
        return reduced ? reduced : gyre_ddp_gather_notes(ddp);
    }
    int status = gyre_group_start(ddp->comm);
    if (status)
        return status;
    status = reduce_bucket(ddp, last, NULL);
    if (!status)
        status = gyre_ddp_gather_notes(ddp);
    int ended = gyre_group_end(ddp->comm);
    return status ? status : ended;
}

static int reduce_last(struct gyre_ddp *ddp)
{
    if (!ddp->cut.buckets)
        return gyre_ddp_gather_notes(ddp);
    struct load last = pack_bucket(ddp, ddp->cut.buckets - 1);
    if (notes_ride(ddp, &last)) /* which waits for the passes, too */
        return reduce_with_notes(ddp, &last);
    int status = gyre_ddp_await_passes(ddp);
    if (status)
        return status;
    return gyre_ddp_norm_is_gathered(ddp) ? reduce_bucket(ddp, &last, NULL)
                                          : reduce_beside_notes(ddp, &last);
}

static int gather_norm(struct gyre_ddp *ddp)
{
    struct gyre_ddp_note *own = gyre_ddp_own_note(ddp);
    gyre_ddp_add_own_squares(ddp, &own->squares);
    int status = gyre_ddp_end_behind(ddp);
    if (!status)
        status = gyre_ddp_take_block(ddp, NULL, &own->squares);
    return status ? status : gyre_ddp_gather_notes(ddp);
}

int gyre_ddp_reduce_rest(struct gyre_ddp *ddp)
{
    int status = gyre_ddp_launch_complete(ddp);
    if (!status)
        status = reduce_last(ddp);
    for (uint32_t b = 0; b < ddp->cut.buckets; b++) {
        int ended = ddp->work[b] ? gyre_work_wait(ddp->work[b], -1) : 0;
        ddp->work[b] = NULL;
        status = status ? status : ended;
    }
    int passed = gyre_ddp_await_road(ddp);
    status = status ? status : passed;
    if (!status)
        gyre_ddp_begin_behind(ddp);
    for (uint32_t b = 0; !status && b < ddp->cut.buckets; b++)
        unpack_bucket(ddp, b);
    if (!status && gyre_ddp_norm_is_gathered(ddp))
        status = gather_norm(ddp);
    return status;
}
