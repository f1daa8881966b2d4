/* Links to peers: their opening, sending over them, and their end.
 *
 * A broken link is only marked. Threads that wait for its peer are woken and ask
 * gyre_watch_link_answers(). A link to another node is not given up while the failure detector
 * awaits a new connection: redial.c and visitors.c make one, and both ends go on over it with new
 * keys. Bytes of the old connection are lost; the failure detector tells again what the peer must
 * know.
 *
 * Tested by tests/program/watch/watch.c. */
#include "transport/watch/inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static uint64_t tag(enum gyre_watch_source source, uint32_t index)
{
    return (uint64_t)source << 32 | index;
}

int gyre_watch_listen(struct gyre_watch *watch, int fd, uint32_t events,
                      enum gyre_watch_source source, uint32_t index)
{
    struct epoll_event event = {.events = events, .data.u64 = tag(source, index)};
    return epoll_ctl(watch->poller, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void gyre_watch_rearm(struct gyre_watch *watch, int fd, uint32_t events,
                      enum gyre_watch_source source, uint32_t index)
{
    struct epoll_event event = {.events = events, .data.u64 = tag(source, index)};
    epoll_ctl(watch->poller, EPOLL_CTL_MOD, fd, &event);
}

/* -- open -------------------------------------------------------------------------------------- */

/* Sends and receives over `fd` from now on. */
static int open_channel(struct gyre_watch *watch, uint32_t index, int fd)
{
    struct gyre_watch_link *link = &watch->link[index];
    uint32_t rank = gyre_detector_peer(watch->detector, index);
    const struct gyre_peer *peer = &watch->is.joined->peer[rank];
    const enum gyre_seal_mode mode = watch->is.security[peer->one_machine];
    int status = gyre_watch_channel_init(&link->channel, fd);

    if (status == 0 && !link->node) {
        gyre_log(GYRE_LOG_DEBUG, "the watch's messages to rank %u are %s", rank,
                 gyre_seal_word(mode));
        status = gyre_watch_channel_seal(&link->channel, mode, &peer->control_keys);
    }
    return status != 0 ? status
                       : gyre_watch_listen(watch, fd, EPOLLIN, GYRE_WATCH_FROM_LINK, index);
}

int gyre_watch_open_link(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    uint32_t rank = gyre_detector_peer(watch->detector, index);
    const struct gyre_peer *peer = &watch->is.joined->peer[rank];

    if (gyre_detector_closed(watch->detector, index)) {
        link->broken = true; /* until the failure detector awaits a connection */
        link->pidfd = link->channel.fd = -1;
        return 0;
    }
    link->node = gyre_detector_near(watch->detector, index) && peer->unix_fd >= 0;
    link->pidfd = link->node ? peer->pidfd : -1;
    int status = open_channel(watch, index, link->node ? peer->unix_fd : peer->control);
    if (status == 0 && link->pidfd >= 0)
        status = gyre_watch_listen(watch, link->pidfd, EPOLLIN, GYRE_WATCH_FROM_PIDFD, index);
    return status;
}

/* Ends the connection. The reset tells a peer that has not noticed. */
static void drop_connection(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    struct gyre_peer *peer = &watch->is.joined->peer[gyre_detector_peer(watch->detector, index)];

    if (peer->control >= 0)
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, peer->control, NULL);
    gyre_watch_channel_deinit(&link->channel);
    gyre_socket_drop(peer->control);
    peer->control = -1;
}

/* Says that the watch goes round a rank of the tree that is lost. */
static void log_opening(const struct gyre_watch *watch, uint32_t index)
{
    uint32_t rank = gyre_detector_peer(watch->detector, index);

    gyre_log(GYRE_LOG_DEBUG, "the watch has a connection to rank %u on %s: a rank between is lost",
             rank, watch->is.joined->member[rank].host);
}

static void log_reopening(const struct gyre_watch *watch, uint32_t index, int fd)
{
    const struct gyre_watch_link *link = &watch->link[index];
    uint32_t rank = gyre_detector_peer(watch->detector, index);
    char mine[GYRE_ADDRESS_TEXT], theirs[GYRE_ADDRESS_TEXT];

    gyre_socket_names(fd, mine, theirs);
    if (link->broken)
        gyre_log(GYRE_LOG_WARN,
                 "the watch's connection to rank %u on %s broke (%s) and was made anew after %.1f "
                 "ms, from %s to %s; the job goes on",
                 rank, watch->is.joined->member[rank].host, gyre_status_name(link->broken_by),
                 (double)(gyre_now_ns() - link->broken_at) / GYRE_MS, mine, theirs);
    else
        gyre_log(GYRE_LOG_WARN,
                 "rank %u on %s has made its watch's connection to this rank anew, from %s to %s; "
                 "the job goes on",
                 rank, watch->is.joined->member[rank].host, theirs, mine);
}

void gyre_watch_reopen_link(struct gyre_watch *watch, uint32_t index, int fd, uint16_t wire,
                            const struct gyre_traffic_keys *keys)
{
    struct gyre_watch_link *link = &watch->link[index];
    struct gyre_peer *peer = &watch->is.joined->peer[gyre_detector_peer(watch->detector, index)];

    if (gyre_detector_closed(watch->detector, index))
        log_opening(watch, index);
    else
        log_reopening(watch, index, fd);
    drop_connection(watch, index);
    gyre_socket_tune(fd, watch->is.dead_time_ms);
    gyre_socket_hold(fd, watch->is.dead_time_ms);
    peer->control = fd;
    peer->control_keys = *keys;
    link->broken = link->deaf = link->wants_room = false;
    link->wire = wire;
    gyre_detector_resumed(watch->detector, gyre_now_ns(), index);
    int status = open_channel(watch, index, fd);
    if (status != 0)
        gyre_watch_break(watch, index, status);
    pthread_cond_broadcast(&watch->changed);
}

int gyre_watch_start_proof(const struct gyre_watch *watch, struct gyre_handshake *shake,
                           enum gyre_handshake_side side, enum gyre_purpose purpose,
                           uint16_t stripe)
{
    const struct gyre_job *job = watch->is.job;
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .epoch = job->epoch,
                               .rank = watch->is.joined->rank,
                               .world = watch->is.joined->n,
                               .purpose = purpose,
                               .stripe = stripe};
    uint8_t nonce[GYRE_NONCE_BYTES];

    memcpy(claim.job, job->id, sizeof claim.job);
    memcpy(claim.key_id, job->key_id, sizeof claim.key_id);
    int status = gyre_random_bytes(nonce, sizeof nonce);
    return status != 0
               ? status
               : gyre_handshake_start(shake, side, &claim, watch->is.joined->members_key, nonce);
}

/* -- end --------------------------------------------------------------------------------------- */

/* Leaves the link to be made anew, if the peer may live. */
static bool suspend_link(struct gyre_watch *watch, uint32_t index, int status)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (link->node || watch->visitor == NULL || status == GYRE_CORRUPT ||
        !gyre_detector_broken(watch->detector, gyre_now_ns(), index, status))
        return false;
    link->broken = true;
    link->broken_by = status;
    link->broken_at = gyre_now_ns();
    drop_connection(watch, index);
    gyre_log(GYRE_LOG_DEBUG, "the watch's connection to rank %u broke: %s",
             gyre_detector_peer(watch->detector, index), gyre_status_name(status));
    return true;
}

void gyre_watch_break(struct gyre_watch *watch, uint32_t index, int status)
{
    struct gyre_watch_link *link = &watch->link[index];
    /* A socket that is closed with bytes unread, as a killed process closes its own, resets. */
    bool closed = status == -EPIPE || status == -ECONNRESET;
    const char *why = closed ? NULL : gyre_status_name(status);

    if (link->broken || suspend_link(watch, index, status))
        return;
    if (status == GYRE_CORRUPT) {
        gyre_detector_corrupt(watch->detector, gyre_now_ns(), index);
        gyre_watch_send_owed(watch, index); /* what goes the other way may arrive whole */
    }
    if (link->broken)
        return;
    link->broken = true;
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, link->channel.fd, NULL);
    gyre_detector_eof(watch->detector, gyre_now_ns(), index, why);
    pthread_cond_broadcast(&watch->changed);
}

/* -- send -------------------------------------------------------------------------------------- */

/* Has epoll tell about room exactly while a message waits for it. */
static void arm(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    bool waits = !link->deaf && gyre_watch_channel_waits(&link->channel);

    if (waits == link->wants_room || link->broken)
        return;
    link->wants_room = waits;
    gyre_watch_rearm(watch, link->channel.fd, EPOLLIN | (waits ? EPOLLOUT : 0u),
                     GYRE_WATCH_FROM_LINK, index);
}

/* Acts on the status of a send. A peer that has closed its end may have said why: reading finds the
 * reason, and the end. */
static void act_on(struct gyre_watch *watch, uint32_t index, int status)
{
    if (status == -EPIPE || status == -ECONNRESET)
        watch->link[index].deaf = true;
    else if (status != 0)
        gyre_watch_break(watch, index, status);
    arm(watch, index);
}

static void send_bytes(struct gyre_watch *watch, uint32_t index, const uint8_t *bytes,
                       size_t length, int pass)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (!link->broken && !link->deaf)
        act_on(watch, index, gyre_watch_channel_send(&link->channel, bytes, length, pass));
}

void gyre_watch_post(struct gyre_watch *watch, uint32_t index,
                     const struct gyre_watch_message *message, int pass)
{
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    struct gyre_watch_message mine = *message;

    mine.epoch = watch->epoch;
    mine.rank = watch->is.joined->rank;
    send_bytes(watch, index, bytes, gyre_watch_encode(&mine, bytes), pass);
}

/* Sends what is owed, unless messages wait in the channel: the failure detector's word will be
 * newer when there is room. */
void gyre_watch_send_owed(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];

    while (!link->broken && !link->deaf && !gyre_watch_channel_waits(&link->channel)) {
        size_t length = gyre_detector_next_message(watch->detector, index, bytes);
        if (length == 0)
            return;
        send_bytes(watch, index, bytes, length, -1);
    }
}

void gyre_watch_flush(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (!link->broken && !link->deaf)
        act_on(watch, index, gyre_watch_channel_flush(&link->channel));
}

bool gyre_watch_link_answers(const struct gyre_watch *watch, uint32_t index)
{
    const struct gyre_watch_link *link = &watch->link[index];

    return link->node && !link->broken && !atomic_load(&link->ended) &&
           !gyre_detector_has_left(watch->detector, index);
}
