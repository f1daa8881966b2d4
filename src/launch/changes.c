/* Hosts that come and go: from what the hosts file says to what is started and asked to leave.
 *
 *     file now        running before      then
 *     a:2             a:2                 stays
 *                     b:2                 its ranks are asked to leave
 *     c:4             -                   is started, with as many ranks as there may be still
 *     d:2             d, lost for good    is started again
 *
 * A node keeps its number for as long as the job runs, so ranks keep their names and logs. A host
 * that comes back gets its old number where it has as many ranks as before. What cannot be done yet
 * is done when a host has left, for the file's content is kept. A host whose number of ranks has
 * changed keeps those it has until it leaves.
 *
 * Tested by tests/program/launch/hosts_file.c. */
#include "launch/hosts_file.h"
#include "launch/start.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

struct wish { /* what the file has said last */
    struct gyre_hosts hosts;
    struct gyre_seating seating;
};

static struct wish wish;

/* -- who goes ---------------------------------------------------------------------------------- */

static int find_listed_host(const char *host)
{
    for (int i = 0; i < wish.seating.nodes; i++)
        if (!strcmp(wish.hosts.name[i], host))
            return i;
    return -1;
}

static void ask_to_leave(struct gyre_children *all, const struct gyre_launch_options *options,
                         const struct gyre_launch_job *job, int node)
{
    const enum gyre_host_state state = gyre_children_host(all, node);
    const int ranks = state == GYRE_HOST_LOST ? 0 : all->child[node].ranks - all->child[node].lost;
    const int left = gyre_children_count_staying(all) - ranks;
    char text[GYRE_HOST_MAX + 160];
    const char *s = left == 1 ? "" : "s";
    if (left < job->elastic_least)
        snprintf(text, sizeof text,
                 "host %s stays: without it %d rank%s would be left, and --elastic needs %d",
                 job->hosts.name[node], left, s, job->elastic_least);
    else
        snprintf(text, sizeof text, "host %s goes: its ranks are asked to leave; %d rank%s stay%s",
                 job->hosts.name[node], left, s, left == 1 ? "s" : "");
    gyre_children_tell(all, text);
    if (left >= job->elastic_least)
        gyre_children_let_leave(all, node, options->leave_limit_ms);
}

static void let_hosts_go(struct gyre_children *all, const struct gyre_launch_options *options,
                         const struct gyre_launch_job *job)
{
    for (int node = job->seating.nodes - 1; node >= 0; node--)
        if (!all->child[node].leaves && find_listed_host(job->hosts.name[node]) < 0)
            ask_to_leave(all, options, job, node);
}

/* -- who comes --------------------------------------------------------------------------------- */

/* Whether the host has ranks, or will have, or must end before it may have some. */
static bool is_busy(const struct gyre_children *all, const struct gyre_launch_job *job,
                    const char *host)
{
    for (int node = 0; node < job->seating.nodes; node++) {
        const enum gyre_host_state state = gyre_children_host(all, node);
        if (!strcmp(job->hosts.name[node], host) && state != GYRE_HOST_LEFT &&
            state != GYRE_HOST_LOST)
            return true;
    }
    return false;
}

/* The node that the host had, with as many ranks; else a new one; -1: there are too many. */
static int find_host_place(struct gyre_children *all, struct gyre_launch_job *job, const char *host,
                           int size)
{
    for (int node = 0; node < job->seating.nodes; node++)
        if (!strcmp(job->hosts.name[node], host) && job->seating.size[node] == size)
            return node;
    int node = gyre_children_add(all);
    if (node < 0)
        return -1;
    snprintf(job->hosts.name[node], sizeof job->hosts.name[node], "%s", host);
    job->seating.size[node] = size;
    job->seating.nodes = node + 1;
    return node;
}

/* A place that is of no use counts as one whose host has left. */
static void give_up_host(struct gyre_children *all, int node, const char *why)
{
    char text[600];
    snprintf(text, sizeof text, "a host cannot be started: %.500s", why);
    gyre_children_tell(all, text);
    if (node >= 0 && !all->child[node].lost)
        all->child[node].leaves = true;
}

static void start_new_host(struct gyre_children *all, const struct gyre_launch_options *options,
                           struct gyre_launch_job *job, const char *host, int size)
{
    struct gyre_trouble trouble = {0};
    int node = find_host_place(all, job, host, size);
    if (node < 0) {
        give_up_host(all, node, "the job has had as many as there can be");
        return;
    }
    gyre_children_clear(all, node);
    if (gyre_host_start_again(all, node, options, job, &trouble))
        give_up_host(all, node, trouble.text);
    else
        gyre_children_came(all, node);
}

static void let_hosts_come(struct gyre_children *all, const struct gyre_launch_options *options,
                           struct gyre_launch_job *job)
{
    char text[GYRE_HOST_MAX + 96];
    for (int i = 0; i < wish.seating.nodes; i++) {
        const int room = job->elastic_most - gyre_children_count_staying(all);
        const int size = wish.seating.size[i] < room ? wish.seating.size[i] : room;
        if (is_busy(all, job, wish.hosts.name[i]))
            continue;
        if (size > 0) {
            start_new_host(all, options, job, wish.hosts.name[i], size);
            continue;
        }
        snprintf(text, sizeof text, "host %s waits: the job has all the %d ranks of --elastic",
                 wish.hosts.name[i], job->elastic_most);
        gyre_children_tell(all, text);
    }
}

/* -- when -------------------------------------------------------------------------------------- */

static bool read_wish(struct gyre_children *all, const struct gyre_launch_options *options)
{
    struct gyre_trouble trouble = {0};
    char text[600];
    if (!gyre_hosts_file_read(options->hosts_file, options->hosts_each, &wish.hosts, &wish.seating,
                              &trouble))
        return true;
    snprintf(text, sizeof text, "%.500s; the job goes on with the hosts that it has", trouble.text);
    gyre_children_tell(all, text);
    return false;
}

void gyre_hosts_change(struct gyre_children *all, const struct gyre_launch_options *options,
                       struct gyre_launch_job *job)
{
    const bool reread = all->reread;
    all->reread = false;
    if (!gyre_children_may_change(all)) {
        if (reread)
            gyre_children_tell(all, "hosts do not change any more: the job is ending");
        return;
    }
    if (reread && !read_wish(all, options))
        return;
    let_hosts_go(all, options, job);
    let_hosts_come(all, options, job);
}

void gyre_hosts_renew(const struct gyre_launch_options *options, struct gyre_launch_job *job)
{
    struct gyre_trouble trouble = {0};
    if (!options->hosts_file)
        return;
    if (gyre_hosts_file_read(options->hosts_file, options->hosts_each, &wish.hosts, &wish.seating,
                             &trouble)) {
        gyre_log(GYRE_LOG_WARN, "%s; the hosts stay the same", trouble.text);
        return;
    }
    job->hosts = wish.hosts;
    job->seating = wish.seating;
    gyre_seating_cut(&job->seating, job->elastic_most);
}
