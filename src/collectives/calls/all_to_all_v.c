/* The calls of an all_to_all_v (collectives/comm/all_to_all_v.c).
 * Tested by tests/program/collectives/counts.c. */
#include "collectives/comm/all_to_all_v.h"

#include "collectives/comm/arguments.h"
#include "collectives/comm/helper.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/group/collect.h"
#include "collectives/messages/point_to_point.h"

#include <errno.h>
#include <stdlib.h>

/* Copies the blocks to be sent to *room, which the caller frees; NULL: the call is not in place. */
static int step_aside(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call, void **room)
{
    uint64_t bytes = gyre_all_to_all_v_aside_bytes(comm, v_call);
    *room = bytes ? malloc(bytes) : NULL;
    if (!bytes)
        return 0;
    if (*room)
        return gyre_all_to_all_v_step_aside(comm, v_call, *room);
    gyre_thread_trouble()->status = 0;
    return gyre_comm_refused(comm, gyre_trouble_set(gyre_thread_trouble(), -ENOMEM,
                                                    "%s: no memory for a copy of %llu bytes",
                                                    v_call->call, (unsigned long long)bytes));
}

static int run_to_end(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call)
{
    struct gyre_operation *op;
    if (comm->n == 1)
        return gyre_all_to_all_v_run_alone(comm, v_call);
    int status = gyre_all_to_all_v_begin(comm, v_call, &op);
    if (!status) {
        gyre_p2p_look(comm->p2p, gyre_comm_looks(comm));
        status = gyre_comm_drive(comm, op);
        gyre_engine_release(comm->engine, op);
    }
    return status;
}

static int run_blocks(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call)
{
    void *room;
    int status = gyre_all_to_all_v_check(comm, v_call);
    if (status)
        return status;
    if (gyre_comm_in_group(comm))
        return gyre_comm_refused(comm, gyre_group_add_all_to_all_v(comm, v_call, NULL));
    status = step_aside(comm, v_call, &room);
    if (!status)
        status = run_to_end(comm, v_call);
    free(room);
    return status;
}

static int start_blocks(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                        struct gyre_started *started)
{
    return comm->n == 1 ? gyre_all_to_all_v_run_alone(comm, v_call)
                        : gyre_all_to_all_v_begin(comm, v_call, &started->op);
}

static int begin_blocks(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call,
                        struct gyre_work **out)
{
    struct gyre_started *started;
    if (!out)
        return gyre_comm_refused(comm,
                                 gyre_refuse("%s: the place for the handle is NULL", v_call->call));
    int status = gyre_all_to_all_v_check(comm, v_call);
    if (!status && gyre_comm_in_group(comm))
        return gyre_comm_refused(comm, gyre_group_add_all_to_all_v(comm, v_call, out));
    if (!status)
        status = gyre_comm_refused(comm, gyre_work_new(&comm->work, &started));
    if (status)
        return status;
    status = step_aside(comm, v_call, &started->buffer);
    if (!status)
        status = start_blocks(comm, v_call, started);
    if (!status) {
        *out = started->handle;
        return 0;
    }
    free(started->buffer);
    gyre_work_free(&comm->work, started);
    return status;
}

/* -- the calls --------------------------------------------------------------------------------- */

static struct gyre_all_to_all_v_call v_call_of(const char *call, const void *input,
                                               const uint64_t *send_counts, const uint64_t *send_at,
                                               void *output, const uint64_t *recv_counts,
                                               const uint64_t *recv_at, enum gyre_type type)
{
    return (struct gyre_all_to_all_v_call){
        .call = call,
        .out = {"send", (uint8_t *)(uintptr_t)input, send_counts, send_at},
        .in = {"receive", output, recv_counts, recv_at},
        .type = type,
    };
}

int gyre_all_to_all_v(struct gyre_comm *comm, const void *input, const uint64_t *send_counts,
                      const uint64_t *send_at, void *output, const uint64_t *recv_counts,
                      const uint64_t *recv_at, enum gyre_type type)
{
    struct gyre_all_to_all_v_call v_call = v_call_of("gyre_all_to_all_v", input, send_counts,
                                                     send_at, output, recv_counts, recv_at, type);
    int status = gyre_comm_check(comm, v_call.call);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    status = run_blocks(comm, &v_call);
    gyre_domain_leave(comm->domain);
    return status;
}

int gyre_all_to_all_v_start(struct gyre_comm *comm, const void *input, const uint64_t *send_counts,
                            const uint64_t *send_at, void *output, const uint64_t *recv_counts,
                            const uint64_t *recv_at, enum gyre_type type, struct gyre_work **work)
{
    struct gyre_all_to_all_v_call v_call = v_call_of("gyre_all_to_all_v_start", input, send_counts,
                                                     send_at, output, recv_counts, recv_at, type);
    if (work)
        *work = NULL;
    int status = gyre_comm_check(comm, v_call.call);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    status = begin_blocks(comm, &v_call, work);
    gyre_helper_take_over(comm->progress);
    return status;
}
