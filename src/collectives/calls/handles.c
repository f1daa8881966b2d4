/* The calls on handles of started work. Each looks its handles up as the owner of their domain, so
 * that any thread may use them. Tested by tests/program/collectives/handles.c and threads.c. */
#include "base/clock.h"
#include "collectives/comm/message_wait.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/results.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t deadline_of(int timeout_ms)
{
    return timeout_ms < 0    ? UINT64_MAX
           : timeout_ms == 0 ? 0
                             : gyre_now_ns() + (uint64_t)timeout_ms * GYRE_MS;
}

/* -- handles ----------------------------------------------------------------------------------- */

static int refuse_spent(const struct gyre_work *handle, const char *call)
{
    return gyre_refuse("%s: the handle is %s", call,
                       handle ? "spent: it was waited for already, or its communicator has ended"
                              : "NULL");
}

/* Finds the work of a handle. Owner. */
static int find_started(const struct gyre_comm *comm, const struct gyre_work *handle,
                        const char *call, struct gyre_started **out)
{
    struct gyre_started *started = *out = gyre_work_find(&comm->work, handle);
    if (!started)
        return refuse_spent(handle, call);
    if (started->deferred)
        return gyre_refuse("%s: the handle's group is open; gyre_group_end() first", call);
    return started->awaited ? gyre_refuse("%s: another thread waits for this handle", call) : 0;
}

/* Enters the domain of a handle's communicator. */
static int enter_domain(const struct gyre_work *handle, const char *call, struct gyre_comm **comm)
{
    *comm = gyre_work_comm(handle);
    if (!*comm)
        return refuse_spent(handle, call);
    if (gyre_domain_forked((*comm)->domain))
        return GYRE_FORKED;
    gyre_domain_enter((*comm)->domain);
    return 0;
}

/* -- one --------------------------------------------------------------------------------------- */

static int take(struct gyre_started *started)
{
    return started->message ? gyre_message_take(started) : gyre_results_take(started);
}

/* The word that tells the end of the work. */
static const void *end_word(const struct gyre_started *started)
{
    return started->message ? (const void *)&started->message->status
           : started->op    ? (const void *)&started->op->status
                            : (const void *)&started->status;
}

/* Tells the watch where the thread waits. */
static void focus_on(const struct gyre_started *started)
{
    if (started->message)
        gyre_p2p_focus(started->comm->p2p);
    else
        gyre_comm_focus(started->comm);
}

static int refuse_own(const struct gyre_started *started, const char *call)
{
    return gyre_refuse("%s: rank %u waits for itself: it has not called the other end of this "
                       "message",
                       call, started->comm->rank);
}

/* Waits for work, and spends its handle where it is over. Owner. */
static int await_started(struct gyre_started *started, const char *call, uint64_t deadline)
{
    struct gyre_wait wait = {.word = end_word(started), .old = GYRE_AGAIN, .deadline = deadline};
    if (gyre_message_waits_for_itself(started))
        return deadline == UINT64_MAX ? refuse_own(started, call) : GYRE_AGAIN;
    if (gyre_results_status(started) == GYRE_AGAIN) {
        focus_on(started);
        started->awaited = true;
        gyre_progress_wait(started->comm->progress, &wait);
        started->awaited = false;
    }
    return gyre_results_status(started) == GYRE_AGAIN ? GYRE_AGAIN : take(started);
}

static int await_handle(const struct gyre_work *handle, const char *call, uint64_t deadline)
{
    struct gyre_comm *comm;
    struct gyre_started *started;
    int status = enter_domain(handle, call, &comm);
    if (status)
        return status;
    status = find_started(comm, handle, call, &started);
    if (!status)
        status = await_started(started, call, deadline);
    gyre_domain_leave(comm->domain);
    return status;
}

int gyre_work_test(struct gyre_work *work)
{
    return await_handle(work, "gyre_work_test", 0);
}

int gyre_work_wait(struct gyre_work *work, int timeout_ms)
{
    return await_handle(work, "gyre_work_wait", deadline_of(timeout_ms));
}

int gyre_work_status(const struct gyre_work *work)
{
    struct gyre_comm *comm;
    struct gyre_started *started;
    int status = enter_domain(work, "gyre_work_status", &comm);
    if (status)
        return status;
    started = gyre_work_find(&comm->work, work);
    status = !started            ? refuse_spent(work, "gyre_work_status")
             : started->deferred ? GYRE_AGAIN
                                 : gyre_results_status(started);
    gyre_domain_leave(comm->domain);
    return status;
}

const char *gyre_work_error(const struct gyre_work *work)
{
    struct gyre_comm *comm;
    const char *story = "";
    if (enter_domain(work, "gyre_work_error", &comm))
        return gyre_thread_trouble()->text;
    const struct gyre_started *started = gyre_work_find(&comm->work, work);
    if (!started) {
        refuse_spent(work, "gyre_work_error");
        story = gyre_thread_trouble()->text;
    } else if (!started->deferred && gyre_results_status(started) < 0) {
        story = started->story ? started->story : gyre_progress_story(comm->progress);
    }
    gyre_domain_leave(comm->domain);
    return story;
}

/* -- several ----------------------------------------------------------------------------------- */

struct several {
    const char *call;
    struct gyre_work **work;
    int count;
    struct gyre_domain *domain;    /* that of the first handle; NULL: all handles are NULL */
    struct gyre_started **started; /* by handle; NULL: none */
    struct gyre_wait *wait;
};

static int make_several_room(struct several *several)
{
    if (several->count < 0 || (several->count && !several->work))
        return gyre_refuse("%s: %d handles, and their table is %s", several->call, several->count,
                           several->work ? "there" : "NULL");
    several->started = calloc((size_t)several->count + 1, sizeof(*several->started));
    several->wait = calloc((size_t)several->count + 1, sizeof(*several->wait));
    if (several->started && several->wait)
        return 0;
    gyre_thread_trouble()->status = 0; /* of an earlier call */
    return gyre_trouble_set(gyre_thread_trouble(), -ENOMEM, "%s: no memory for %d handles",
                            several->call, several->count);
}

/* Enters the domain of the first handle; without one, none. */
static int enter_first(struct several *several)
{
    struct gyre_comm *comm;
    int first = 0;
    while (first < several->count && !several->work[first])
        first++;
    if (first == several->count)
        return 0;
    int status = enter_domain(several->work[first], several->call, &comm);
    if (!status)
        several->domain = comm->domain;
    return status;
}

/* Finds the work of each handle, and marks it as awaited. Owner. */
static int find_all(const struct several *several)
{
    int status = 0;
    for (int i = 0; i < several->count && !status; i++) {
        const struct gyre_work *handle = several->work[i];
        const struct gyre_comm *comm = handle ? gyre_work_comm(handle) : NULL;
        if (handle && !comm)
            status = refuse_spent(handle, several->call);
        else if (comm && comm->domain != several->domain)
            status = gyre_refuse("%s: handles 0 … %d are of communicators of different "
                                 "gyre_init(); wait for those of each apart",
                                 several->call, i);
        else if (comm &&
                 !(status = find_started(comm, handle, several->call, &several->started[i])))
            several->started[i]->awaited = true;
        if (status)
            several->started[i] = NULL;
    }
    return status;
}

static void unmark_awaited(const struct several *several)
{
    for (int i = 0; i < several->count; i++)
        if (several->started[i])
            several->started[i]->awaited = false;
}

static int enter_several(struct several *several)
{
    int status = make_several_room(several);
    if (!status)
        status = enter_first(several);
    return status || !several->domain ? status : find_all(several);
}

static void leave_several(struct several *several)
{
    if (several->domain) {
        unmark_awaited(several);
        gyre_domain_leave(several->domain);
    }
    free(several->started);
    free(several->wait);
}

/* Spends the handle of work that is over. */
static int take_one(const struct several *several, int i)
{
    struct gyre_started *started = several->started[i];
    several->started[i] = NULL;
    several->work[i] = NULL;
    started->awaited = false;
    return take(started);
}

static int first_over(const struct several *several)
{
    for (int i = 0; i < several->count; i++)
        if (several->started[i] && gyre_results_status(several->started[i]) != GYRE_AGAIN)
            return i;
    return -1;
}

/* Chains the conditions of all work that another rank, or this one's progress, can end. NULL: there
 * is none. */
static struct gyre_wait *chain_waits(const struct several *several, uint64_t deadline)
{
    struct gyre_wait *first = NULL;
    for (int i = several->count; i-- > 0;) {
        const struct gyre_started *started = several->started[i];
        if (!started || gyre_message_waits_for_itself(started))
            continue;
        several->wait[i] = (struct gyre_wait){
            .word = end_word(started), .old = GYRE_AGAIN, .also = first, .deadline = deadline};
        first = &several->wait[i];
    }
    return first;
}

/* The first handle that is not NULL; there is one. */
static const struct gyre_started *first_of(const struct several *several)
{
    int i = 0;
    while (!several->started[i])
        i++;
    return several->started[i];
}

/* Waits until the work of a handle is over. */
static int await_any(const struct several *several, int *which, uint64_t deadline)
{
    *which = first_over(several);
    struct gyre_wait *wait = chain_waits(several, deadline);
    if (*which < 0 && !wait)
        return deadline == UINT64_MAX ? refuse_own(first_of(several), several->call) : GYRE_AGAIN;
    if (*which < 0) {
        const struct gyre_started *first = several->started[wait - several->wait];
        focus_on(first);
        gyre_progress_wait(first->comm->progress, wait);
        *which = first_over(several);
    }
    return *which < 0 ? GYRE_AGAIN : take_one(several, *which);
}

int gyre_wait_any(struct gyre_work **works, int count, int *which, int timeout_ms)
{
    struct several several = {.call = "gyre_wait_any", .work = works, .count = count};
    uint64_t deadline = deadline_of(timeout_ms);
    if (!which)
        return gyre_refuse("gyre_wait_any: the place for the index is NULL");
    *which = -1;
    int status = enter_several(&several);
    if (!status && several.domain)
        status = await_any(&several, which, deadline);
    leave_several(&several);
    return status;
}

/* Waits for the work of one handle after the other. The first failure goes before GYRE_AGAIN. */
static int await_all(const struct several *several, uint64_t deadline)
{
    int first = 0, status = 0;
    for (int i = 0; i < several->count && status != GYRE_AGAIN; i++) {
        struct gyre_started *started = several->started[i];
        if (!started)
            continue;
        status = await_started(started, several->call, deadline);
        started->awaited = gyre_work_find(&started->comm->work, several->work[i]) == started;
        if (!started->awaited) {
            several->started[i] = NULL;
            several->work[i] = NULL;
        }
        first = first < 0 || !status ? first : status;
    }
    return first;
}

int gyre_wait_all(struct gyre_work **works, int count, int timeout_ms)
{
    struct several several = {.call = "gyre_wait_all", .work = works, .count = count};
    uint64_t deadline = deadline_of(timeout_ms);
    int status = enter_several(&several);
    if (!status)
        status = await_all(&several, deadline);
    leave_several(&several);
    return status;
}
