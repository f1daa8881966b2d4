/* The calls that make and free reductions of the caller's.
 * Tested by tests/program/collectives/own.c. */
#include "collectives/comm/arguments.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/reductions.h"

#include <string.h>

/* Keeps a new reduction. *op is not written before the call succeeds. */
static int keep_reduction(struct gyre_comm *comm, const char *call,
                          const struct gyre_reduction *made, enum gyre_op *op)
{
    if (!op)
        return gyre_refuse("%s: the place for the reduction is NULL", call);
    gyre_domain_enter(comm->domain);
    struct gyre_reduction *place = gyre_reduction_free_place(comm);
    if (place) {
        *place = *made;
        *op = (enum gyre_op)(GYRE_OP_FIRST_HANDLE + (uint32_t)(place - comm->reduction));
    }
    gyre_domain_leave(comm->domain);
    return place ? 0
                 : gyre_refuse("%s: %u reductions are made already; gyre_op_free() some", call,
                               GYRE_REDUCTIONS_MAX);
}

int gyre_op_scaled(struct gyre_comm *comm, const void *scalar, enum gyre_type type,
                   enum gyre_op *op)
{
    struct gyre_reduction made = {.kind = GYRE_REDUCTION_SCALED, .type = type};
    int status = gyre_comm_check(comm, "gyre_op_scaled");
    if (status)
        return status;
    if (!scalar || !gyre_type_size(type))
        return gyre_refuse("gyre_op_scaled: %s",
                           scalar ? "the type is unknown" : "the scalar is NULL");
    memcpy(made.scalar, scalar, gyre_type_size(type));
    return keep_reduction(comm, "gyre_op_scaled", &made, op);
}

int gyre_op_user(struct gyre_comm *comm, gyre_user_fold fold, void *context, enum gyre_op *op)
{
    struct gyre_reduction made = {.kind = GYRE_REDUCTION_USER};
    int status = gyre_comm_check(comm, "gyre_op_user");
    if (status)
        return status;
    if (!fold)
        return gyre_refuse("gyre_op_user: the function is NULL");
    for (int type = 0; type < GYRE_TYPE_COUNT; type++)
        made.user[type] = (struct gyre_user_op){fold, context, (enum gyre_type)type};
    return keep_reduction(comm, "gyre_op_user", &made, op);
}

int gyre_op_free(struct gyre_comm *comm, enum gyre_op op)
{
    int status = gyre_comm_check(comm, "gyre_op_free");
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    struct gyre_reduction *made = gyre_reduction_find(comm, op);
    if (made)
        made->kind = GYRE_REDUCTION_NONE;
    gyre_domain_leave(comm->domain);
    return made ? 0 : gyre_refuse("gyre_op_free: %d is no reduction of this communicator", (int)op);
}
