/* The collective calls of gyre/gyre.h: every one is its arguments in a struct.
 *
 *     gyre_broadcast()        ─┐                             ┌─ gyre_comm_run()
 *     gyre_broadcast_start()   ├─▶ struct gyre_call ─▶ check ─┼─ gyre_comm_begin() ─▶ *work
 *     gyre_broadcast_on()     ─┘                             └─ gyre_comm_begin_on(), by a stream
 *
 * A call enters the domain once, so threads call in the order of their arrival.
 *
 * Tested by tests/program/collectives/collectives.c. */
#include "collectives/comm/arguments.h"
#include "collectives/comm/helper.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/reductions.h"
#include "collectives/group/collect.h"

#include <stdlib.h>

/* -- the ways of a call ------------------------------------------------------------------------ */

/* Checks a call. A reduction that multiplies does so now; the input is free afterwards, and
 * `buffer` may hold the products. */
static int prepare_call(struct gyre_comm *comm, struct gyre_call *call, void **buffer)
{
    *buffer = NULL;
    int status = gyre_call_check(comm, call);
    if (!status && call->request.shape.fold)
        status = gyre_reduction_scale(comm, &call->request, buffer);
    return gyre_comm_refused(comm, status);
}

static int run_checked(struct gyre_comm *comm, struct gyre_call *call, bool in_group)
{
    void *buffer;
    int status = prepare_call(comm, call, &buffer);
    if (!status && in_group)
        return gyre_comm_refused(comm, gyre_group_add(comm, &call->request, buffer, NULL));
    if (!status)
        status = gyre_comm_run(comm, &call->request);
    free(buffer);
    return status;
}

static int run_call(struct gyre_comm *comm, struct gyre_call *call)
{
    int status = gyre_comm_check(comm, call->name);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    bool in_group = gyre_comm_in_group(comm);
    if (in_group || !gyre_comm_run_again(comm, &call->request, &status))
        status = run_checked(comm, call, in_group);
    gyre_domain_leave(comm->domain);
    return status;
}

static int start_checked(struct gyre_comm *comm, struct gyre_call *call, struct gyre_work **work)
{
    void *buffer = NULL;
    if (!work)
        return gyre_comm_refused(comm,
                                 gyre_refuse("%s: the place for the handle is NULL", call->name));
    int status = prepare_call(comm, call, &buffer);
    if (!status && gyre_comm_in_group(comm))
        return gyre_comm_refused(comm, gyre_group_add(comm, &call->request, buffer, work));
    if (!status)
        status = gyre_comm_begin(comm, &call->request, buffer, work);
    if (status)
        free(buffer);
    return status;
}

static int start_call(struct gyre_comm *comm, struct gyre_call *call, struct gyre_work **work)
{
    if (work)
        *work = NULL;
    int status = gyre_comm_check(comm, call->name);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    status = start_checked(comm, call, work);
    gyre_helper_take_over(comm->progress);
    return status;
}

static int run_checked_on(struct gyre_comm *comm, struct gyre_call *call, void *stream)
{
    int status = gyre_call_check(comm, call);
    if (!status)
        status = gyre_call_check_stream(comm, call, stream);
    return status ? gyre_comm_refused(comm, status)
                  : gyre_comm_begin_on(comm, &call->request, stream);
}

static int run_call_on(struct gyre_comm *comm, struct gyre_call *call, void *stream)
{
    int status = gyre_comm_check(comm, call->name);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    status = run_checked_on(comm, call, stream);
    gyre_helper_take_over(comm->progress);
    return status;
}

/* -- the calls --------------------------------------------------------------------------------- */

static struct gyre_call reducing(const char *name, enum gyre_verb verb, const void *input,
                                 void *output, uint64_t count, enum gyre_type type, enum gyre_op op)
{
    return (struct gyre_call){
        .name = name,
        .request = {.shape = {.verb = verb, .type = type, .op = op, .count = count},
                    .input.address = (void *)(uintptr_t)input,
                    .output.address = output}};
}

static struct gyre_call moving(const char *name, enum gyre_verb verb, const void *input,
                               void *output, uint64_t count, enum gyre_type type)
{
    return reducing(name, verb, input, output, count, type, GYRE_SUM);
}

static struct gyre_call rooted(struct gyre_call call, int root)
{
    call.root = root;
    call.request.shape.root = (uint32_t)root;
    return call;
}

int gyre_all_reduce(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type, enum gyre_op op)
{
    struct gyre_call call =
        reducing("gyre_all_reduce", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return run_call(comm, &call);
}

int gyre_all_reduce_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, enum gyre_op op, struct gyre_work **work)
{
    struct gyre_call call =
        reducing("gyre_all_reduce_start", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return start_call(comm, &call, work);
}

int gyre_all_reduce_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, enum gyre_op op, void *stream)
{
    struct gyre_call call =
        reducing("gyre_all_reduce_on", GYRE_VERB_ALL_REDUCE, input, output, count, type, op);
    return run_call_on(comm, &call, stream);
}

int gyre_broadcast(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   enum gyre_type type, int root)
{
    struct gyre_call call =
        rooted(moving("gyre_broadcast", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return run_call(comm, &call);
}

int gyre_broadcast_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                         enum gyre_type type, int root, struct gyre_work **work)
{
    struct gyre_call call = rooted(
        moving("gyre_broadcast_start", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return start_call(comm, &call, work);
}

int gyre_broadcast_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, int root, void *stream)
{
    struct gyre_call call =
        rooted(moving("gyre_broadcast_on", GYRE_VERB_BROADCAST, input, output, count, type), root);
    return run_call_on(comm, &call, stream);
}

int gyre_reduce(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                enum gyre_type type, enum gyre_op op, int root)
{
    struct gyre_call call =
        rooted(reducing("gyre_reduce", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return run_call(comm, &call);
}

int gyre_reduce_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, enum gyre_op op, int root, struct gyre_work **work)
{
    struct gyre_call call = rooted(
        reducing("gyre_reduce_start", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return start_call(comm, &call, work);
}

int gyre_reduce_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   enum gyre_type type, enum gyre_op op, int root, void *stream)
{
    struct gyre_call call =
        rooted(reducing("gyre_reduce_on", GYRE_VERB_REDUCE, input, output, count, type, op), root);
    return run_call_on(comm, &call, stream);
}

int gyre_all_gather(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type)
{
    struct gyre_call call =
        moving("gyre_all_gather", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return run_call(comm, &call);
}

int gyre_all_gather_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, struct gyre_work **work)
{
    struct gyre_call call =
        moving("gyre_all_gather_start", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return start_call(comm, &call, work);
}

int gyre_all_gather_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, void *stream)
{
    struct gyre_call call =
        moving("gyre_all_gather_on", GYRE_VERB_ALL_GATHER, input, output, count, type);
    return run_call_on(comm, &call, stream);
}

static struct gyre_call unequal(struct gyre_call call, const uint64_t *counts, const uint64_t *at)
{
    call.unequal = true;
    call.request.shape.blocks = (struct gyre_blocks){at, counts};
    return call;
}

int gyre_all_gather_v(struct gyre_comm *comm, const void *input, void *output,
                      const uint64_t *counts, const uint64_t *at, enum gyre_type type)
{
    struct gyre_call call = unequal(
        moving("gyre_all_gather_v", GYRE_VERB_ALL_GATHER, input, output, 0, type), counts, at);
    return run_call(comm, &call);
}

int gyre_all_gather_v_start(struct gyre_comm *comm, const void *input, void *output,
                            const uint64_t *counts, const uint64_t *at, enum gyre_type type,
                            struct gyre_work **work)
{
    struct gyre_call call =
        unequal(moving("gyre_all_gather_v_start", GYRE_VERB_ALL_GATHER, input, output, 0, type),
                counts, at);
    return start_call(comm, &call, work);
}

int gyre_reduce_scatter(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                        enum gyre_type type, enum gyre_op op)
{
    struct gyre_call call =
        reducing("gyre_reduce_scatter", GYRE_VERB_REDUCE_SCATTER, input, output, count, type, op);
    return run_call(comm, &call);
}

int gyre_reduce_scatter_start(struct gyre_comm *comm, const void *input, void *output,
                              uint64_t count, enum gyre_type type, enum gyre_op op,
                              struct gyre_work **work)
{
    struct gyre_call call = reducing("gyre_reduce_scatter_start", GYRE_VERB_REDUCE_SCATTER, input,
                                     output, count, type, op);
    return start_call(comm, &call, work);
}

int gyre_reduce_scatter_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                           enum gyre_type type, enum gyre_op op, void *stream)
{
    struct gyre_call call = reducing("gyre_reduce_scatter_on", GYRE_VERB_REDUCE_SCATTER, input,
                                     output, count, type, op);
    return run_call_on(comm, &call, stream);
}

int gyre_all_to_all(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type)
{
    struct gyre_call call =
        moving("gyre_all_to_all", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return run_call(comm, &call);
}

int gyre_all_to_all_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                          enum gyre_type type, struct gyre_work **work)
{
    struct gyre_call call =
        moving("gyre_all_to_all_start", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return start_call(comm, &call, work);
}

int gyre_all_to_all_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, void *stream)
{
    struct gyre_call call =
        moving("gyre_all_to_all_on", GYRE_VERB_ALL_TO_ALL, input, output, count, type);
    return run_call_on(comm, &call, stream);
}

int gyre_gather(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                enum gyre_type type, int root)
{
    struct gyre_call call =
        rooted(moving("gyre_gather", GYRE_VERB_GATHER, input, output, count, type), root);
    return run_call(comm, &call);
}

int gyre_gather_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                      enum gyre_type type, int root, struct gyre_work **work)
{
    struct gyre_call call =
        rooted(moving("gyre_gather_start", GYRE_VERB_GATHER, input, output, count, type), root);
    return start_call(comm, &call, work);
}

int gyre_gather_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                   enum gyre_type type, int root, void *stream)
{
    struct gyre_call call =
        rooted(moving("gyre_gather_on", GYRE_VERB_GATHER, input, output, count, type), root);
    return run_call_on(comm, &call, stream);
}

int gyre_scatter(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                 enum gyre_type type, int root)
{
    struct gyre_call call =
        rooted(moving("gyre_scatter", GYRE_VERB_SCATTER, input, output, count, type), root);
    return run_call(comm, &call);
}

int gyre_scatter_start(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                       enum gyre_type type, int root, struct gyre_work **work)
{
    struct gyre_call call =
        rooted(moving("gyre_scatter_start", GYRE_VERB_SCATTER, input, output, count, type), root);
    return start_call(comm, &call, work);
}

int gyre_scatter_on(struct gyre_comm *comm, const void *input, void *output, uint64_t count,
                    enum gyre_type type, int root, void *stream)
{
    struct gyre_call call =
        rooted(moving("gyre_scatter_on", GYRE_VERB_SCATTER, input, output, count, type), root);
    return run_call_on(comm, &call, stream);
}

static struct gyre_call barrier(struct gyre_comm *comm, const char *name)
{
    struct gyre_call call = reducing(name, GYRE_VERB_ALL_REDUCE, NULL, NULL, 1, GYRE_U8, GYRE_MAX);
    call.request.shape.barrier = true;
    if (comm) {
        call.request.input.address = &comm->barrier_in;
        call.request.output.address = &comm->barrier_out;
    }
    return call;
}

int gyre_barrier(struct gyre_comm *comm)
{
    struct gyre_call call = barrier(comm, "gyre_barrier");
    return run_call(comm, &call);
}

int gyre_barrier_start(struct gyre_comm *comm, struct gyre_work **work)
{
    struct gyre_call call = barrier(comm, "gyre_barrier_start");
    return start_call(comm, &call, work);
}
