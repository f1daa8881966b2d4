/* Reductions that the caller makes: a sum of inputs each multiplied by the rank's own number, and a
 * function of the user's.
 *
 *   scaled   input ──× scalar──▶ output, or a buffer where the rank has none ──▶ SUM in place
 *   user     a fold that calls the function: ((rank 0 · rank 1) · rank 2) …, never otherwise
 *
 * A handle is GYRE_OP_MADE + its place in the communicator's table. It and what it is are
 * part of the operation's fingerprint, so ranks must make their reductions in the same order.
 *
 * Tested by tests/program/collectives/own.c. */
#include "collectives/comm/reductions.h"

#include "base/types.h"
#include "collectives/comm/progress.h"
#include "collectives/kernels/reduce_cuda.h"

#include "transport/stream/signature.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert(GYRE_OP_MADE == GYRE_SIGNATURE_FUNCTION &&
                   GYRE_OP_MADE + GYRE_REDUCTIONS_MAX <= GYRE_SIGNATURE_SCALED,
               "a handle's number in a signature");

/* -- the table --------------------------------------------------------------------------------- */

struct gyre_reduction *gyre_reduction_find(struct gyre_comm *comm, enum gyre_op op)
{
    uint32_t place = (uint32_t)op - GYRE_OP_MADE;
    return (uint32_t)op >= GYRE_OP_MADE && place < GYRE_REDUCTIONS_MAX &&
                   comm->reduction[place].kind != GYRE_REDUCTION_NONE
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

static int scale(struct gyre_comm *comm, const struct gyre_fold_task *task, enum gyre_type type)
{
    struct gyre_fold_queue *fold_queue = &comm->progress->fold_queue;
    if (!gyre_fold_queue_owns(fold_queue, task->destination[0])) {
        gyre_scale(type)(task, NULL);
        return 0;
    }
    gyre_domain_enter(comm->domain);
    int status = gyre_fold_queue_open(fold_queue, gyre_thread_trouble());
    if (!status)
        status = gyre_fold_queue_await(
            fold_queue, gyre_fold_queue_fold(fold_queue, gyre_scale_cuda(type), task));
    gyre_domain_leave(comm->domain);
    return status;
}

/* Nowhere to multiply: the fold queue has no memory of its own. */
static int check_scale_place(const struct gyre_comm *comm, const void *input, const void *to)
{
    const struct gyre_fold_queue *fold_queue = &comm->progress->fold_queue;
    if (gyre_fold_queue_owns(fold_queue, input) == gyre_fold_queue_owns(fold_queue, to))
        return 0;
    return gyre_trouble_set(gyre_thread_trouble(), GYRE_UNSUPPORTED,
                            "a reduction by gyre_op_scaled() wants input and output in one kind of "
                            "memory and of one length, where the input is a device's");
}

int gyre_reduction_scale(struct gyre_comm *comm, const struct gyre_shape *shape, const void **input,
                         void *output, void **buffer)
{
    const struct gyre_reduction *made = gyre_reduction_find(comm, shape->op);
    uint64_t bytes = gyre_shape_input_bytes(shape, comm->n, comm->rank);
    bool fits = gyre_shape_output_bytes(shape, comm->n, comm->rank) == bytes;
    void *to = output;
    *buffer = NULL;
    if (!made || made->kind != GYRE_REDUCTION_SCALED || !bytes)
        return 0;
    if (!fits && !(to = *buffer = malloc(bytes)))
        return gyre_trouble_set(gyre_thread_trouble(), -ENOMEM, "no memory for %llu scaled bytes",
                                (unsigned long long)bytes);
    int status = check_scale_place(comm, *input, to);
    if (status) {
        free(*buffer);
        *buffer = NULL;
        return status;
    }
    const struct gyre_fold_task task = {.destination = &to,
                                        .destinations = 1,
                                        .source = input,
                                        .sources = 1,
                                        .count = bytes / gyre_type_size(shape->type),
                                        .context = made->scalar};
    status = scale(comm, &task, shape->type);
    *input = to;
    return status;
}
