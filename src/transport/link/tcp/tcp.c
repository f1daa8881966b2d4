/* The tcp driver: wires, pipes, and the order of service. One driver has two pollers (epoll,
 * io_uring); inside.h has the map.
 *
 *   a pipe with 3 connections          lane 0, 3, 6 … ──▶ connection 0 ─┐
 *   (one stream each, same order       lane 1, 4, 7 … ──▶ connection 1 ─┼─▶ peer
 *   on both sides)                     lane 2, 5, 8 … ──▶ connection 2 ─┘
 *
 * Order of service. poll() asks the poller what can move, adds the connections in use while they
 * are few, and serves each due connection once: read, write, tell completions. One connection moves
 * about GYRE_TCP_BUDGET_BYTES each way per poll() and then stands at the end of the list, so no
 * connection starves behind a large transfer.
 *
 * Plain calls. A thread that spins for one small message is served best by recvmsg itself: it is
 * the only call on the way. So while at most GYRE_TCP_PLAIN_MAX connections are in use (have posts
 * outstanding), each poll() tries them directly. With more of them poll() asks the poller. Small
 * sends are always written in send() itself: loopback, 2 cores, 16 connections exchanging 8 bytes
 * took 62 µs with plain reads and writes or with plain writes and reads in the ring, 74 µs with
 * both in the ring, and 104 µs where epoll_wait named the readable ones.
 *
 * Death. A connection that breaks fails its pipe: every connection of the pipe is closed (a second
 * descriptor keeps it up where the peer is to hear the reason first), every post completes with the
 * status, and state() tells the story with both addresses. Other pipes do not notice.
 *
 * Renewal. The reset of a renewable connection is no death. This end reads what had come, and says
 * through broken() how many bytes that is; the domain has a new connection made, over which both
 * ends send what the other lacks.
 *
 *     up ── reset ──▶ away ── renew() ──▶ up, kept bytes first
 *      └── part() ──▶  │
 *                      └── dead time ──▶ the pipe fails
 *
 * Whatever waits for bytes waits on meanwhile. A peer that has died is found by the watch.
 *
 * First use. A connection that is yet to be made (transport/link/on_demand.h) is away from the
 * beginning, whether or not it can be made anew later. Its owner says how long to wait for it.
 *
 * Tested by tests/link/tcp.c and tests/unit/transport/link/tcp. */
#include "transport/link/tcp/inside.h"
#include "transport/link/tcp/uring.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/stream/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_poller(struct gyre_tcp_wire *wire, const struct gyre_tcp_poller *poller,
                       uint32_t peers, struct gyre_trouble *trouble)
{
    int status = poller->open(wire, peers, trouble);
    if (!status)
        wire->poller = poller;
    return status;
}

/* Opens the poller: io_uring unless the user chose epoll. A refusal is told in one line. */
static int choose_poller(struct gyre_tcp_wire *wire, const struct gyre_wire_options *options,
                         struct gyre_trouble *trouble)
{
    bool forced = options->variant && !strcmp(options->variant, "io_uring");
    bool tried = forced || (!options->variant && gyre_tcp_uring);
    if (options->variant && !forced && strcmp(options->variant, "epoll"))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "tcp: no poller is called \"%s\": use io_uring or epoll",
                                options->variant);
    struct gyre_trouble refusal = {0};
    if (tried && gyre_tcp_uring && !open_poller(wire, gyre_tcp_uring, options->peers, &refusal))
        return 0;
    if (tried && !gyre_tcp_uring)
        (void)gyre_tcp_uring_try(&refusal);
    if (tried)
        gyre_log(GYRE_LOG_WARN, "tcp is served by epoll: %s", refusal.text);
    return open_poller(wire, &gyre_tcp_epoll, options->peers, trouble);
}

static int tcp_open(const struct gyre_wire_options *options, struct gyre_wire **out,
                    struct gyre_trouble *trouble)
{
    struct gyre_tcp_wire *wire = calloc(1, sizeof *wire);
    if (!wire)
        return gyre_trouble_set(trouble, -ENOMEM, "tcp: no memory for a wire");
    wire->rank = options->rank;
    wire->epoch = options->epoch;
    wire->bare_payload = options->bare_payload;
    wire->dead_ns = options->dead_time_ms > 0 ? (uint64_t)options->dead_time_ms * GYRE_MS : 0;
    TAILQ_INIT(&wire->due);
    LIST_INIT(&wire->use);
    LIST_INIT(&wire->pipes);
    int status = choose_poller(wire, options, trouble);
    if (status) {
        free(wire);
        return status;
    }
    *out = (struct gyre_wire *)wire;
    return 0;
}

static void close_socket(struct gyre_tcp_socket *socket)
{
    if (socket->fd >= 0)
        socket->pipe->wire->poller->remove(socket);
    if (socket->fd >= 0 || socket->away)
        gyre_tcp_socket_close(socket);
}

static void close_sockets(struct gyre_tcp_pipe *pipe)
{
    for (int i = 0; i < pipe->sockets; i++)
        close_socket(&pipe->socket[i]);
}

static void tcp_detach(struct gyre_pipe *end)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    close_sockets(pipe);
    while (pipe->keeps)
        close(pipe->kept[--pipe->keeps]);
    for (int i = 0; i < pipe->sockets; i++) {
        gyre_tcp_socket_unmark(&pipe->socket[i]);
        gyre_kept_deinit(&pipe->socket[i].kept);
    }
    LIST_REMOVE(pipe, in_wire);
    gyre_end_depart(end, &pipe->wire->departed);
}

static void tcp_close(struct gyre_wire *handle)
{
    struct gyre_tcp_wire *wire = (struct gyre_tcp_wire *)handle;
    if (!wire)
        return;
    while (!LIST_EMPTY(&wire->pipes))
        tcp_detach(&LIST_FIRST(&wire->pipes)->end);
    gyre_end_forget(&wire->departed);
    wire->poller->close(wire);
    free(wire);
}

static void tcp_describe(const struct gyre_wire *wire, char *text, size_t size)
{
    snprintf(text, size, "tcp/%s", ((const struct gyre_tcp_wire *)wire)->poller->name);
}

/* Undoes a half-made attach; the descriptors stay the caller's. */
static int undo_attach(struct gyre_tcp_pipe *pipe, int status)
{
    for (int i = 0; i < pipe->sockets; i++) {
        pipe->wire->away -= pipe->socket[i].away;
        if (pipe->socket[i].fd >= 0)
            pipe->wire->poller->remove(&pipe->socket[i]);
        gyre_tcp_socket_unmark(&pipe->socket[i]);
        gyre_kept_deinit(&pipe->socket[i].kept);
    }
    gyre_end_destroy(&pipe->end);
    return status;
}

static int open_sockets(struct gyre_tcp_pipe *pipe, const struct gyre_channel *channel,
                        struct gyre_trouble *trouble)
{
    for (int i = 0; i < channel->fds; i++) {
        struct gyre_tcp_socket *socket = &pipe->socket[i];
        int status = gyre_tcp_socket_open(socket, pipe, pipe->end.stream[i], channel->fd[i],
                                          channel->renewable, trouble);
        if (!status && socket->fd >= 0)
            status = pipe->wire->poller->add(socket, trouble);
        if (status) {
            gyre_kept_deinit(&socket->kept);
            return status;
        }
        pipe->sockets++;
    }
    return 0;
}

static int tcp_attach(struct gyre_wire *handle, const struct gyre_channel *channel,
                      struct gyre_pipe **out, struct gyre_trouble *trouble)
{
    struct gyre_tcp_wire *wire = (struct gyre_tcp_wire *)handle;
    const struct gyre_stream_options options = {.epoch = wire->epoch,
                                                .posts = GYRE_PIPE_POSTS,
                                                .checksum = !wire->bare_payload,
                                                .eager = GYRE_TCP_EAGER,
                                                .security = channel->security,
                                                .keys = channel->keys};
    if (channel->fds < 1 || channel->fds > GYRE_CHANNEL_SOCKETS)
        return gyre_trouble_set(trouble, -EINVAL,
                                "tcp: %d connections to rank %u: 1 to %d are possible",
                                channel->fds, channel->peer, GYRE_CHANNEL_SOCKETS);
    const size_t size =
        sizeof(struct gyre_tcp_pipe) + (size_t)channel->fds * sizeof(struct gyre_tcp_socket);
    struct gyre_pipe *end;
    int status =
        gyre_end_create(size, wire->rank, channel->peer, &options, (uint32_t)channel->fds, &end);
    if (status)
        return gyre_trouble_set(trouble, status, "tcp: no %s for the pipe to rank %u",
                                status == -ENOMEM ? "memory" : "AES-128-GCM in libcrypto",
                                channel->peer);
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    pipe->wire = wire;
    status = open_sockets(pipe, channel, trouble);
    if (status)
        return undo_attach(pipe, status);
    LIST_INSERT_HEAD(&wire->pipes, pipe, in_wire);
    *out = end;
    return 0;
}

static void tell_pipe_failure(struct gyre_tcp_pipe *pipe, const struct gyre_tcp_socket *socket)
{
    const int index = (int)(socket - pipe->socket);
    const uint32_t rank = pipe->end.rank, peer = pipe->end.peer;
    struct gyre_trouble *trouble = &pipe->end.trouble;
    char text[256];
    if (socket->status == GYRE_MISMATCH)
        gyre_trouble_set(trouble, GYRE_MISMATCH, "%s",
                         gyre_end_refusal(&pipe->end, (uint32_t)index, GYRE_MISMATCH, NULL, text));
    else if (socket->status == GYRE_CORRUPT)
        gyre_trouble_set(
            trouble, GYRE_CORRUPT,
            "connection %d of %d from rank %u to rank %u (%s to %s) brought bytes that are not "
            "what the peer sent: %s",
            index + 1, pipe->sockets, rank, peer, socket->name[0], socket->name[1],
            gyre_stream_has_keys(socket->stream)
                ? "somebody on the path altered, repeated or dropped some, or a network card or "
                  "memory did"
                : "check the network path, memory, and that both run the same version");
    else if (socket->away)
        gyre_trouble_set(
            trouble, socket->status,
            "rank %u: connection %d of %d to it from rank %u (%s to %s) broke (%s) and could not "
            "be made anew within the dead time (GYRE_DEAD_TIME): does a firewall reset it?",
            peer, index + 1, pipe->sockets, rank, socket->name[0], socket->name[1],
            socket->broke ? strerror(socket->broke) : "the peer's end of it");
    else if (socket->broke == ETIMEDOUT)
        gyre_trouble_set(
            trouble, socket->status,
            "rank %u has acknowledged nothing on connection %d of %d from rank %u (%s to %s) for "
            "twice the dead time: does the path carry large packets (MTU), or does a firewall "
            "drop the connection?",
            peer, index + 1, pipe->sockets, rank, socket->name[0], socket->name[1]);
    else
        gyre_trouble_set(
            trouble, socket->status,
            "rank %u: connection %d of %d to it from rank %u (%s to %s) was lost: %s; look at its "
            "last lines",
            peer, index + 1, pipe->sockets, rank, socket->name[0], socket->name[1],
            socket->broke ? strerror(socket->broke) : "the peer closed it without a goodbye");
}

/* Keeps this end's connections up, so that the peer hears of the failure from the watch before it
 * sees a close. It would take the close for a loss, and might tell the loss first. */
static void keep_open(struct gyre_tcp_pipe *pipe)
{
    for (int i = 0; i < pipe->sockets; i++) {
        int fd = fcntl(pipe->socket[i].fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0)
            pipe->kept[pipe->keeps++] = fd;
    }
}

static void fail_pipe(struct gyre_tcp_pipe *pipe, const struct gyre_tcp_socket *socket)
{
    if (pipe->end.status)
        return;
    tell_pipe_failure(pipe, socket);
    if (socket->status != GYRE_PEER_LOST || socket->broke == ETIMEDOUT)
        keep_open(pipe);
    close_sockets(pipe);
    gyre_end_fail(&pipe->end, socket->status);
}

/* -- posts ------------------------------------------------------------------------------------- */

static struct gyre_tcp_socket *lane_socket(struct gyre_tcp_pipe *pipe,
                                           const struct gyre_match *match)
{
    return &pipe->socket[match->lane % (unsigned)pipe->sockets];
}

/* Fails the pipe on a refused post. A post that shows a mismatch tells as much as the peer's frame
 * would. */
static int tcp_refused(struct gyre_tcp_pipe *pipe, struct gyre_tcp_socket *socket, int status)
{
    if (status == GYRE_MISMATCH) {
        socket->status = status;
        fail_pipe(pipe, socket);
    }
    return status;
}

static int tcp_send(struct gyre_pipe *end, const struct gyre_match *match, const void *data,
                    uint64_t length, uint64_t token)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    struct gyre_tcp_socket *socket = lane_socket(pipe, match);
    if (end->status)
        return end->status;
    int status = gyre_stream_send(socket->stream, match, data, length, token);
    if (status)
        return tcp_refused(pipe, socket, status);
    gyre_tcp_socket_use(socket);
    bool later =
        length > GYRE_TCP_EAGER || (gyre_tcp_is_crowded(pipe->wire) && pipe->wire->poller->carry);
    if (!later && gyre_stream_lacks_credit(socket->stream))
        gyre_tcp_socket_pull(socket); /* credit may have come, and spares an ASK */
    if (!later)
        gyre_tcp_socket_push(socket);
    gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE | GYRE_TCP_HARVEST);
    return 0;
}

/* Posts a receive. The grant of a long message leaves at once: left to poll() it would stand behind
 * this side's own bulk, and the two directions would take turns (64 KiB both ways took 60 µs, and
 * 34 µs with the grant at once). */
static int tcp_recv(struct gyre_pipe *end, const struct gyre_match *match, void *data,
                    uint64_t length, uint64_t token)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    struct gyre_tcp_socket *socket = lane_socket(pipe, match);
    if (end->status)
        return end->status;
    int status = gyre_stream_recv(socket->stream, match, data, length, token);
    if (status)
        return tcp_refused(pipe, socket, status);
    gyre_tcp_socket_use(socket);
    if (length > GYRE_TCP_EAGER)
        gyre_tcp_socket_nudge(socket);
    gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE | GYRE_TCP_HARVEST);
    return 0;
}

static bool tcp_send_now(struct gyre_pipe *end, const struct gyre_match *match, const void *data,
                         uint64_t length)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    return !end->status && gyre_tcp_socket_send_now(lane_socket(pipe, match), match, data, length);
}

static int tcp_recv_now(struct gyre_pipe *end, const struct gyre_match *match, void *data,
                        uint64_t length)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    struct gyre_tcp_socket *socket = lane_socket(pipe, match);
    if (end->status)
        return -ENOENT;
    int status = gyre_tcp_socket_recv_now(socket, match, data, length);
    if (!status && !gyre_stream_silent(socket->stream)) /* credit is due */
        gyre_tcp_socket_push(socket);
    return status;
}

static int tcp_cancel(struct gyre_pipe *end, uint64_t token)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    for (int i = 0; i < pipe->sockets; i++) {
        struct gyre_tcp_socket *socket = &pipe->socket[i];
        if (socket->flying_in || socket->flying_out)
            pipe->wire->poller->settle(socket);
        int status = gyre_stream_cancel(socket->stream, token);
        gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE | GYRE_TCP_HARVEST);
        if (status != -ENOENT)
            return status;
    }
    return -ENOENT;
}

/* Closes this side of a connection whose goodbye is out. */
static void shut_socket(struct gyre_tcp_socket *socket)
{
    gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE | GYRE_TCP_READ);
    if (socket->shut || socket->fd < 0 || gyre_tcp_socket_replays(socket) ||
        !gyre_stream_said_bye(socket->stream))
        return;
    shutdown(socket->fd, SHUT_WR);
    socket->shut = true;
}

static int tcp_bye(struct gyre_pipe *end)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    if (end->status)
        return end->status;
    gyre_end_bye(end);
    bool parted = gyre_end_parted(end);
    for (int i = 0; i < pipe->sockets; i++) {
        shut_socket(&pipe->socket[i]);
        parted = gyre_tcp_socket_delivered(&pipe->socket[i]) && parted;
    }
    return parted ? 0 : GYRE_AGAIN;
}

/* -- renewal ----------------------------------------------------------------------------------- */

#define FRUITLESS_MOST 100u               /* breaks in a row without a byte between them */
#define UNRENEWED      (10 * GYRE_SECOND) /* the limit where there is no dead time */

/* Whether the peer may live although the connection broke. The kernel's ETIMEDOUT is no reset: the
 * path has carried nothing for long. */
static bool may_be_renewed(const struct gyre_tcp_socket *socket)
{
    return socket->kept.ring && socket->status == GYRE_PEER_LOST &&
           (socket->broke == 0 || gyre_tcp_is_break(socket->broke));
}

/* Leaves a connection that broke. The pipe fails where it cannot be made anew. */
static void part_or_fail(struct gyre_tcp_socket *socket)
{
    const struct gyre_tcp_poller *poller = socket->pipe->wire->poller;
    bool renewed = may_be_renewed(socket);
    if (renewed) {
        poller->settle(socket);
        poller->remove(socket);
        renewed = gyre_tcp_socket_part(socket);
    }
    if (!renewed)
        fail_pipe(socket->pipe, socket);
}

static struct gyre_tcp_socket *renewable_socket(struct gyre_pipe *end, int index)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    if (end->status || index < 0 || index >= pipe->sockets)
        return NULL;
    struct gyre_tcp_socket *socket = &pipe->socket[index];
    return socket->kept.ring || socket->unmade ? socket : NULL;
}

static bool tcp_broken(struct gyre_wire *handle, struct gyre_break *lost)
{
    struct gyre_tcp_wire *wire = (struct gyre_tcp_wire *)handle;
    struct gyre_tcp_pipe *pipe;
    if (!wire->away)
        return false;
    LIST_FOREACH(pipe, &wire->pipes, in_wire)
    for (int i = 0; i < pipe->sockets; i++) {
        struct gyre_tcp_socket *socket = &pipe->socket[i];
        if (!socket->away || socket->told)
            continue;
        socket->told = true;
        *lost = (struct gyre_break){.peer = pipe->end.peer,
                                    .index = i,
                                    .number = socket->number,
                                    .fruitless = socket->fruitless,
                                    .received = socket->received,
                                    .first = socket->unmade};
        return true;
    }
    return false;
}

static int tcp_part(struct gyre_pipe *end, int index, uint32_t newer, uint64_t *received)
{
    struct gyre_tcp_socket *socket = renewable_socket(end, index);
    if (!socket)
        return end->status ? end->status : GYRE_INVALID;
    if (socket->number >= newer || (socket->fd < 0 && !socket->away))
        return -EALREADY;
    if (!socket->away) {
        socket->status = socket->status ? socket->status : GYRE_PEER_LOST;
        part_or_fail(socket);
    }
    *received = socket->received;
    return end->status;
}

/* Refuses a peer that wants bytes that it cannot want, or that are kept no more. */
static int refuse_renewal(struct gyre_tcp_socket *socket, uint64_t received)
{
    struct gyre_tcp_pipe *pipe = socket->pipe;
    const struct gyre_kept *kept = &socket->kept;
    const bool never = received > kept->to;
    gyre_trouble_set(
        &pipe->end.trouble, GYRE_CORRUPT,
        "connection %d of %d from rank %u to rank %u (%s to %s) broke and cannot go on: the peer "
        "says that %" PRIu64 " bytes have come, %s %" PRIu64 "; %s",
        (int)(socket - pipe->socket) + 1, pipe->sockets, pipe->end.rank, pipe->end.peer,
        socket->name[0], socket->name[1], received,
        never ? "and this rank has sent" : "and this rank still has those from",
        never ? kept->to : kept->from,
        never ? "check that both run the same version"
              : "did somebody between the two acknowledge bytes that did not arrive, as a proxy "
                "does?");
    close_sockets(pipe);
    gyre_end_fail(&pipe->end, GYRE_CORRUPT);
    return GYRE_CORRUPT;
}

static void log_renewal(const struct gyre_tcp_socket *socket, uint64_t again)
{
    const struct gyre_tcp_pipe *pipe = socket->pipe;
    gyre_log(GYRE_LOG_WARN,
             "connection %d of %d to rank %u was reset and has been made anew, from %s to %s, with "
             "%" PRIu64 " bytes to send once more; the job goes on",
             (int)(socket - pipe->socket) + 1, pipe->sockets, pipe->end.peer, socket->name[0],
             socket->name[1], again);
}

static void log_first(const struct gyre_tcp_socket *socket)
{
    const struct gyre_tcp_pipe *pipe = socket->pipe;
    gyre_log(GYRE_LOG_DEBUG, "connection %d of %d to rank %u is made at its first use, %s to %s",
             (int)(socket - pipe->socket) + 1, pipe->sockets, pipe->end.peer, socket->name[0],
             socket->name[1]);
}

static int tcp_renew(struct gyre_pipe *end, int index, int fd, uint32_t number, uint64_t received)
{
    struct gyre_tcp_socket *socket = renewable_socket(end, index);
    if (!socket)
        return end->status ? end->status : GYRE_INVALID;
    if (!socket->away)
        return -EALREADY;
    if (!gyre_kept_reaches(&socket->kept, received))
        return refuse_renewal(socket, received);
    const bool first = socket->unmade;
    gyre_tcp_socket_renew(socket, fd, number, received);
    int status = socket->pipe->wire->poller->add(socket, &end->trouble);
    if (status) {
        socket->fd = -1; /* the caller's again */
        close_sockets(socket->pipe);
        gyre_end_fail(end, status);
        return status;
    }
    if (first)
        log_first(socket);
    else
        log_renewal(socket, socket->kept.to - received);
    gyre_tcp_socket_push(socket);
    return 0;
}

/* Fails a pipe of which no connection was made before its peer left. */
static void leave_unmade(struct gyre_tcp_pipe *pipe)
{
    gyre_trouble_set(&pipe->end.trouble, GYRE_MISMATCH,
                     "rank %u has left by gyre_finalize(), but rank %u still needs it",
                     pipe->end.peer, pipe->end.rank);
    close_sockets(pipe);
    gyre_end_fail(&pipe->end, GYRE_MISMATCH);
}

static bool tcp_gone(struct gyre_pipe *end, int index, bool told)
{
    struct gyre_tcp_socket *socket = renewable_socket(end, index);
    if (socket && socket->unmade && told) {
        leave_unmade((struct gyre_tcp_pipe *)end);
        return true;
    }
    if (!socket || !socket->away || !gyre_stream_heard_bye(socket->stream))
        return false;
    gyre_tcp_socket_rest(socket);
    return true;
}

static bool tcp_mend(struct gyre_wire *handle)
{
    struct gyre_tcp_wire *wire = (struct gyre_tcp_wire *)handle;
    struct gyre_tcp_pipe *pipe;
    if (!wire->replays)
        return false;
    wire->poller->look(wire);
    LIST_FOREACH(pipe, &wire->pipes, in_wire)
    for (int i = 0; i < pipe->sockets; i++) {
        struct gyre_tcp_socket *socket = &pipe->socket[i];
        if (!gyre_tcp_socket_replays(socket))
            continue;
        gyre_tcp_socket_block(socket, false);
        gyre_tcp_socket_push(socket);
    }
    return wire->replays > 0;
}

/* Whether the time for a new connection is over, or every new one breaks at once. */
static bool is_overdue(struct gyre_tcp_socket *socket, uint64_t now, uint64_t limit)
{
    if (!socket->away_since)
        socket->away_since = now;
    if (!socket->vain_since)
        socket->vain_since = now;
    return now - socket->away_since > limit ||
           (socket->fruitless > FRUITLESS_MOST && now - socket->vain_since > limit);
}

/* Fails pipes that have waited too long for a new connection. */
static void give_up_overdue(struct gyre_tcp_wire *wire, uint64_t now)
{
    const uint64_t limit = wire->dead_ns ? wire->dead_ns : UNRENEWED;
    struct gyre_tcp_pipe *pipe;
    LIST_FOREACH(pipe, &wire->pipes, in_wire)
    for (int i = 0; i < pipe->sockets && !pipe->end.status; i++) {
        struct gyre_tcp_socket *socket = &pipe->socket[i];
        if (socket->away && !socket->unmade && is_overdue(socket, now, limit)) {
            socket->status = GYRE_PEER_LOST;
            fail_pipe(pipe, socket);
        }
    }
}

/* -- progress ---------------------------------------------------------------------------------- */

static void move_socket(struct gyre_tcp_socket *socket, unsigned due)
{
    const struct gyre_tcp_poller *poller = socket->pipe->wire->poller;
    bool carried = poller->carry && gyre_tcp_is_crowded(socket->pipe->wire);
    if (!carried && due & GYRE_TCP_READ)
        gyre_tcp_socket_pull(socket);
    gyre_tcp_socket_push(socket); /* a frame that was read may need an answer */
    if (poller->carry && (carried || socket->blocked) && !socket->status && !socket->unread)
        poller->carry(socket);
}

static int serve_socket(struct gyre_tcp_socket *socket, struct gyre_completion *out, int max)
{
    unsigned due = socket->due;
    gyre_tcp_socket_unmark(socket);
    bool moves = socket->fd >= 0 || socket->unread;
    if (moves && !socket->status && due & (GYRE_TCP_READ | GYRE_TCP_WRITE))
        move_socket(socket, due);
    if (socket->status && socket->fd >= 0)
        part_or_fail(socket);
    int got = gyre_tcp_socket_harvest(socket, out, max);
    if (got == max)
        gyre_tcp_socket_mark(socket, GYRE_TCP_HARVEST);
    return got;
}

/* Marks the connections in use: those that wait for the peer. A connection whose posts have all
 * completed is not in use: a root that only sends would read nothing once per message. Now and then
 * all are marked, to hear of an end. */
static void mark_used(struct gyre_tcp_wire *wire)
{
    struct gyre_tcp_socket *socket;
    bool all = wire->polls % GYRE_TCP_LOOK_EVERY == 0;
    LIST_FOREACH(socket, &wire->use, in_use)
    if (all || gyre_stream_waits(socket->stream))
        gyre_tcp_socket_mark(socket, GYRE_TCP_READ);
}

/* Looks for connections without progress, a few times in the dead time. */
static void inspect_connections(struct gyre_tcp_wire *wire, uint64_t now)
{
    struct gyre_tcp_pipe *pipe;
    if (!wire->dead_ns || now < wire->inspect_at)
        return;
    wire->inspect_at = now + wire->dead_ns / 8;
    LIST_FOREACH(pipe, &wire->pipes, in_wire)
    for (int i = 0; i < pipe->sockets && !pipe->end.status; i++)
        gyre_tcp_socket_inspect(&pipe->socket[i], now, 2 * wire->dead_ns);
}

static int tcp_poll(struct gyre_wire *handle, uint64_t now, struct gyre_completion *out, int max)
{
    struct gyre_tcp_wire *wire = (struct gyre_tcp_wire *)handle;
    struct gyre_tcp_socket *socket;
    if (max < 1)
        return 0;
    wire->polls++;
    inspect_connections(wire, now);
    if (wire->away)
        give_up_overdue(wire, now);
    wire->poller->look(wire);
    if (!gyre_tcp_is_crowded(wire))
        mark_used(wire);
    int got = gyre_end_harvest(&wire->departed, out, max);
    struct gyre_tcp_socket *last = TAILQ_LAST(&wire->due, gyre_tcp_due_list);
    for (bool more = last; more && got < max;) {
        socket = TAILQ_FIRST(&wire->due);
        more = socket != last;
        got += serve_socket(socket, out + got, max - got);
    }
    if (wire->poller->launch)
        wire->poller->launch(wire);
    return got;
}

/* Has long messages that wait for a grant ask for it. */
static void ask_for_grants(struct gyre_tcp_wire *wire)
{
    struct gyre_tcp_socket *socket;
    LIST_FOREACH(socket, &wire->use, in_use)
    if (gyre_stream_ask(socket->stream))
        gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE);
}

static int tcp_arm(struct gyre_wire *handle, struct gyre_alarm *alarm)
{
    struct gyre_tcp_wire *wire = (struct gyre_tcp_wire *)handle;
    ask_for_grants(wire);
    int status = wire->poller->arm(wire, &alarm->fd);
    if (status)
        return status;
    return TAILQ_EMPTY(&wire->due) && !wire->departed ? 0 : GYRE_AGAIN;
}

static uint64_t tcp_moved(const struct gyre_wire *wire)
{
    return ((const struct gyre_tcp_wire *)wire)->moved;
}

const struct gyre_driver gyre_driver_tcp = {
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .describe = tcp_describe,
    .attach = tcp_attach,
    .detach = tcp_detach,
    .bye = tcp_bye,
    .send = tcp_send,
    .recv = tcp_recv,
    .send_now = tcp_send_now,
    .recv_now = tcp_recv_now,
    .cancel = tcp_cancel,
    .poll = tcp_poll,
    .state = gyre_end_state,
    .arm = tcp_arm,
    .broken = tcp_broken,
    .part = tcp_part,
    .renew = tcp_renew,
    .gone = tcp_gone,
    .mend = tcp_mend,
    .moved = tcp_moved,
};
