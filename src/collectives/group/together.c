/* Groups of a thread that holds several ranks of its process
 * (collectives/lifecycle/process_ranks.c).
 *
 *     group_start 0, 1, 2    calls on each    group_end 0 ─▶ waits    1 ─▶ waits    2 ─▶ runs all
 *
 * A rank's operations wait for all ranks, so groups that the thread has open on several ranks end
 * together, with the last. Calls are started by turns, one of each rank, so that no rank is ever
 * further than one call ahead of the others; the helpers drive meanwhile. A group that waits for
 * others' end counts as open: later calls on its communicator are collected too.
 *
 * Tested by tests/program/collectives/local.c. */
#include "collectives/comm/helper.h"
#include "collectives/comm/progress.h"
#include "collectives/group/inside.h"
#include "collectives/lifecycle/process_ranks.h"
#include "collectives/messages/point_to_point.h"

#include <stdlib.h>

/* Lists a group that this thread opens. */
int gyre_group_list(struct gyre_comm *comm)
{
    struct gyre_process_ranks *ranks = comm->progress->ranks;
    struct gyre_group *group = &comm->group;
    if (!group->room && !(group->room = malloc(sizeof(*group->room))))
        return gyre_group_no_memory(group);
    pthread_mutex_lock(&ranks->lock);
    group->thread = pthread_self();
    group->next = ranks->groups;
    ranks->groups = comm;
    pthread_mutex_unlock(&ranks->lock);
    return 0;
}

/* Whether the thread has a group on another rank that has not ended. Under the lock. Other threads
 * write their own groups without the lock, except the chain and the owner. */
static bool waits_for_others(const struct gyre_comm *comm)
{
    const struct gyre_comm *at = comm->progress->ranks->groups;
    while (at && (!pthread_equal(at->group.thread, comm->group.thread) ||
                  at->progress == comm->progress || at->group.ended))
        at = at->group.next;
    return at != NULL;
}

/* Takes the thread's ended groups off the list and returns their chain. Under the lock. */
static struct gyre_comm *take_ended(struct gyre_process_ranks *ranks, pthread_t thread)
{
    struct gyre_comm *taken = NULL, **at = &ranks->groups;
    while (*at) {
        struct gyre_comm *comm = *at;
        if (!pthread_equal(comm->group.thread, thread) || !comm->group.ended) {
            at = &comm->group.next;
            continue;
        }
        *at = comm->group.next;
        comm->group.next = taken;
        taken = comm;
    }
    return taken;
}

static bool start_turn(struct gyre_comm *comm)
{
    gyre_domain_enter(comm->domain);
    bool started = gyre_run_start_next(comm->group.room);
    if (gyre_progress_poll(comm->progress))
        gyre_domain_ring(comm->domain);
    gyre_helper_take_over(comm->progress);
    return started;
}

/* gyre_error() of the communicator that ended last has a story even where only another one failed.
 * What the thread itself was refused is told already. */
static void tell_of_other(const struct gyre_comm *last, const struct gyre_comm *failed, int status)
{
    struct gyre_trouble *told = gyre_thread_trouble();
    const char *story = gyre_progress_story(failed->progress);
    if (failed == last || story == told->text)
        return;
    told->status = 0;
    gyre_trouble_set(told, status, "gyre_group_end: on rank %u, which this process has too: %s",
                     failed->rank, story);
}

/* Runs a chain of several groups together; `last` ended last. */
static int run_together(struct gyre_comm *first, const struct gyre_comm *last)
{
    const struct gyre_comm *failed = NULL;
    int status = 0;
    bool more_to_start = true;
    for (struct gyre_comm *comm = first; comm; comm = comm->group.next)
        *comm->group.room = (struct gyre_group_run){.comm = comm};
    while (more_to_start) {
        more_to_start = false;
        for (struct gyre_comm *comm = first; comm; comm = comm->group.next)
            more_to_start |= comm->n > 1 && start_turn(comm);
    }
    for (struct gyre_comm *comm = first, *next; comm; comm = next) {
        struct gyre_group_run *run = comm->group.room;
        next = comm->group.next;
        if (comm->n == 1) {
            run->status = gyre_group_run(comm);
        } else {
            gyre_domain_enter(comm->domain);
            gyre_run_end(run);
            gyre_helper_take_over(comm->progress);
        }
        if (run->status && !status) {
            status = run->status;
            failed = comm;
        }
        gyre_group_empty(&comm->group);
    }
    if (failed)
        tell_of_other(last, failed, status);
    return status;
}

int gyre_group_end_with_others(struct gyre_comm *comm)
{
    struct gyre_process_ranks *ranks = comm->progress->ranks;
    pthread_mutex_lock(&ranks->lock);
    comm->group.ended = true;
    struct gyre_comm *first = waits_for_others(comm) ? NULL : take_ended(ranks, comm->group.thread);
    pthread_mutex_unlock(&ranks->lock);
    if (!first)
        return 0;
    if (first->group.next)
        return run_together(first, comm);
    int status = gyre_group_run(comm);
    gyre_group_empty(&comm->group);
    return status;
}

/* Takes a communicator that ends with an open group off the list. */
void gyre_group_unlist(struct gyre_comm *comm)
{
    struct gyre_process_ranks *ranks = comm->progress->ranks;
    pthread_mutex_lock(&ranks->lock);
    struct gyre_comm **at = &ranks->groups;
    while (*at && *at != comm)
        at = &(*at)->group.next;
    if (*at)
        *at = comm->group.next;
    pthread_mutex_unlock(&ranks->lock);
}
