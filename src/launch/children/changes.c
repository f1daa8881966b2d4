/* Hosts that come and go while the job runs, by the wish of its user.
 *
 *     asked ─▶ "leave" to a launcher behind ssh ─▶ its ranks see it (gyre_leaving()) ─▶ gone
 *                   │                                        └─ the time is over: SIGTERM ─▶
 *     not any more ─┘
 *     new or back ─▶ the caller starts a launcher ─▶ its ranks join the job
 *
 * Ranks that leave are no loss. They go out of the job's count with their end, however they end.
 *
 * Tested by tests/program/launch/hosts_file.c. */
#include "launch/children/inside.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* -- what may change --------------------------------------------------------------------------- */

bool gyre_children_may_change(const struct gyre_children *all)
{
    return gyre_children_may_lose(all) && !all->elastic.closing && !all->elastic.well;
}

enum gyre_host_state gyre_children_host(const struct gyre_children *all, int index)
{
    const struct gyre_child *child = &all->child[index];
    if (child->leaves)
        return child->pidfd >= 0 ? GYRE_HOST_LEAVES : GYRE_HOST_LEFT;
    if (child->pidfd >= 0)
        return GYRE_HOST_RUNS;
    return child->again == GYRE_CHILD_RETURNS ? GYRE_HOST_RETURNS : GYRE_HOST_LOST;
}

int gyre_children_count_staying(const struct gyre_children *all)
{
    int ranks = all->elastic.ranks - all->elastic.lost;
    for (int i = 0; i < all->children; i++) {
        const struct gyre_child *child = &all->child[i];
        if (gyre_children_host(all, i) == GYRE_HOST_RETURNS)
            ranks += child->lost;
        else if (child->leaves)
            ranks -= child->ranks - child->lost;
        else
            ranks += child->awaited;
    }
    return ranks;
}

/* -- a host goes ------------------------------------------------------------------------------- */

static void tell_host_gone(struct gyre_children *all, const struct gyre_child *child)
{
    char text[sizeof child->name + 64];
    const int left = all->elastic.ranks - all->elastic.lost - all->elastic.well;
    int used = snprintf(text, sizeof text, "%s is over, its ranks have left", child->name);
    if (left > 0)
        snprintf(text + used, sizeof text - (size_t)used, "; %d rank%s on", left,
                 left == 1 ? " goes" : "s go");
    gyre_children_say(all, "", text, "");
}

void gyre_change_note_left(struct gyre_children *all, struct gyre_child *child, int ranks)
{
    child->ranks -= ranks;
    gyre_children_release(all, ranks, 0);
}

void gyre_change_note_gone(struct gyre_children *all, int index)
{
    struct gyre_child *child = &all->child[index];
    const int ranks = child->ranks, lost = child->lost;
    gyre_again_await_none(all, &child->awaited);
    child->again = GYRE_CHILD_ENDS;
    child->ranks = child->lost = 0;
    child->hurry_ns = 0;
    all->changed = true;
    gyre_children_release(all, ranks, lost);
    tell_host_gone(all, child);
}

/* A host that is to be started again counts as one restart that is awaited. */
void gyre_children_let_leave(struct gyre_children *all, int index, int limit_ms)
{
    struct gyre_child *child = &all->child[index];
    all->elastic.awaited -= gyre_children_host(all, index) == GYRE_HOST_RETURNS;
    child->leaves = true;
    if (child->pidfd < 0) {
        gyre_change_note_gone(all, index);
        return;
    }
    gyre_child_say(child, "leave\n");
    child->hurry_ns = gyre_now_ns() + (uint64_t)limit_ms * GYRE_MS;
}

uint64_t gyre_change_next_ns(const struct gyre_children *all)
{
    uint64_t next = 0;
    for (int i = 0; all->rereads && i < all->children; i++)
        if (all->child[i].hurry_ns && (!next || all->child[i].hurry_ns < next))
            next = all->child[i].hurry_ns;
    return next;
}

void gyre_change_hurry(struct gyre_children *all)
{
    char text[sizeof all->child->name + 64], line[16];
    uint64_t next = gyre_change_next_ns(all);
    if (!next || gyre_now_ns() < next)
        return;
    for (int i = 0; i < all->children; i++) {
        struct gyre_child *child = &all->child[i];
        if (child->hurry_ns != next)
            continue;
        snprintf(text, sizeof text, "%s: its ranks have not left in time, and are ended",
                 child->name);
        gyre_children_say(all, "", text, "");
        snprintf(line, sizeof line, "signal %d\n", SIGTERM);
        gyre_child_say(child, line);
        child->hurry_ns = 0;
    }
}

void gyre_change_leave(struct gyre_children *all)
{
    if (all->leaving || !all->elastic.least)
        return;
    all->leaving = true;
    gyre_again_stop(all);
    gyre_process_group_ask_to_leave(&all->group);
}

/* -- a host comes ------------------------------------------------------------------------------ */

int gyre_children_add(struct gyre_children *all)
{
    if (all->children == all->room)
        return -1;
    all->child[all->children] = (struct gyre_child){
        .pidfd = -1, .input = -1, .out = {.fd = -1, .log_fd = -1}, .err = {.fd = -1, .log_fd = -1}};
    return all->children++;
}

/* Ranks of a host that was lost were counted as lost, those of one that had left or is new were
 * not counted. */
void gyre_children_came(struct gyre_children *all, int index)
{
    struct gyre_child *child = &all->child[index];
    char text[sizeof child->name + 96];
    const int ranks = child->ranks;
    const bool back = child->lost > 0;
    if (back)
        all->elastic.lost -= child->lost;
    else
        all->elastic.ranks += ranks;
    child->lost = 0;
    child->leaves = false;
    child->young = true;
    all->alive++;
    snprintf(text, sizeof text, "%s is started: %d rank%s join%s; %d ranks", child->name, ranks,
             ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", all->elastic.ranks - all->elastic.lost);
    gyre_children_say(all, "", text, "");
}
