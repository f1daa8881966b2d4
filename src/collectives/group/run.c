/* Runs a group: starts its calls in order, packs and all, and waits for them. Tested by
 * tests/program/collectives/group.c. */
#include "collectives/comm/arguments.h"
#include "collectives/comm/helper.h"
#include "collectives/comm/message_wait.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/group/inside.h"

#include <stdlib.h>
#include <string.h>

static void note_status(struct gyre_group_run *run, int status)
{
    if (status && !run->status)
        run->status = status;
}

static void end_oldest(struct gyre_group_run *run)
{
    struct gyre_flight *flight = &run->flight[run->ended++ % GYRE_GROUP_WINDOW];
    int status = gyre_comm_drive(run->comm, flight->op);
    if (flight->pack)
        gyre_pack_empty(run->comm, flight->pack, flight->op, flight->first, status);
    else
        gyre_engine_release(run->comm->engine, flight->op);
    note_status(run, status);
}

/* Starts a handle, which takes over the call's buffer. */
static void start_handle(struct gyre_group_call *call, int status, struct gyre_operation *op)
{
    struct gyre_started *started = call->started;
    started->op = status ? NULL : op;
    started->status = status;
    started->story = status ? strdup(gyre_thread_trouble()->text) : NULL;
    started->buffer = call->buffer;
    started->deferred = false;
    call->buffer = NULL;
    if (status || !call->pack)
        return;
    started->pack = call->pack;
    started->share = call->share;
    call->pack->holders++;
}

/* Tells the operation to the handles, and the group, that wait for call `first` or for the calls of
 * its pack. */
static void tell_waiters(struct gyre_group_run *run, uint32_t first, int status,
                         struct gyre_operation *op)
{
    struct gyre_group *group = &run->comm->group;
    struct gyre_pack *pack = group->call[first].pack;
    bool waits = false;
    for (uint32_t i = first; i < (pack ? group->calls : first + 1); i++) {
        struct gyre_group_call *call = &group->call[i];
        if (!gyre_pack_has(group, first, i))
            continue;
        if (call->started)
            start_handle(call, status, op);
        else
            waits = true;
    }
    if (waits && !status) {
        run->flight[run->begun++ % GYRE_GROUP_WINDOW] = (struct gyre_flight){op, pack, first};
        if (pack)
            pack->holders++;
    }
    note_status(run, status);
}

static void start_one(struct gyre_group_run *run, uint32_t first)
{
    struct gyre_group *group = &run->comm->group;
    const struct gyre_group_call *call = &group->call[first];
    struct gyre_operation *op = NULL;
    struct gyre_request together;
    struct gyre_pack *pack;
    int status;
    if (run->begun - run->ended == GYRE_GROUP_WINDOW)
        end_oldest(run);
    if (gyre_pack_make(run->comm, first, &pack, &together))
        status = gyre_comm_refused(run->comm, gyre_group_no_memory(group));
    else if (pack)
        status = gyre_comm_start(run->comm, &together, &op);
    else if (call->v_call)
        status = gyre_all_to_all_v_begin(run->comm, call->v_call, &op);
    else
        status = gyre_comm_start(run->comm, &call->request, &op);
    tell_waiters(run, first, status, op);
    group->lost = status;
}

/* Leaves out all that is not started yet, where a good call could not be: peers count calls, and
 * would take the next one for it. */
static void leave_out_rest(struct gyre_group_run *run)
{
    struct gyre_group *group = &run->comm->group;
    gyre_thread_trouble()->status = 0;
    gyre_trouble_set(gyre_thread_trouble(), group->lost,
                     "gyre_group_end: a call of the group could not be started, so none behind it "
                     "was");
    for (; run->next < group->calls; run->next++)
        if (!group->call[run->next].pack && group->call[run->next].started)
            start_handle(&group->call[run->next], group->lost, NULL);
    note_status(run, group->lost);
    group->lost = 0;
}

/* Starts the next call; false: there is none. */
bool gyre_run_start_next(struct gyre_group_run *run)
{
    const struct gyre_group *group = &run->comm->group;
    while (run->next < group->calls && group->call[run->next].pack)
        run->next++;
    if (group->lost)
        leave_out_rest(run);
    if (run->next == group->calls) {
        gyre_comm_refused_in_group(run->comm);
        return false;
    }
    start_one(run, run->next++);
    return true;
}

static void end_messages(struct gyre_group_run *run)
{
    struct gyre_group *group = &run->comm->group;
    for (uint32_t i = 0; i < group->messages; i++)
        note_status(run, gyre_message_end(run->comm, group->message[i]));
}

/* Waits for all started calls. Owner. */
void gyre_run_end(struct gyre_group_run *run)
{
    while (run->ended < run->begun)
        end_oldest(run);
    gyre_domain_ring(run->comm->domain); /* messages may be out, and over, already */
    gyre_p2p_look(run->comm->p2p, gyre_comm_looks(run->comm));
    end_messages(run);
}

/* Begins a communicator's group. Nothing is in flight; flights are written when they begin. */
static void begin_comm(struct gyre_group_run *run, struct gyre_comm *comm)
{
    run->comm = comm;
    run->begun = run->ended = 0;
    run->next = 0;
    run->status = 0;
}

static int run_group(struct gyre_comm *comm)
{
    struct gyre_group_run run;
    begin_comm(&run, comm);
    gyre_domain_enter(comm->domain);
    while (gyre_run_start_next(&run))
        continue;
    gyre_run_end(&run);
    gyre_helper_take_over(comm->progress);
    return run.status;
}

static int run_call_alone(struct gyre_comm *comm, const struct gyre_group_call *call)
{
    return call->v_call ? gyre_all_to_all_v_run_alone(comm, call->v_call)
                        : gyre_comm_run(comm, &call->request);
}

static int run_group_alone(struct gyre_comm *comm)
{
    struct gyre_group_run run;
    struct gyre_group *group = &comm->group;
    begin_comm(&run, comm);
    gyre_domain_enter(comm->domain);
    if (group->lost)
        leave_out_rest(&run);
    for (; run.next < group->calls; run.next++) {
        struct gyre_group_call *call = &group->call[run.next];
        int status = run_call_alone(comm, call);
        if (call->started)
            start_handle(call, status, NULL);
        note_status(&run, status);
    }
    end_messages(&run);
    gyre_domain_leave(comm->domain);
    return run.status;
}

int gyre_group_run(struct gyre_comm *comm)
{
    return comm->n == 1 ? run_group_alone(comm) : run_group(comm);
}

/* Empties a group whose calls are over. */
void gyre_group_empty(struct gyre_group *group)
{
    for (uint32_t i = 0; i < group->calls; i++)
        free(group->call[i].buffer);
    group->calls = group->messages = group->depth = 0;
    group->ended = false;
    atomic_store(&group->holder, NULL);
}
