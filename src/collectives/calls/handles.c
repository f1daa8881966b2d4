/* The calls on handles of started work. Tested by tests/program/collectives/handles.c. */
#include "base/clock.h"
#include "collectives/comm/message_wait.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/results.h"

static int await_started(struct gyre_started *started, uint64_t deadline)
{
    struct gyre_comm *comm = started->comm;
    if (started->message)
        return gyre_message_await(started, deadline);
    if (!started->op)
        return gyre_results_take(started);
    struct gyre_wait wait = {&started->op->status, GYRE_AGAIN, deadline, {0}};
    gyre_domain_enter(comm->domain);
    gyre_comm_focus(comm);
    gyre_progress_wait(comm->progress, &wait);
    int status = gyre_results_take(started);
    gyre_domain_leave(comm->domain);
    return status;
}

static int check_handle(const struct gyre_work *handle, const char *call, struct gyre_started **out)
{
    struct gyre_started *started = *out = gyre_work_find(handle);
    if (!started)
        return gyre_refuse("%s: the handle is %s", call,
                           handle ? "spent: it was waited for already, or its communicator has "
                                    "ended"
                                  : "NULL");
    if (gyre_domain_forked(started->comm->domain))
        return GYRE_FORKED;
    return started->deferred
               ? gyre_refuse("%s: the handle's group is open; gyre_group_end() first", call)
               : 0;
}

int gyre_work_test(struct gyre_work *work)
{
    struct gyre_started *started;
    int status = check_handle(work, "gyre_work_test", &started);
    return status ? status : await_started(started, 0);
}

int gyre_work_wait(struct gyre_work *work, int timeout_ms)
{
    struct gyre_started *started;
    int status = check_handle(work, "gyre_work_wait", &started);
    if (status)
        return status;
    return await_started(started, timeout_ms < 0 ? UINT64_MAX
                                  : timeout_ms == 0
                                      ? 0
                                      : gyre_now_ns() + (uint64_t)timeout_ms * GYRE_MS);
}
