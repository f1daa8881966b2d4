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
 * Death is in pipe.c, renewal in renew.c. Tested by tests/link/tcp.c and
 * tests/unit/transport/link/tcp. */
#include "transport/link/tcp/inside.h"
#include "transport/link/tcp/uring.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/stream/frame.h"

#include <errno.h>
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

static void tcp_detach(struct gyre_pipe *end)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    gyre_tcp_pipe_close(pipe);
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
        gyre_tcp_pipe_fail(pipe, socket);
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
        gyre_tcp_part_or_fail(socket);
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
        gyre_tcp_give_up_overdue(wire, now);
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
    .broken = gyre_tcp_broken,
    .part = gyre_tcp_part,
    .renew = gyre_tcp_renew,
    .gone = gyre_tcp_gone,
    .mend = gyre_tcp_mend,
    .moved = tcp_moved,
};
