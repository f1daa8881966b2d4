/* Reductions that the caller makes: a sum of inputs each multiplied by the rank's own number, and a
 * function of the user's.
 *
 *   scaled   input ──× scalar──▶ output, or a buffer where the rank has none ──▶ SUM in place
 *   user     a fold that calls the function: ((rank 0 · rank 1) · rank 2) …, never otherwise
 *
 * A handle is GYRE_OP_FIRST_HANDLE + its place in the communicator's table. The operation's
 * fingerprint covers the handle and the reduction, so ranks must make their reductions in the same
 * order.
 *
 * Tested by tests/program/collectives/own.c. */
#include "collectives/comm/reductions.h"

#include "base/types.h"
#include "collectives/comm/progress.h"
#include "collectives/kernels/reduce_cuda.h"

#include "transport/stream/signature.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert(GYRE_OP_FIRST_HANDLE + GYRE_REDUCTIONS_MAX <= GYRE_SIGNATURE_SCALED,
               "functions and scaled sums have different numbers in a signature");

/* -- the table --------------------------------------------------------------------------------- */

struct gyre_reduction *gyre_reduction_find(struct gyre_comm *comm, enum gyre_op op)
{
    uint32_t place = (uint32_t)op - GYRE_OP_FIRST_HANDLE;
    return place < GYRE_REDUCTIONS_MAX && comm->reduction[place].kind != GYRE_REDUCTION_NONE
               ? &comm->reduction[place]
               : NULL;
}

struct gyre_reduction *gyre_reduction_free_place(struct gyre_comm *comm)
{
    for (uint32_t place = 0; place < GYRE_REDUCTIONS_MAX; place++)
        if (comm->reduction[place].kind == GYRE_REDUCTION_NONE)
            return &comm->reduction[place];
    return NULL;
}

/* -- what becomes of a call -------------------------------------------------------------------- */

int gyre_reduction_resolve(struct gyre_comm *comm, const char *call, struct gyre_shape *shape)
{
    struct gyre_reduction *made = gyre_reduction_find(comm, shape->op);
    if (!made)
        return gyre_refuse("%s: reduction %d is unknown", call, (int)shape->op);
    if (made->kind == GYRE_REDUCTION_USER) {
        shape->fold = gyre_fold_by_user;
        shape->context = &made->user[shape->type];
        shape->in_order = true;
        return 0;
    }
    if (made->type != shape->type)
        return gyre_refuse("%s: the reduction was made for %s, the type is %s", call,
                           gyre_type_name(made->type), gyre_type_name(shape->type));
    shape->fold = gyre_reduce_table_for(GYRE_MEMORY_HOST, shape->count * gyre_type_size(made->type))
                      ->fold[made->type][GYRE_SUM];
    return 0;
}

static int scale_input(struct gyre_comm *comm, const struct gyre_fold_task *task,
                       const struct gyre_request *request)
{
    struct gyre_fold_queue *fold_queue = &comm->progress->fold_queue;
    enum gyre_type type = request->shape.type;
    if (request->input.kind == GYRE_MEMORY_HOST) {
        gyre_scale(type)(task, NULL);
        return 0;
    }
    int status = gyre_fold_queue_open(fold_queue, gyre_thread_trouble());
    if (!status)
        status = gyre_fold_queue_await(
            fold_queue, gyre_fold_queue_fold(fold_queue, gyre_scale_cuda(type), task));
    return status;
}

/* Finds the place of the products: the output, or a buffer of the host's; the fold queue has no
 * memory of its own. */
static int find_scale_room(const struct gyre_request *request, struct gyre_request_buffer *to,
                           void **buffer)
{
    *to = request->output;
    if (to->bytes != request->input.bytes)
        *to = (struct gyre_request_buffer){.bytes = request->input.bytes, .kind = GYRE_MEMORY_HOST};
    if (to->kind != request->input.kind)
        return gyre_trouble_set(gyre_thread_trouble(), GYRE_UNSUPPORTED,
                                "a reduction by gyre_op_scaled() wants input and output in one "
                                "kind of memory and of one length, where the input is a device's");
    if (!to->address && !(to->address = *buffer = malloc(to->bytes)))
        return gyre_trouble_set(gyre_thread_trouble(), -ENOMEM, "no memory for %llu scaled bytes",
                                (unsigned long long)to->bytes);
    return 0;
}

int gyre_reduction_scale(struct gyre_comm *comm, struct gyre_request *request, void **buffer)
{
    const struct gyre_reduction *made = gyre_reduction_find(comm, request->shape.op);
    const void *from = request->input.address;
    struct gyre_request_buffer to;
    *buffer = NULL;
    if (!made || made->kind != GYRE_REDUCTION_SCALED || !request->input.bytes)
        return 0;
    int status = find_scale_room(request, &to, buffer);
    if (status)
        return status;
    const struct gyre_fold_task task = {.destination = &to.address,
                                        .destinations = 1,
                                        .source = &from,
                                        .sources = 1,
                                        .count = to.bytes / gyre_type_size(request->shape.type),
                                        .context = made->scalar};
    status = scale_input(comm, &task, request);
    request->input = to;
    return status;
}
