/* The calls that make and free reductions of the caller's.
 * Tested by tests/program/collectives/own.c. */
#include "collectives/comm/arguments.h"
#include "collectives/comm/reductions.h"

#include <string.h>

/* Finds the place of a new reduction. *op is not written before the call succeeds. */
static int find_reduction_place(struct gyre_comm *comm, const char *call, const enum gyre_op *op,
                                struct gyre_reduction **place)
{
    int status = gyre_comm_check(comm, call);
    if (status)
        return status;
    if (!op)
        return gyre_refuse("%s: the place for the reduction is NULL", call);
    *place = gyre_reduction_free_place(comm);
    return *place ? 0
                  : gyre_refuse("%s: %u reductions are made already; gyre_op_free() some", call,
                                GYRE_REDUCTIONS_MAX);
}

static enum gyre_op handle_of(const struct gyre_comm *comm, const struct gyre_reduction *made)
{
    return (enum gyre_op)(GYRE_OP_FIRST_HANDLE + (uint32_t)(made - comm->reduction));
}

int gyre_op_scaled(struct gyre_comm *comm, const void *scalar, enum gyre_type type,
                   enum gyre_op *op)
{
    struct gyre_reduction *made = NULL;
    int status = find_reduction_place(comm, "gyre_op_scaled", op, &made);
    if (status)
        return status;
    if (!scalar || !gyre_type_size(type))
        return gyre_refuse("gyre_op_scaled: %s",
                           scalar ? "the type is unknown" : "the scalar is NULL");
    *made = (struct gyre_reduction){.kind = GYRE_REDUCTION_SCALED, .type = type};
    memcpy(made->scalar, scalar, gyre_type_size(type));
    *op = handle_of(comm, made);
    return 0;
}

int gyre_op_user(struct gyre_comm *comm, gyre_user_fold fold, void *context, enum gyre_op *op)
{
    struct gyre_reduction *made = NULL;
    int status = find_reduction_place(comm, "gyre_op_user", op, &made);
    if (status)
        return status;
    if (!fold)
        return gyre_refuse("gyre_op_user: the function is NULL");
    *made = (struct gyre_reduction){.kind = GYRE_REDUCTION_USER};
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        made->user[type] = (struct gyre_user_op){fold, context, (enum gyre_type)type};
    *op = handle_of(comm, made);
    return 0;
}

int gyre_op_free(struct gyre_comm *comm, enum gyre_op op)
{
    int status = gyre_comm_check(comm, "gyre_op_free");
    if (status)
        return status;
    struct gyre_reduction *made = gyre_reduction_find(comm, op);
    if (!made)
        return gyre_refuse("gyre_op_free: %d is no reduction of this communicator", (int)op);
    made->kind = GYRE_REDUCTION_NONE;
    return 0;
}
