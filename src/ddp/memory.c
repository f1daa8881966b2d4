/* The flat memory of gradients, and of values where the engine is sharded.
 *
 * After the first step the memory is laid out anew, once, if rank 0's gradients became ready in
 * another order than assumed (the reverse of the forward pass). Everything moves to its new place,
 * and the old memory is freed. Tested by tests/program/ddp/buckets.c. */
#include "ddp/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t flat_bytes(const struct gyre_ddp *ddp, uint32_t i)
{
    return ddp->item[i].elements * gyre_type_size(ddp->item[i].type);
}

/* -- made and freed ---------------------------------------------------------------------------- */

/* Allocates the memory of all buckets, with room for notes behind the last. */
static int allocate_flat(struct gyre_ddp *ddp, uint8_t **flat)
{
    void *memory;
    uint64_t notes = gyre_ddp_note_elements(ddp, GYRE_F32) * sizeof(float);
    int status = gyre_ddp_alloc(ddp, ddp->cut.bytes + notes, &memory);
    if (!status)
        *flat = memory;
    return status;
}

/* Copies the caller's values and forgets the caller's memory, which may be freed. */
static int take_values(struct gyre_ddp *ddp)
{
    int status = ddp->options.sharded ? allocate_flat(ddp, &ddp->values) : 0;
    for (uint32_t i = 0; ddp->values && i < ddp->items; i++) {
        gyre_ddp_copy(ddp, ddp->values + ddp->cut.at[i], ddp->item[i].value, flat_bytes(ddp, i));
        ddp->item[i].value = NULL;
    }
    return status;
}

/* Workspace for the norm, and host memory for notes on their way. */
static int allocate_beside(struct gyre_ddp *ddp)
{
    const uint64_t notes = gyre_ddp_note_elements(ddp, GYRE_BF16) * sizeof(uint16_t) +
                           gyre_ddp_note_elements(ddp, GYRE_F32) * sizeof(float);
    uint64_t most = 0;
    void *memory;
    if (!ddp->place.on)
        return 0;
    for (uint32_t b = 0; b < ddp->cut.buckets; b++)
        most = ddp->cut.bucket[b].elements > most ? ddp->cut.bucket[b].elements : most;
    int status = gyre_ddp_alloc(ddp, (gyre_squares_partials(most) + 1) * sizeof(double), &memory);
    if (status)
        return status;
    ddp->place.partials = memory;
    ddp->place.notes = malloc(notes);
    return ddp->place.notes ? 0 : -ENOMEM;
}

static int allocate_books(struct gyre_ddp *ddp)
{
    size_t room = ddp->cut.buckets ? ddp->cut.buckets : 1;
    ddp->layout++;
    gyre_repeat_forget(&ddp->place.repeat);
    ddp->missing = calloc(room, sizeof *ddp->missing);
    ddp->work = calloc(room, sizeof *ddp->work);
    return ddp->missing && ddp->work ? allocate_beside(ddp) : -ENOMEM;
}

int gyre_ddp_allocate(struct gyre_ddp *ddp)
{
    int status = allocate_flat(ddp, &ddp->gradients);
    if (!status)
        status = take_values(ddp);
    if (!status)
        status = gyre_ddp_allocate_wire(ddp);
    if (!status)
        status = allocate_books(ddp);
    return status ? status : gyre_ddp_await_passes(ddp);
}

static void release_books(struct gyre_ddp *ddp)
{
    gyre_ddp_free(ddp, ddp->place.partials);
    free(ddp->place.notes);
    ddp->place.partials = NULL;
    ddp->place.notes = NULL;
    free(ddp->missing);
    free(ddp->work);
    ddp->missing = NULL;
    ddp->work = NULL;
}

void gyre_ddp_release(struct gyre_ddp *ddp)
{
    gyre_ddp_free(ddp, ddp->gradients);
    gyre_ddp_free(ddp, ddp->values);
    ddp->gradients = ddp->values = NULL;
    gyre_ddp_release_wire(ddp, &ddp->wire);
    release_books(ddp);
}

/* -- laid out anew ----------------------------------------------------------------------------- */

/* Puts rank 0's order into `order`, on all ranks. Parameters that rank 0 did not use follow in the
 * assumed order. */
static int learn_order(struct gyre_ddp *ddp, uint32_t *order)
{
    bool *has = calloc(ddp->items ? ddp->items : 1, sizeof *has);
    uint32_t filled = 0;
    if (!has)
        return -ENOMEM;
    for (uint32_t i = 0; i < ddp->seen_count; i++)
        has[order[filled++] = ddp->seen[i]] = true;
    for (uint32_t place = 0; place < ddp->items; place++)
        if (!has[ddp->cut.order[place]])
            order[filled++] = ddp->cut.order[place];
    free(has);
    return gyre_broadcast(ddp->comm, order, order, ddp->items, GYRE_U32, 0);
}

/* Moves gradients or values to new memory and frees the old. Only one of the two is in memory twice
 * at a time. */
static int move_flat(struct gyre_ddp *ddp, const uint64_t *old_at, uint8_t **flat)
{
    uint8_t *old = *flat;
    int status = old ? allocate_flat(ddp, flat) : 0;
    if (status || !old)
        return status;
    for (uint32_t i = 0; i < ddp->items; i++)
        gyre_ddp_copy(ddp, *flat + ddp->cut.at[i], old + old_at[i], flat_bytes(ddp, i));
    status = gyre_ddp_await_passes(ddp);
    gyre_ddp_free(ddp, old);
    return status;
}

/* Moves everything to the new cut. After a failure the engine can only be destroyed. */
static int move_to(struct gyre_ddp *ddp, struct gyre_cut *cut)
{
    struct gyre_cut old = ddp->cut;
    struct gyre_ddp_wire_room wire = ddp->wire;
    ddp->cut = *cut;
    *cut = old;
    ddp->wire = (struct gyre_ddp_wire_room){0};
    release_books(ddp);
    int status = move_flat(ddp, old.at, &ddp->gradients);
    if (!status)
        status = move_flat(ddp, old.at, &ddp->values);
    if (!status)
        status = gyre_ddp_allocate_wire(ddp);
    if (!status)
        gyre_ddp_move_wire(ddp, old.at, &wire);
    if (!status)
        status = gyre_ddp_await_passes(ddp);
    gyre_ddp_release_wire(ddp, &wire);
    return status ? status : allocate_books(ddp);
}

int gyre_ddp_settle(struct gyre_ddp *ddp)
{
    struct gyre_cut cut = {0};
    uint32_t *order = malloc((ddp->items ? ddp->items : 1) * sizeof *order);
    int status = order ? learn_order(ddp, order) : -ENOMEM;
    if (!status)
        status =
            gyre_cut_make(&cut, ddp->size, ddp->items, order, &ddp->limits, gyre_thread_trouble());
    bool moves = !status && memcmp(cut.at, ddp->cut.at, ddp->items * sizeof *cut.at) != 0;
    if (moves && ddp->options.sharded) /* blocks will be other ranks' */
        status = gyre_ddp_spread_blocks(ddp, ddp->gradients);
    if (moves && !status)
        status = move_to(ddp, &cut);
    gyre_cut_deinit(&cut);
    free(order);
    ddp->settled = !status;
    return status;
}
