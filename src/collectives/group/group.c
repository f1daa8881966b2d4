/* Groups of calls that are started together.
 *
 *   group_start   gyre_send ───────▶ started at once           group_end
 *                 all_reduce a ─┐                              starts collected calls, in order,
 *                 broadcast  b ─┼─▶ collected ───────────────▶ [a c packed] [b], and waits for all
 *                 all_reduce c ─┘
 *
 * Starting a message waits for no peer, so a group starts messages at once; hence all ranks may
 * send first. Operations are collected until the end, because small ones of a kind then travel
 * together (pack.c).
 *
 * All memory grows to what the largest group needed and is kept by the communicator.
 *
 *     group.c      begins and ends groups
 *     together.c   ends the groups of several ranks of one process
 *     run.c        starts collected calls, and waits
 *     pack.c       small calls that travel as one operation
 *     collect.c    keeps the calls
 *
 * Tested by tests/program/collectives/group.c. */
#include "collectives/group/group.h"

#include "collectives/comm/progress.h"
#include "collectives/group/inside.h"

int gyre_group_open(struct gyre_comm *comm)
{
    struct gyre_group *group = &comm->group;
    const struct gyre_trouble *nobody = NULL;
    int status = 0;
    if (!gyre_comm_in_group(comm) &&
        !atomic_compare_exchange_strong(&group->holder, &nobody, gyre_thread_trouble()))
        return gyre_refuse("gyre_group_start: another thread has a group open on this "
                           "communicator; gyre_group_end() it first");
    if (group->depth == 0 && comm->progress->ranks)
        status = gyre_group_list(comm);
    if (!status)
        group->depth += !group->ended;
    else
        atomic_store(&group->holder, NULL);
    group->ended = false;
    return status;
}

int gyre_group_close(struct gyre_comm *comm)
{
    struct gyre_group *group = &comm->group;
    if (!gyre_comm_in_group(comm) || group->ended)
        return gyre_refuse("gyre_group_end: %s",
                           atomic_load(&group->holder) && !group->ended
                               ? "another thread has opened the group of this communicator"
                               : "no group is open on this communicator");
    if (group->depth > 1) {
        group->depth--;
        return 0;
    }
    if (comm->progress->ranks)
        return gyre_group_end_with_others(comm);
    int status = gyre_group_run(comm);
    gyre_group_empty(group);
    return status;
}

int gyre_group_left_open(struct gyre_comm *comm)
{
    const struct gyre_group *group = &comm->group;
    if (!atomic_load(&group->holder))
        return 0;
    if (comm->progress->ranks)
        gyre_group_unlist(comm);
    int status =
        gyre_refuse("rank %u ends a communicator with a group open: gyre_group_end() was not "
                    "called for %u operations and %u messages",
                    gyre_domain_joined(comm->domain)->rank, group->calls, group->messages);
    if (gyre_domain_watch(comm->domain) && group->calls + group->messages)
        gyre_watch_report(gyre_domain_watch(comm->domain), status,
                          gyre_domain_joined(comm->domain)->rank, false,
                          gyre_thread_trouble()->text);
    return status;
}
