/* Joining: the loop that serves all descriptors, its beginning and its end.
 *
 *     rank 0: listen            ┐
 *     others: find it, log in   ┴─▶ serve until JOINED ─▶ hand the channels over
 *                                        │ a failure
 *                                        └─▶ tell it, farewell, nothing is left
 *
 * One epoll, one thread, one event at a time: an event's owner may close any other seat without a
 * stale event following. Every wait ends: the rendezvous at the join timeout, each later phase
 * after `patience`, a silent stranger after 5 s, a farewell after 1 s. The first story wins. */
#include "transport/join/inside.h"

#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TICK_MS = 20, SPARE_DESCRIPTORS = 128 };

#define FAREWELL GYRE_SECOND

/* -- seats ------------------------------------------------------------------------------------- */

static uint32_t interest(bool writable)
{
    return EPOLLIN | (writable ? EPOLLOUT : 0);
}

int gyre_join_add_slot(struct gyre_joining *join, struct gyre_io_slot *io_slot, int fd,
                       bool writable)
{
    struct epoll_event event = {.events = interest(writable), .data.ptr = io_slot};
    if (epoll_ctl(join->epoll, EPOLL_CTL_ADD, fd, &event))
        return gyre_trouble_set(join->trouble, -errno, "cannot watch a descriptor: %s",
                                strerror(errno));
    io_slot->fd = fd;
    io_slot->events = event.events;
    return 0;
}

int gyre_join_rearm(struct gyre_joining *join, struct gyre_io_slot *io_slot, bool writable)
{
    struct epoll_event event = {.events = interest(writable), .data.ptr = io_slot};
    if (io_slot->fd < 0 || io_slot->events == event.events)
        return 0;
    io_slot->events = event.events;
    return epoll_ctl(join->epoll, EPOLL_CTL_MOD, io_slot->fd, &event) ? -errno : 0;
}

void gyre_join_remove_slot(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    if (io_slot->fd >= 0)
        epoll_ctl(join->epoll, EPOLL_CTL_DEL, io_slot->fd, NULL);
    io_slot->fd = -1;
}

/* -- words ------------------------------------------------------------------------------------- */

struct gyre_claim gyre_join_claim(const struct gyre_joining *join, enum gyre_purpose purpose,
                                  uint32_t stripe)
{
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .epoch = join->job->epoch,
                               .rank = join->joined->rank,
                               .world = join->joined->n,
                               .purpose = (uint16_t)purpose,
                               .stripe = (uint16_t)stripe,
                               .configuration = join->options->configuration};
    memcpy(claim.job, join->job->id, sizeof claim.job);
    memcpy(claim.key_id, join->job->key_id, sizeof claim.key_id);
    return claim;
}

const char *gyre_join_who(const struct gyre_joining *join, uint32_t rank,
                          char text[GYRE_JOIN_WHO_MAX])
{
    const struct gyre_rank_identity *identity = &join->identity[rank];
    if (identity->host[0])
        snprintf(text, GYRE_JOIN_WHO_MAX, "rank %u on %.63s (pid %d)", rank, identity->host,
                 identity->pid);
    else
        snprintf(text, GYRE_JOIN_WHO_MAX, "rank %u", rank);
    return text;
}

/* A stopped or swamped rank is given the dead time, and never less than two seconds: starting is
 * slower than running. */
uint64_t gyre_join_phase_timeout(const struct gyre_joining *join)
{
    int dead = join->options->dead_time_ms;
    int ms = dead <= 0 ? join->options->join_timeout_ms : dead < 2000 ? 2000 : dead;
    return (uint64_t)ms * GYRE_MS;
}

/* -- the loop ---------------------------------------------------------------------------------- */

static int member_late(struct gyre_joining *join)
{
    char who[GYRE_JOIN_WHO_MAX];
    double seconds = (double)(join->now - join->started) / (double)GYRE_SECOND;
    if (join->phase == GYRE_PHASE_GATHER)
        return gyre_trouble_set(join->trouble, GYRE_TIMED_OUT,
                                "not all of %u ranks joined within %.1f s; rank 0 said: %s",
                                join->joined->n, seconds,
                                join->waiting[0] ? join->waiting : "nothing");
    return gyre_trouble_set(join->trouble, GYRE_PEER_LOST,
                            "%s does not answer any more (%.1f s after the start)",
                            gyre_join_who(join, 0, who), seconds);
}

static int tick(struct gyre_joining *join)
{
    if (join->echo_until)
        return join->now < join->echo_until
                   ? 0
                   : gyre_trouble_set(join->trouble, join->echo.status, "%s", join->echo.text);
    int status = join->phase == GYRE_PHASE_PAIR ? gyre_pairing_tick(join) : 0;
    if (!status)
        status = gyre_join_mesh_tick(join);
    if (status || join->joined->rank == 0)
        return status ? status : gyre_root_tick(join);
    return join->now < join->deadline ? 0 : member_late(join);
}

int gyre_join_serve_one(struct gyre_joining *join)
{
    struct epoll_event event;
    int ready = epoll_wait(join->epoll, &event, 1, TICK_MS);
    join->now = gyre_now_ns();
    if (ready <= 0)
        return 0;
    struct gyre_io_slot *io_slot = event.data.ptr;
    return io_slot->ready(join, io_slot);
}

static int serve_descriptors(struct gyre_joining *join)
{
    int status = 0;
    uint64_t tick_at = 0;
    while (!status && join->phase != GYRE_PHASE_JOINED) {
        status = gyre_join_serve_one(join);
        if (!status && join->now >= tick_at) {
            tick_at = join->now + TICK_MS * GYRE_MS;
            status = tick(join);
        }
    }
    return status;
}

/* Lets what was said last go out, and hears the others' end, so that no reset overtakes it. */
static void farewell(struct gyre_joining *join)
{
    uint64_t until = gyre_now_ns() + FAREWELL;
    for (uint32_t i = 0; i < join->controls; i++) {
        struct gyre_talk *talk = &join->control[i].talk;
        struct gyre_record ignored;
        struct pollfd wait = {.fd = talk->fd, .events = POLLIN};
        while (talk->fd >= 0) {
            int status = gyre_talk_step(talk, &ignored);
            if (status == GYRE_AGAIN && !gyre_talk_pending(talk))
                shutdown(talk->fd, SHUT_WR);
            uint64_t now = gyre_now_ns();
            if (status < 0 || now >= until)
                break;
            if (status == GYRE_AGAIN)
                poll(&wait, 1, gyre_talk_pending(talk) ? 5 : (int)((until - now) / GYRE_MS) + 1);
        }
    }
}

/* Rank 0 tells all, and stays a moment for those who are still on their way; the others tell rank
 * 0. */
static void tell_join_failure(struct gyre_joining *join, int status)
{
    if (!join->trouble->status)
        gyre_trouble_set(join->trouble, status, "joining failed: %s", gyre_status_name(status));
    if (join->root)
        gyre_root_fails(join);
    else if (join->controls)
        gyre_member_fails(join, status);
    farewell(join);
}

/* -- beginning and end ------------------------------------------------------------------------- */

static struct gyre_joined *make_joined(uint32_t rank, uint32_t n)
{
    struct gyre_joined *joined =
        calloc(1, sizeof *joined + n * (sizeof *joined->member + sizeof *joined->peer));
    if (!joined)
        return NULL;
    joined->rank = rank;
    joined->n = n;
    joined->member = (struct gyre_member *)(joined + 1);
    joined->peer = (struct gyre_peer *)(joined->member + n);
    for (uint32_t i = 0; i < n; i++) {
        struct gyre_peer *peer = &joined->peer[i];
        peer->unix_fd = peer->pidfd = peer->control = -1;
        for (int stripe = 0; stripe < GYRE_TCP_CONNECTIONS_MAX; stripe++)
            peer->tcp[stripe] = -1;
    }
    return joined;
}

static void close_if(int fd)
{
    if (fd >= 0)
        close(fd);
}

void gyre_joined_destroy(struct gyre_joined *joined)
{
    if (!joined)
        return;
    for (uint32_t i = 0; i < joined->n; i++) {
        struct gyre_peer *peer = &joined->peer[i];
        close_if(peer->unix_fd);
        close_if(peer->pidfd);
        close_if(peer->control);
        for (int stripe = 0; stripe < GYRE_TCP_CONNECTIONS_MAX; stripe++)
            close_if(peer->tcp[stripe]);
    }
    gyre_wipe(joined->session_key, sizeof joined->session_key);
    free(joined);
}

/* Room for a socket and a pidfd or all stripes to each peer, for each rank of the process, as far as
 * the hard limit goes. */
static int raise_descriptors(struct gyre_joining *join)
{
    struct rlimit limit;
    rlim_t each =
        (rlim_t)join->joined->n * (rlim_t)(join->options->connections + 2) + SPARE_DESCRIPTORS;
    rlim_t need = each * (rlim_t)(join->job->ranks_here > 1 ? join->job->ranks_here : 1);
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
        return 0;
    rlim_t had = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    if (!setrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur == need)
        return 0;
    gyre_log(
        GYRE_LOG_WARN,
        "%u ranks with %d connections each may need %llu descriptors, but \"ulimit -n\" is %llu",
        join->joined->n, join->options->connections, (unsigned long long)need,
        (unsigned long long)had);
    return 0;
}

bool gyre_join_apart(const char *transport)
{
    return !strcmp(transport, "tcp") || !strcmp(transport, "verbs");
}

static int check_join_options(const struct gyre_job *job, const struct gyre_join_options *options,
                              struct gyre_trouble *trouble)
{
    if (job->world < 1 || job->rank < 0 || job->rank >= job->world)
        return gyre_trouble_set(trouble, GYRE_INVALID, "rank %d does not exist in a world of %d",
                                job->rank, job->world);
    if (options->connections < 1 || options->connections > GYRE_TCP_CONNECTIONS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%d data connections per peer: 1 to %d are possible",
                                options->connections, GYRE_TCP_CONNECTIONS_MAX);
    if (options->port_low > options->port_high || (options->port_high && !options->port_low))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_PORT_RANGE=%u-%u: the first port must be above 0 and not "
                                "above the last",
                                options->port_low, options->port_high);
    const char *transport = options->transport;
    if (!transport ||
        (strcmp(transport, "auto") && strcmp(transport, "shm") && !gyre_join_apart(transport)))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "transport \"%s\": expected auto, shm, tcp or verbs",
                                transport ? transport : "");
    return 0;
}

static int make_tables(struct gyre_joining *join)
{
    uint32_t n = join->joined->n, controls = join->joined->rank ? 1 : n;
    join->epoll = epoll_create1(EPOLL_CLOEXEC);
    join->identity = calloc(n, sizeof *join->identity);
    join->control = calloc(controls, sizeof *join->control);
    if (join->epoll < 0 || !join->identity || !join->control)
        return gyre_trouble_set(join->trouble, join->epoll < 0 ? -errno : -ENOMEM,
                                "cannot prepare to join %u ranks", n);
    join->controls = controls;
    for (uint32_t i = 0; i < controls; i++) {
        join->control[i].io_slot.fd = -1;
        gyre_talk_open(&join->control[i].talk, -1);
    }
    return raise_descriptors(join);
}

/* A rank other than 0 is reached where its way to rank 0 begins, unless GYRE_INTERFACE says
 * otherwise. */
static int log_in(struct gyre_joining *join)
{
    struct gyre_talk talk;
    struct sockaddr_storage *outward = &join->identity[join->joined->rank].outward;
    socklen_t length = sizeof *outward;
    int status = gyre_join_seek(join, &talk);
    if (status)
        return status;
    if (!outward->ss_family) {
        if (getsockname(talk.fd, (struct sockaddr *)outward, &length))
            status = -errno;
        gyre_address_normalise(outward);
        gyre_address_set_port(outward, 0);
    }
    if (!status)
        status = gyre_join_introduce(join, &talk);
    if (!status)
        status = gyre_join_control(join, 0, &talk);
    gyre_talk_close(&talk);
    join->deadline += FAREWELL; /* rank 0, which knows who is missing, speaks first */
    return status;
}

static int begin_join(struct gyre_joining *join)
{
    struct gyre_rank_identity *mine = &join->identity[join->joined->rank];
    int family =
        strchr(join->job->root_host, ':') ? AF_INET6 : AF_INET; /* the same on every rank */
    int status = gyre_identity_gather(join->job, mine);
    memcpy(mine->device, join->options->device, sizeof mine->device);
    if (!status)
        status = gyre_random_bytes(join->nonce, sizeof join->nonce);
    if (!status && join->options->interface)
        status =
            gyre_address_choose(join->options->interface, family, &mine->outward, join->trouble);
    if (!status)
        status = gyre_pairing_open(join, mine);
    if (status)
        return status;
    return join->joined->rank ? log_in(join) : gyre_root_open(join);
}

static void end_join(struct gyre_joining *join)
{
    gyre_join_mesh_close(join);
    gyre_pairing_close(join);
    gyre_root_close(join);
    for (uint32_t i = 0; i < join->controls; i++)
        gyre_talk_close(&join->control[i].talk);
    close_if(join->epoll);
    free(join->control);
    free(join->identity);
}

/* Control connections outlive the join; the conversations over them do not, so the last word must
 * be out. */
static void hand_over(struct gyre_joining *join)
{
    uint64_t until = gyre_now_ns() + gyre_join_phase_timeout(join);
    for (uint32_t i = 0; i < join->controls; i++) {
        struct gyre_talk *talk = &join->control[i].talk;
        struct pollfd wait = {.fd = talk->fd, .events = POLLOUT};
        while (gyre_talk_pending(talk) && gyre_talk_flush(talk) == GYRE_AGAIN &&
               gyre_now_ns() < until)
            poll(&wait, 1, TICK_MS);
        gyre_join_remove_slot(join, &join->control[i].io_slot);
        join->joined->peer[i].control = gyre_talk_take(talk);
    }
}

static int join_all(struct gyre_joining *join)
{
    int status = make_tables(join);
    if (!status)
        status = begin_join(join);
    if (!status)
        status = serve_descriptors(join);
    if (!status)
        hand_over(join);
    else
        tell_join_failure(join, status);
    end_join(join);
    return status;
}

/* Nobody to meet: a node of one rank, and a key that nobody else has. */
static int join_alone(struct gyre_joined *joined, const struct gyre_job *job)
{
    snprintf(joined->member[0].host, sizeof joined->member[0].host, "%s", gyre_host_name());
    joined->member[0].pid = getpid();
    joined->nodes = joined->local_size = 1;
    return gyre_random_bytes(joined->session_key, sizeof joined->session_key);
}

int gyre_join(const struct gyre_job *job, const struct gyre_join_options *options,
              struct gyre_joined **joined, struct gyre_trouble *trouble)
{
    struct gyre_trouble own = {0};
    struct gyre_joining join = {
        .job = job, .options = options, .trouble = trouble ? trouble : &own, .epoll = -1};
    int status = check_join_options(job, options, join.trouble);
    *joined = NULL;
    if (status)
        return status;
    join.joined = make_joined((uint32_t)job->rank, (uint32_t)job->world);
    if (!join.joined)
        return gyre_trouble_set(join.trouble, -ENOMEM, "no memory for a job of %d ranks",
                                job->world);
    join.started = join.now = gyre_now_ns();
    join.deadline = join.started + (uint64_t)options->join_timeout_ms * GYRE_MS;
    status = job->world == 1 ? join_alone(join.joined, job) : join_all(&join);
    if (!status)
        *joined = join.joined;
    else
        gyre_joined_destroy(join.joined);
    return status;
}
