/* Creates and destroys the engine, as gyre/ddp.h promises. A step is in step.c. Tested by
 * tests/program/ddp/ddp.c. */
#include "ddp/inside.h"

#include <errno.h>
#include <stdlib.h>

#define CAP_LEAST (64u * 1024)
#define CAP_MOST  (64u * 1024 * 1024)
#define WORTH_NS  100000u /* waking the helper costs as much as hiding a shorter reduction saves */
#define UNIT      16u     /* elements: blocks of a sharded bucket begin at whole cache lines */
#define COMPARE   100     /* steps between two comparisons of values */

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
    if (!ddp->options.compare_every)
        ddp->options.compare_every = COMPARE;
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

static int spread_from_root(struct gyre_comm *comm, const struct gyre_ddp_item *item,
                            uint32_t items)
{
    int status = 0;
    for (uint32_t i = 0; !status && i < items; i++)
        status = gyre_broadcast(comm, item[i].value, item[i].value,
                                item[i].elements * gyre_type_size(item[i].type), GYRE_U8, 0);
    return status;
}

/* -- create and destroy ------------------------------------------------------------------------ */

static int allocate_items(struct gyre_ddp *ddp)
{
    size_t room = ddp->items ? ddp->items : 1;
    ddp->size = calloc(room, sizeof *ddp->size);
    ddp->ready = calloc(room, sizeof *ddp->ready);
    ddp->written = calloc(room, sizeof *ddp->written);
    ddp->named = calloc(room, sizeof *ddp->named);
    ddp->seen = calloc(room, sizeof *ddp->seen);
    ddp->note = calloc((size_t)ddp->n, sizeof *ddp->note);
    ddp->sums = calloc((size_t)ddp->n, sizeof *ddp->sums);
    bool good = ddp->size && ddp->ready && ddp->written && ddp->named && ddp->seen && ddp->note &&
                ddp->sums;
    return good ? 0 : -ENOMEM;
}

static int build_engine(struct gyre_ddp *ddp, const struct gyre_ddp_item *buffer, uint32_t buffers)
{
    int status = spread_from_root(ddp->comm, ddp->item, ddp->items);
    if (!status)
        status = spread_from_root(ddp->comm, buffer, buffers);
    if (!status)
        status = find_limits(ddp);
    if (!status)
        status = cut_first(ddp);
    return status ? status : gyre_ddp_allocate(ddp);
}

int gyre_ddp_create(struct gyre_ddp **into, struct gyre_comm *comm,
                    const struct gyre_ddp_parameter *parameter, int parameters,
                    const struct gyre_ddp_options *options)
{
    struct gyre_ddp_item *buffer = NULL;
    struct gyre_ddp *ddp = into && comm ? calloc(1, sizeof *ddp) : NULL;
    if (!into || !comm)
        return gyre_refuse("gyre_ddp_create: %s is NULL",
                           comm ? "the place for the engine" : "the communicator");
    *into = NULL;
    if (!ddp)
        return -ENOMEM;
    ddp->comm = comm;
    ddp->rank = gyre_rank(comm);
    ddp->n = gyre_size(comm);
    int refused = gyre_ddp_take_arguments(ddp, parameter, parameters, options, &buffer);
    if (!refused)
        refused = allocate_items(ddp);
    uint32_t buffers = refused ? 0 : (uint32_t)ddp->options.buffers.count;
    struct gyre_trouble told = {0};
    int status = gyre_ddp_agree(ddp, buffer, buffers, refused, &told);
    if (told.status)
        *gyre_thread_trouble() = told;
    if (!status)
        status = build_engine(ddp, buffer, buffers);
    gyre_ddp_free_items(buffer,
                        ddp->options.buffers.count > 0 ? (uint32_t)ddp->options.buffers.count : 0);
    if (status)
        gyre_ddp_destroy(ddp);
    else
        *into = ddp;
    return status;
}

void gyre_ddp_destroy(struct gyre_ddp *ddp)
{
    if (!ddp)
        return;
    for (uint32_t b = 0; ddp->work && b < ddp->cut.buckets; b++)
        if (ddp->work[b])
            gyre_work_wait(ddp->work[b], -1);
    gyre_ddp_release(ddp);
    gyre_cut_deinit(&ddp->cut);
    gyre_ddp_free_items(ddp->item, ddp->items);
    free(ddp->size);
    free(ddp->ready);
    free(ddp->written);
    free(ddp->named);
    free(ddp->seen);
    free(ddp->note);
    free((char *)(uintptr_t)ddp->hook.name);
    free(ddp->sums);
    free(ddp);
}

/* -- engine.h ---------------------------------------------------------------------------------- */

uint32_t gyre_ddp_items(const struct gyre_ddp *ddp, const struct gyre_ddp_item **item)
{
    *item = ddp->item;
    return ddp->items;
}

struct gyre_comm *gyre_ddp_comm(const struct gyre_ddp *ddp)
{
    return ddp->comm;
}

bool gyre_ddp_in_step(const struct gyre_ddp *ddp)
{
    return ddp->open;
}
