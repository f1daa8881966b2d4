/* Joins: the beginning, the end, and the loop that hands each event to its owner.
 *
 *     rank 0: listen            ┐
 *     others: find it, log in   ┴─▶ serve until JOINED ─▶ hand the channels over
 *                                        │ a failure
 *                                        └─▶ tell it, farewell, nothing is left
 *
 * Every wait ends: the rendezvous at the join timeout, each later phase after its own timeout, a
 * silent stranger after 5 s, a farewell after 1 s. The first failure wins. A rank that sees a
 * connection break tells rank 0 and waits a second for rank 0's decision, because the break may be
 * the echo of a death elsewhere. Rank 0 waits 200 ms for a better explanation.
 *
 * Tested by tests/program/job/join.c and, for newcomers, tests/program/failures/grow.c. */
#include "transport/join/join.h"
#include "transport/join/inside.h"

#include "base/log.h"
#include "base/machine/open_files.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SPARE_DESCRIPTORS = 128 };

#define FAREWELL  GYRE_SECOND
#define LINGER    GYRE_SECOND
#define ECHO      GYRE_SECOND /* within this time rank 0 decides what broke a connection */
#define ROOT_ECHO (200 * GYRE_MS)

/* -- events ------------------------------------------------------------------------------------ */

/* Decides how long a recorded loss is held back, and tells rank 0. */
static int heed_loss(struct gyre_joining *join)
{
    bool root = join->joined->rank == 0;
    if (!join->loss.status || join->loss_until)
        return 0;
    join->loss_until = join->now + (root ? ROOT_ECHO : ECHO);
    return root ? 0 : gyre_member_tell_failure(join, &join->loss, true);
}

/* Delivers the record that one side of rank 0 has left for the other. */
static int deliver_inbox(struct gyre_joining *join)
{
    struct gyre_record record = join->inbox;
    bool up = record.kind == GYRE_JOIN_REPORT || record.kind == GYRE_JOIN_DONE;
    join->inbox = (struct gyre_record){0};
    int status = up ? gyre_root_hears(join, 0, &record) : gyre_member_hears(join, &record);
    free(record.payload);
    return status;
}

/* Goes on until all consequences of an event are done. */
static int settle_event(struct gyre_joining *join)
{
    int status = 0;
    do {
        if (join->inbox.kind)
            status = deliver_inbox(join);
        if (!status)
            status = heed_loss(join);
        if (!status)
            status = gyre_member_advance(join);
    } while (!status && join->inbox.kind);
    return status;
}

static int hear_control(struct gyre_joining *join, uint32_t rank, const struct gyre_record *record)
{
    int status =
        join->joined->rank ? gyre_member_hears(join, record) : gyre_root_hears(join, rank, record);
    return status ? status : settle_event(join);
}

static int control_ready(struct gyre_joining *join, struct gyre_control *control)
{
    struct gyre_record record;
    int status = 0;
    while (!status && join->phase != GYRE_PHASE_JOINED) {
        status = gyre_talk_step(&control->talk, &record);
        if (status < 0) {
            gyre_join_remove_slot(join, &control->io_slot);
            return gyre_join_rank_gone(join, control->io_slot.peer);
        }
        if (!status)
            status = hear_control(join, control->io_slot.peer, &record);
    }
    if (status < 0)
        return status;
    return gyre_join_rearm(join, &control->io_slot, gyre_talk_pending(&control->talk));
}

static int slot_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    switch (io_slot->owner) {
    case GYRE_SLOT_ROOT:
        return gyre_root_ready(join, io_slot);
    case GYRE_SLOT_CONTROL:
        return control_ready(join, (struct gyre_control *)io_slot);
    case GYRE_SLOT_PAIR:
        return gyre_pairing_ready(join, io_slot);
    case GYRE_SLOT_LOBBY:
    case GYRE_SLOT_DIAL:
        return gyre_join_mesh_ready(join, io_slot);
    }
    return 0;
}

static int serve_one(struct gyre_joining *join)
{
    struct gyre_io_slot *io_slot = gyre_join_wait(join);
    int status = io_slot ? slot_ready(join, io_slot) : 0;
    return status ? status : settle_event(join);
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
    if (join->loss_until)
        return join->now < join->loss_until
                   ? 0
                   : gyre_trouble_set(join->trouble, join->loss.status, "%s", join->loss.text);
    bool meets = join->phase == GYRE_PHASE_PAIR || join->phase == GYRE_PHASE_MESH;
    int status = meets ? gyre_pairing_tick(join) : 0;
    if (!status)
        status = gyre_join_mesh_tick(join);
    if (!status)
        status = heed_loss(join);
    if (status || join->joined->rank == 0)
        return status ? status : gyre_root_tick(join);
    return join->now < join->deadline ? 0 : member_late(join);
}

static int serve_descriptors(struct gyre_joining *join)
{
    int status = 0;
    uint64_t tick_at = 0;
    while (!status && join->phase != GYRE_PHASE_JOINED) {
        status = serve_one(join);
        if (!status && join->now >= tick_at) {
            tick_at = join->now + (uint64_t)gyre_join_tick_ms(join) * GYRE_MS;
            status = tick(join);
        }
    }
    return status;
}

/* Lets the last records go out, and waits for the others' end, so that no reset overtakes the
 * records. */
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

/* Tells the failure. Rank 0 tells all ranks, and stays a moment for those that are still on their
 * way; the others tell rank 0. */
static void tell_join_failure(struct gyre_joining *join, int status)
{
    uint64_t until = join->now + LINGER;
    if (!join->trouble->status)
        gyre_trouble_set(join->trouble, status, "joining failed: %s", gyre_status_name(status));
    if (join->root) {
        gyre_root_tell_failure(join);
        while (gyre_root_lingers(join) && join->now < until)
            (void)serve_one(join); /* further failures do not matter */
    } else if (join->controls)
        (void)gyre_member_tell_failure(join, join->trouble, false);
    farewell(join);
}

/* -- beginning and end ------------------------------------------------------------------------- */

/* Makes room for descriptors: a socket and a pidfd, or all stripes, to each peer, for each rank of
 * the process, as far as the hard limit goes. */
static int raise_descriptors(struct gyre_joining *join)
{
    struct rlimit before;
    rlim_t each =
        (rlim_t)join->joined->n * (rlim_t)(join->options->connections + 2) + SPARE_DESCRIPTORS;
    rlim_t need = each * (rlim_t)(join->job->ranks_here > 1 ? join->job->ranks_here : 1);
    if (gyre_open_files_allow(need, &before))
        return 0;
    gyre_log(
        GYRE_LOG_WARN,
        "%u ranks with %d connections each may need %llu descriptors, but \"ulimit -n\" is %llu",
        join->joined->n, join->options->connections, (unsigned long long)need,
        (unsigned long long)before.rlim_cur);
    return 0;
}

static int make_join_tables(struct gyre_joining *join)
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

/* Logs in to rank 0. A rank other than 0 is reached at the address from which its way to rank 0
 * begins, unless GYRE_INTERFACE says otherwise. */
static int log_in(struct gyre_joining *join)
{
    struct gyre_talk talk;
    struct sockaddr_storage *outward = &join->identity[join->joined->rank].outward;
    socklen_t length = sizeof *outward;
    int status = gyre_join_seek(join, GYRE_PURPOSE_JOIN, &talk);
    if (status)
        return status;
    if (!outward->ss_family) {
        if (getsockname(talk.fd, (struct sockaddr *)outward, &length))
            status = -errno;
        gyre_address_normalise(outward);
        gyre_address_set_port(outward, 0);
    }
    if (!status)
        status = gyre_member_introduce(join, &talk);
    if (!status)
        status = gyre_join_control(join, 0, &talk);
    gyre_talk_close(&talk);
    join->deadline += FAREWELL; /* rank 0 speaks first: it knows which ranks are missing */
    return status;
}

/* Takes the conversations of ranks that have found each other, instead of a rendezvous. */
static int take_company(struct gyre_joining *join)
{
    struct gyre_company *company = join->options->company;
    int status = 0;
    join->identity[join->joined->rank].outward = company->address;
    gyre_address_set_port(&join->identity[join->joined->rank].outward, 0);
    if (join->joined->rank) {
        status = gyre_member_introduce(join, &company->talk[0]);
        return status ? status : gyre_join_control(join, 0, &company->talk[0]);
    }
    for (uint32_t rank = 1; rank < join->joined->n && !status; rank++)
        status = gyre_join_control(join, rank, &company->talk[rank]);
    return status;
}

static int find_ranks(struct gyre_joining *join)
{
    int status = 0;
    if (join->joined->rank == 0)
        status = gyre_root_open(join);
    if (!status && join->options->company)
        return take_company(join);
    return status || join->joined->rank == 0 ? status : log_in(join);
}

static int begin_join(struct gyre_joining *join)
{
    struct gyre_rank_identity *mine = &join->identity[join->joined->rank];
    int family =
        strchr(join->job->root_host, ':') ? AF_INET6 : AF_INET; /* the same on every rank */
    int status = gyre_identity_gather(join->job, mine);
    memcpy(mine->device, join->options->device, sizeof mine->device);
    mine->channels = (uint8_t)join->options->channels;
    if (!status)
        status = gyre_random_bytes(join->nonce, sizeof join->nonce);
    if (!status && join->options->interface)
        status =
            gyre_address_choose(join->options->interface, family, &mine->outward, join->trouble);
    if (!status)
        status = gyre_pairing_open(join, mine);
    if (status)
        return status;
    status = find_ranks(join);
    join->now = gyre_now_ns();
    return status;
}

static void end_join(struct gyre_joining *join)
{
    gyre_join_mesh_close(join);
    gyre_pairing_close(join);
    gyre_root_close(join);
    for (uint32_t i = 0; i < join->controls; i++)
        gyre_talk_close(&join->control[i].talk);
    if (join->epoll >= 0)
        close(join->epoll);
    free(join->inbox.payload);
    free(join->control);
    free(join->identity);
}

/* Whether the watch's tree has rank 0 just above the other rank of a rendezvous connection. */
static bool is_below_root(const struct gyre_joined *joined, uint32_t rank)
{
    const struct gyre_member *other = &joined->member[joined->rank ? joined->rank : rank];
    return joined->fan_out == 0 || (other->local_rank == 0 && other->node > 0 &&
                                    gyre_joined_above(other->node, joined->fan_out) == 0);
}

/* Closes a rendezvous connection that is no edge of the watch's tree: rank 0 has a thousand. */
static void drop_unused(struct gyre_joined *joined, uint32_t rank)
{
    struct gyre_peer *peer = &joined->peer[rank];
    if (is_below_root(joined, rank) || peer->control < 0)
        return;
    close(peer->control);
    peer->control = -1;
}

/* Hands the control connections over. They outlive the join, but the conversations over them do
 * not, so the last record must be out. */
static int hand_channels_over(struct gyre_joining *join)
{
    uint64_t until = gyre_now_ns() + gyre_join_phase_timeout(join);
    int status = 0;
    for (uint32_t i = 0; i < join->controls && !status; i++) {
        struct gyre_talk *talk = &join->control[i].talk;
        gyre_talk_drain(talk, until);
        gyre_join_remove_slot(join, &join->control[i].io_slot);
        gyre_socket_hold(talk->fd, join->options->dead_time_ms);
        gyre_socket_expedite(talk->fd);
        if (talk->fd < 0)
            continue;
        status = gyre_talk_keys(talk, "gyre watch", &join->joined->peer[i].control_keys);
        join->joined->peer[i].control = gyre_talk_take(talk);
        drop_unused(join->joined, i);
    }
    join->joined->listener = gyre_join_mesh_take_listener(join);
    memcpy(join->joined->members_key,
           join->options->company ? join->job->key : join->joined->session_key,
           sizeof join->joined->members_key);
    return status ? gyre_trouble_set(join->trouble, status, "libcrypto cannot derive keys") : 0;
}

static int join_all(struct gyre_joining *join)
{
    int status = make_join_tables(join);
    if (!status)
        status = begin_join(join);
    if (!status)
        status = serve_descriptors(join);
    if (!status)
        status = hand_channels_over(join);
    else
        tell_join_failure(join, status);
    end_join(join);
    return status;
}

/* Joins a world of one rank: a node of its own, and a key that no other process has. Where it is
 * what is left of a job it keeps its listener, so that no member that comes back takes it for
 * ended. */
static int join_alone(struct gyre_joined *joined, const struct gyre_join_options *options)
{
    const struct gyre_company *company = options->company;
    snprintf(joined->member[0].host, sizeof joined->member[0].host, "%s", gyre_host_name());
    joined->member[0].pid = getpid();
    joined->nodes = joined->local_size = 1;
    if (company && company->listener >= 0) {
        joined->member[0].address = company->address;
        joined->listener = fcntl(company->listener, F_DUPFD_CLOEXEC, 0);
    }
    return gyre_random_bytes(joined->session_key, sizeof joined->session_key);
}

int gyre_join_ranks(struct gyre_job *job, const struct gyre_join_options *options,
                    struct gyre_joined **joined, struct gyre_trouble *trouble)
{
    struct gyre_trouble own = {0};
    struct gyre_joining join = {
        .job = job, .options = options, .trouble = trouble ? trouble : &own, .epoll = -1};
    *joined = NULL;
    if (job->world < 1 || job->rank < 0 || job->rank >= job->world)
        return gyre_trouble_set(join.trouble, GYRE_INVALID,
                                "rank %d does not exist in a world of %d", job->rank, job->world);
    int status = gyre_join_options_check(options, join.trouble);
    if (status)
        return status;
    join.joined = gyre_joined_create((uint32_t)job->rank, (uint32_t)job->world);
    if (!join.joined)
        return gyre_trouble_set(join.trouble, -ENOMEM, "no memory for a job of %d ranks",
                                job->world);
    join.started = join.now = gyre_now_ns();
    join.deadline =
        join.started + (options->company ? gyre_join_phase_timeout(&join)
                                         : (uint64_t)options->join_timeout_ms * GYRE_MS);
    status = job->world == 1 ? join_alone(join.joined, options) : join_all(&join);
    if (!status)
        *joined = join.joined;
    else
        gyre_joined_destroy(join.joined);
    return status;
}

/* -- a newcomer, which has no rank ------------------------------------------------------------- */

static int find_newcomer_address(const struct gyre_joining *join, const struct gyre_talk *talk,
                                 struct sockaddr_storage *address)
{
    socklen_t length = sizeof *address;
    *address = join->identity[0].outward;
    if (address->ss_family)
        return 0;
    if (getsockname(talk->fd, (struct sockaddr *)address, &length))
        return gyre_trouble_set(join->trouble, -errno, "this process's own address: %s",
                                strerror(errno));
    gyre_address_normalise(address);
    gyre_address_set_port(address, 0);
    return 0;
}

int gyre_join_find_room(struct gyre_job *job, const struct gyre_join_options *options,
                        struct gyre_talk *talk, struct sockaddr_storage *address,
                        struct gyre_trouble *trouble)
{
    struct gyre_rank_identity mine = {0};
    struct gyre_joining join = {.job = job,
                                .options = options,
                                .trouble = trouble,
                                .identity = &mine,
                                .epoll = -1,
                                .started = gyre_now_ns()};
    int family = strchr(job->root_host, ':') ? AF_INET6 : AF_INET;
    int status = gyre_join_options_check(options, trouble);
    join.deadline = join.started + (uint64_t)options->join_timeout_ms * GYRE_MS;
    if (!status && options->interface)
        status = gyre_address_choose(options->interface, family, &mine.outward, trouble);
    if (status)
        return status;
    join.joined = gyre_joined_create(0, 1);
    if (!join.joined)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to look for the job");
    status = gyre_join_seek(&join, GYRE_PURPOSE_NEWCOMER, talk);
    if (!status && (status = find_newcomer_address(&join, talk, address)))
        gyre_talk_close(talk);
    gyre_joined_destroy(join.joined);
    return status;
}
