/* The ranks of an engine: compared, given the values of one of them, and the buckets that follow
 * from how many they are. Tested by tests/program/ddp/ddp.c and tests/program/ddp/regroup.c. */
#include "ddp/inside.h"

#include <errno.h>
#include <stdlib.h>

#define CAP_LEAST (64u * 1024)
#define CAP_MOST  (64u * 1024 * 1024)
#define WORTH_NS  100000u /* waking the helper costs as much as hiding a shorter reduction saves */
#define UNIT      16u     /* elements: blocks of a sharded bucket begin at whole cache lines */

/* -- how large a bucket ------------------------------------------------------------------------ */

/* The smallest bucket whose bytes travel nearly as fast as those of a very large one. The cost
 * model says so; hence the limit is the same on all ranks and needs no probe. */
static int default_cap(struct gyre_ddp *ddp)
{
    uint64_t whole, part, bytes = CAP_LEAST;
    int status = gyre_all_reduce_cost(ddp->comm, CAP_MOST / 4, GYRE_F32, &whole);
    for (; !status && bytes < CAP_MOST; bytes *= 2) {
        status = gyre_all_reduce_cost(ddp->comm, bytes / 4, GYRE_F32, &part);
        if (part * (CAP_MOST / bytes) <= whole + whole / 8)
            break;
    }
    ddp->limits.cap_bytes = bytes;
    return status;
}

/* The smallest bucket whose reduction is worth hiding. */
static int default_first(struct gyre_ddp *ddp)
{
    uint64_t cost, bytes = CAP_LEAST;
    int status = 0;
    for (; !status && bytes < ddp->limits.cap_bytes; bytes *= 2) {
        status = gyre_all_reduce_cost(ddp->comm, bytes / 4, GYRE_F32, &cost);
        if (cost >= WORTH_NS)
            break;
    }
    ddp->limits.first_bytes = bytes;
    return status;
}

static int find_limits(struct gyre_ddp *ddp)
{
    int status = 0;
    ddp->limits =
        (struct gyre_cut_limits){.first_bytes = ddp->options.first_bucket,
                                 .cap_bytes = ddp->options.bucket_cap,
                                 .unit = UNIT * (ddp->options.sharded ? (uint64_t)ddp->n : 1)};
    if (!ddp->limits.cap_bytes)
        status = default_cap(ddp);
    if (!status && !ddp->limits.first_bytes)
        status = default_first(ddp);
    return status;
}

/* Cuts for the first step, as if gradients became ready in the reverse order of the forward pass.
 * Mostly they do. */
static int cut_first(struct gyre_ddp *ddp)
{
    uint32_t *order = malloc((ddp->items ? ddp->items : 1) * sizeof *order);
    int status = order && ddp->size ? 0 : -ENOMEM;
    for (uint32_t i = 0; !status && i < ddp->items; i++) {
        order[i] = ddp->items - 1 - i;
        ddp->size[i] = (struct gyre_cut_item){ddp->item[i].elements, ddp->item[i].type};
    }
    if (!status)
        status = gyre_cut_make(&ddp->cut, ddp->size, ddp->items, order, &ddp->limits,
                               gyre_thread_trouble());
    free(order);
    return status;
}

/* -- values ------------------------------------------------------------------------------------ */

static int spread_from(struct gyre_comm *comm, int root, const struct gyre_ddp_item *item,
                       uint32_t items)
{
    int status = 0;
    for (uint32_t i = 0; !status && i < items; i++)
        status = gyre_broadcast(comm, item[i].value, item[i].value,
                                item[i].elements * gyre_type_size(item[i].type), GYRE_U8, root);
    return status;
}

/* Finds the rank that has completed most steps, and takes its number of them. */
static int find_furthest(struct gyre_ddp *ddp, int *from)
{
    uint64_t *steps = calloc((size_t)ddp->n, sizeof *steps);
    int status = steps ? gyre_all_gather(ddp->comm, &ddp->steps, steps, 1, GYRE_U64) : -ENOMEM;
    *from = 0;
    for (int rank = 1; !status && rank < ddp->n; rank++)
        if (steps[rank] > steps[*from])
            *from = rank;
    if (!status)
        ddp->steps = steps[*from];
    free(steps);
    return status;
}

int gyre_ddp_join_ranks(struct gyre_ddp *ddp, int refused, int *from, struct gyre_trouble *trouble)
{
    int root = 0;
    int status = gyre_ddp_agree(ddp, refused, trouble);
    if (!status)
        status = find_furthest(ddp, &root);
    if (!status)
        status = gyre_ddp_await_stream(ddp);
    if (!status)
        status = spread_from(ddp->comm, root, ddp->item, ddp->items);
    if (!status)
        status = spread_from(ddp->comm, root, ddp->buffer, ddp->buffers);
    if (!status)
        status = find_limits(ddp);
    if (!status)
        status = cut_first(ddp);
    if (from)
        *from = root;
    return status ? status : gyre_ddp_agree_on(ddp, gyre_ddp_allocate(ddp), trouble);
}
