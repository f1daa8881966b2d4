/* Creates, regroups and destroys the engine, as gyre/ddp.h promises. A step is in step.c. Tested by
 * tests/program/ddp/ddp.c and tests/program/ddp/regroup.c. */
#include "ddp/inside.h"

#include <errno.h>
#include <stdlib.h>

/* -- create and destroy ------------------------------------------------------------------------ */

/* Allocates notes and checksums, one of each for each rank. */
static int allocate_notes(struct gyre_ddp *ddp)
{
    free(ddp->note);
    free(ddp->sums);
    ddp->note = calloc((size_t)ddp->n, sizeof *ddp->note);
    ddp->sums = calloc((size_t)ddp->n, sizeof *ddp->sums);
    return ddp->note && ddp->sums ? 0 : -ENOMEM;
}

static int allocate_items(struct gyre_ddp *ddp)
{
    size_t room = ddp->items ? ddp->items : 1;
    ddp->size = calloc(room, sizeof *ddp->size);
    ddp->ready = calloc(room, sizeof *ddp->ready);
    ddp->written = calloc(room, sizeof *ddp->written);
    ddp->named = calloc(room, sizeof *ddp->named);
    ddp->seen = calloc(room, sizeof *ddp->seen);
    bool good = ddp->size && ddp->ready && ddp->written && ddp->named && ddp->seen;
    return good ? allocate_notes(ddp) : -ENOMEM;
}

/* Makes the ranks of `comm` the engine's. */
static void take_ranks(struct gyre_ddp *ddp, struct gyre_comm *comm)
{
    ddp->former = ddp->comm;
    ddp->comm = comm;
    ddp->rank = gyre_rank(comm);
    ddp->n = gyre_size(comm);
}

int gyre_ddp_create(struct gyre_ddp **into, struct gyre_comm *comm,
                    const struct gyre_ddp_parameter *parameter, int parameters,
                    const struct gyre_ddp_options *options)
{
    struct gyre_ddp *ddp = into && comm ? calloc(1, sizeof *ddp) : NULL;
    if (!into || !comm)
        return gyre_refuse("gyre_ddp_create: %s is NULL",
                           comm ? "the place for the engine" : "the communicator");
    *into = NULL;
    if (!ddp)
        return -ENOMEM;
    *gyre_thread_trouble() = (struct gyre_trouble){0};
    take_ranks(ddp, comm);
    int refused = gyre_ddp_take_arguments(ddp, parameter, parameters, options);
    if (!refused)
        refused = allocate_items(ddp);
    if (!refused)
        refused = gyre_ddp_open_place(ddp);
    struct gyre_trouble told = {0};
    int status = gyre_ddp_join_ranks(ddp, refused, NULL, &told);
    if (told.status)
        *gyre_thread_trouble() = told;
    if (status)
        gyre_ddp_destroy(ddp);
    else
        *into = ddp;
    return status;
}

/* Waits for started reductions, which end at once where their communicator has failed, and for the
 * caller's stream, which may read gradients still; then frees the memory of this cut. */
static void drop_cut(struct gyre_ddp *ddp)
{
    for (uint32_t b = 0; ddp->work && b < ddp->cut.buckets; b++)
        if (ddp->work[b])
            gyre_work_wait(ddp->work[b], -1);
    (void)gyre_ddp_await_road(ddp);
    (void)gyre_ddp_await_stream(ddp);
    gyre_ddp_release(ddp);
    gyre_cut_deinit(&ddp->cut);
}

/* Forgets the step that did not end, and how buckets were cut. */
static void begin_anew(struct gyre_ddp *ddp, struct gyre_comm *comm)
{
    take_ranks(ddp, comm);
    drop_cut(ddp);
    gyre_ddp_choose_passes(ddp);
    ddp->former = NULL;
    ddp->cut = (struct gyre_cut){0};
    ddp->wire.scale = 0;
    ddp->open = ddp->adds = ddp->no_sync = ddp->clips = ddp->settled = false;
    ddp->failed = 0;
    ddp->launched = ddp->seen_count = 0;
}

int gyre_ddp_regroup(struct gyre_ddp *ddp, struct gyre_comm *comm, int *from)
{
    struct gyre_trouble told = {0};
    if (!ddp || !comm)
        return gyre_refuse("gyre_ddp_regroup: the %s is NULL", ddp ? "communicator" : "engine");
    if (ddp->options.sharded)
        return gyre_refuse("gyre_ddp_regroup: the engine is sharded, so a rank that is gone took "
                           "values with it that no other rank has: go on from a checkpoint");
    begin_anew(ddp, comm);
    int status = gyre_ddp_join_ranks(ddp, allocate_notes(ddp), from, &told);
    if (told.status)
        *gyre_thread_trouble() = told;
    ddp->result = (struct gyre_ddp_result){.number = ddp->steps, .culprit = -1};
    return gyre_ddp_fail(ddp, status);
}

void gyre_ddp_destroy(struct gyre_ddp *ddp)
{
    if (!ddp)
        return;
    drop_cut(ddp);
    gyre_ddp_close_place(ddp);
    gyre_ddp_free_items(ddp->item, ddp->items);
    gyre_ddp_free_items(ddp->buffer, ddp->buffers);
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

bool gyre_ddp_on_device(const struct gyre_ddp *ddp)
{
    return ddp->place.on != NULL;
}

int gyre_ddp_set_owner(struct gyre_ddp *ddp, struct gyre_processor *owner, bool repeats,
                       struct gyre_trouble *trouble)
{
    ddp->place.owner = owner;
    gyre_ddp_choose_passes(ddp);
    return repeats ? gyre_repeat_init(&ddp->place.repeat, ddp->place.beside, trouble) : 0;
}

void gyre_ddp_leave_found(struct gyre_ddp *ddp)
{
    ddp->place.leaves = ddp->place.owner != NULL;
}

struct gyre_ddp_found gyre_ddp_found(const struct gyre_ddp *ddp)
{
    const struct gyre_ddp_place *place = &ddp->place;
    const bool gathered = gyre_ddp_norm_is_gathered(ddp);
    return (struct gyre_ddp_found){
        .passes = place->on == place->owner ? NULL : place->passes,
        .squares = ddp->options.norm && !gathered ? &place->block->squares : NULL,
        .gathered = gathered ? &ddp->squares : NULL,
        .bad = gyre_ddp_leaves_all(ddp) ? &place->block->bad : NULL,
    };
}

bool gyre_ddp_posts(const struct gyre_ddp *ddp, int parameter)
{
    return ddp->place.on != ddp->place.owner && gyre_ddp_completes(ddp, (uint32_t)parameter);
}

bool gyre_ddp_in_step(const struct gyre_ddp *ddp)
{
    return ddp->open;
}

bool gyre_ddp_is_part(const struct gyre_ddp *ddp)
{
    return ddp->no_sync;
}

uint64_t gyre_ddp_layout(const struct gyre_ddp *ddp)
{
    return ddp->layout;
}
