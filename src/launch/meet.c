/* The meeting: launchers are a job of their own, in which a node is a rank.
 *
 *     node 0: 4 ranks             node 1: 2 ranks
 *     launcher ◀───── join ──────▶ launcher     who is missing, refused or unknown is found out
 *        │                            │         here, by name
 *        │ ◀────── my size: 2 ─────── │         and how often the job was restarted
 *        │ ── sizes 4, 2; job 3f… ──▶ │         all know where their ranks begin
 *     ranks 0–3                    ranks 4, 5   … and meet at the same address, which is free again
 *        │ ◀─ signal, failed, done ─▶ │         for as long as ranks run (launcher_line.h)
 *
 * The user's key, the rendezvous with its time limits and its messages are therefore those of every
 * job. Only the connection between node 0 and each other node is kept. Node 0 passes on what one
 * node tells.
 *
 * Tested by tests/program/launch/meet.c. */
#include "launch/meet.h"

#include "base/clock.h"
#include "base/env.h"
#include "transport/join/join.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN_TIMEOUT_MS 300000
#define DEAD_TIME_MS    10000

struct notice { /* what each node brings; in network order */
    uint32_t size, epoch, restarts_used, restarts_most, elastic_least, elastic_most;
};

struct minutes { /* what node 0 sends to all nodes */
    char id[64];
    struct notice notice[GYRE_NODES_MAX];
};

static int launcher_lost(const struct gyre_joined *joined, int node, int status,
                         struct gyre_trouble *trouble)
{
    return gyre_trouble_set(
        trouble, status, "the launcher of node %d on %s ended or fell silent after it had joined",
        node, joined->member[node].host);
}

static int preside(const struct gyre_joined *joined, struct minutes *minutes, uint64_t deadline_ns,
                   struct gyre_trouble *trouble)
{
    int status = 0, n = (int)joined->n;
    for (int i = 1; i < n && !status; i++)
        if ((status = gyre_socket_move(joined->peer[i].control, POLLIN, &minutes->notice[i],
                                       sizeof(struct notice), deadline_ns)))
            launcher_lost(joined, i, status, trouble);
    for (int i = 1; i < n && !status; i++)
        if ((status = gyre_socket_move(joined->peer[i].control, POLLOUT, minutes, sizeof *minutes,
                                       deadline_ns)))
            launcher_lost(joined, i, status, trouble);
    return status;
}

static int attend(const struct gyre_joined *joined, struct minutes *minutes, uint64_t deadline_ns,
                  struct gyre_trouble *trouble)
{
    int fd = joined->peer[0].control;
    int status = gyre_socket_move(fd, POLLOUT, &minutes->notice[joined->rank],
                                  sizeof(struct notice), deadline_ns);
    if (!status)
        status = gyre_socket_move(fd, POLLIN, minutes, sizeof *minutes, deadline_ns);
    return status ? launcher_lost(joined, 0, status, trouble) : 0;
}

static int compare_elastic(const struct notice *notice, int node, const struct gyre_launch_job *job,
                           struct gyre_trouble *trouble)
{
    int least = (int)ntohl(notice->elastic_least), most = (int)ntohl(notice->elastic_most);
    if (least == job->elastic_least && most == job->elastic_most)
        return 0;
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "--elastic is %d:%d for node %d and %d:%d here (0: not given); give "
                            "all nodes the same",
                            least, most, node, job->elastic_least, job->elastic_most);
}

/* The greatest numbers hold: a launcher that takes the place of a lost one begins with none. */
static int adopt_restarts(const struct minutes *minutes, struct gyre_launch_job *job,
                          struct gyre_trouble *trouble)
{
    for (int i = 0; i < job->seating.nodes; i++) {
        const struct notice *notice = &minutes->notice[i];
        int epoch = (int)ntohl(notice->epoch), used = (int)ntohl(notice->restarts_used);
        int most = (int)ntohl(notice->restarts_most);
        if (most != job->restarts.most)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "--restarts is %d for node %d and %d here; give all nodes the "
                                    "same",
                                    most, i, job->restarts.most);
        job->epoch = epoch > job->epoch ? epoch : job->epoch;
        job->restarts.used = used > job->restarts.used ? used : job->restarts.used;
    }
    return 0;
}

static int adopt(const struct minutes *minutes, struct gyre_launch_job *job,
                 struct gyre_trouble *trouble)
{
    for (int i = 0; i < job->seating.nodes; i++) {
        int size = (int)ntohl(minutes->notice[i].size), known = job->seating.size[i];
        if (size < 1 || size > GYRE_RANKS_PER_NODE_MAX || (known && known != size))
            return gyre_trouble_set(
                trouble, GYRE_INVALID,
                "--nproc-per-node: node %d starts %d ranks, but here its size is "
                "given as %d",
                i, size, known);
        if (compare_elastic(&minutes->notice[i], i, job, trouble))
            return GYRE_INVALID;
        job->seating.size[i] = size;
    }
    snprintf(job->id, sizeof job->id, "%.63s", minutes->id);
    return adopt_restarts(minutes, job, trouble);
}

static int exchange_jobs(const struct gyre_joined *joined, const struct gyre_launch_job *job,
                         struct minutes *minutes, struct gyre_trouble *trouble)
{
    uint64_t deadline_ns = gyre_now_ns() + DEAD_TIME_MS * GYRE_MS;
    minutes->notice[joined->rank] =
        (struct notice){.size = htonl((uint32_t)job->seating.size[joined->rank]),
                        .epoch = htonl((uint32_t)job->epoch),
                        .restarts_used = htonl((uint32_t)job->restarts.used),
                        .restarts_most = htonl((uint32_t)job->restarts.most),
                        .elastic_least = htonl((uint32_t)job->elastic_least),
                        .elastic_most = htonl((uint32_t)job->elastic_most)};
    snprintf(minutes->id, sizeof minutes->id, "%s", job->id);
    return joined->rank ? attend(joined, minutes, deadline_ns, trouble)
                        : preside(joined, minutes, deadline_ns, trouble);
}

/* Where ranks on other nodes find those of this member's: at its address, without the port. */
static void name_member(const struct gyre_member *member, char host[GYRE_HOST_MAX])
{
    char text[GYRE_ADDRESS_TEXT];
    gyre_address_format(&member->address, text);
    *strrchr(text, ':') = 0;
    size_t length = strlen(text);
    bool bracketed = *text == '[' && length && text[length - 1] == ']';
    snprintf(host, GYRE_HOST_MAX, "%.*s", (int)length - 2 * bracketed, text + bracketed);
}

/* Moves the connections that are kept out of `joined`. */
static int open_lines(struct gyre_meeting *meeting, struct gyre_joined *joined,
                      const struct gyre_launch_job *job)
{
    int first = joined->rank ? 0 : 1, count = joined->rank ? 1 : (int)joined->n - 1;
    meeting->launcher_line = calloc((size_t)count, sizeof *meeting->launcher_line);
    if (!meeting->launcher_line)
        return -ENOMEM;
    meeting->launcher_lines = count;
    for (int i = 0; i < count; i++) {
        struct gyre_launcher_line *launcher_line = &meeting->launcher_line[i];
        launcher_line->node = first + i;
        launcher_line->ranks = job->seating.size[first + i];
        launcher_line->fd = joined->peer[first + i].control;
        gyre_socket_tune(launcher_line->fd, DEAD_TIME_MS); /* nobody beats on this line */
        joined->peer[first + i].control = -1;
        name_member(&joined->member[first + i], launcher_line->host);
        snprintf(launcher_line->name, sizeof launcher_line->name, "the launcher of node %d on %s",
                 first + i, joined->member[first + i].host);
    }
    return 0;
}

static int join_launchers(int node, const struct gyre_launch_job *job, struct gyre_joined **joined,
                          struct gyre_trouble *trouble)
{
    char root[GYRE_HOST_MAX + 16];
    bool bare = strchr(job->master_addr, ':') && job->master_addr[0] != '[';
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct gyre_join_options how = {.nodes = GYRE_NODES_APART,
                                    .dead_time_ms = DEAD_TIME_MS,
                                    .connections = 1,
                                    .interface = getenv("GYRE_INTERFACE"),
                                    .configuration_text = "the launchers of a job"};
    struct gyre_job meeting;
    int64_t timeout_ms = JOIN_TIMEOUT_MS;
    snprintf(root, sizeof root, bare ? "[%s]:%d" : "%s:%d", job->master_addr, job->master_port);
    options.rank = node;
    options.world = job->seating.nodes;
    options.root = root;
    options.job = "launchers";
    int status = gyre_env_duration_ms("GYRE_JOIN_TIMEOUT", &timeout_ms, trouble);
    if (!status)
        status = gyre_env_refuse_zero("GYRE_JOIN_TIMEOUT", (uint64_t)timeout_ms, trouble);
    how.join_timeout_ms = (int)timeout_ms;
    if (!status)
        status = gyre_job_discover(&options, &meeting, trouble);
    if (!status)
        status = gyre_join_ranks(&meeting, &how, joined, trouble);
    explicit_bzero(&meeting, sizeof meeting);
    return status;
}

int gyre_meeting_hold(struct gyre_meeting *meeting, int node, struct gyre_launch_job *job,
                      struct gyre_trouble *trouble)
{
    static struct minutes minutes;
    struct gyre_joined *joined = NULL;
    int status = join_launchers(node, job, &joined, trouble);
    if (!status)
        status = exchange_jobs(joined, job, &minutes, trouble);
    if (status)
        gyre_trouble_wrap(trouble,
                          "the launchers of the %d nodes (here called ranks) did not meet at %s:%d",
                          job->seating.nodes, job->master_addr, job->master_port);
    if (!status)
        status = adopt(&minutes, job, trouble);
    if (!status)
        name_member(&joined->member[joined->rank], job->here);
    if (!status && (status = open_lines(meeting, joined, job)))
        gyre_trouble_set(trouble, status, "no memory for %d launchers", job->seating.nodes);
    gyre_joined_destroy(joined);
    return status;
}

void gyre_meeting_move(struct gyre_meeting *meeting, struct gyre_children *all)
{
    for (int i = 0; i < meeting->launcher_lines; i++)
        all->launcher_line[i] = meeting->launcher_line[i];
    meeting->launcher_lines = 0;
}

void gyre_meeting_end(struct gyre_meeting *meeting)
{
    for (int i = 0; i < meeting->launcher_lines; i++)
        gyre_launcher_line_close(&meeting->launcher_line[i]);
    free(meeting->launcher_line);
    *meeting = (struct gyre_meeting){0};
}
