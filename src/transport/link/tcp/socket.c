/* One connection of a pipe: carries its stream's bytes through one socket.
 *
 *      stream ── gather ──▶ sendmsg ──▶ wrote()          push()
 *      stream ◀─ target ─── recvmsg ◀── came()           pull()
 *
 * push() and pull() use plain non-blocking calls, whatever the poller. They pass MSG_DONTWAIT to
 * every call and do not set O_NONBLOCK on the socket, because io_uring answers EAGAIN at once on a
 * non-blocking socket, where it should wait.
 *
 * Invariants
 *   - One mover per direction. While flying_out (flying_in) is set, the poller's operation owns
 *     that direction and no plain call touches it; otherwise two readers would tear one byte stream
 *     apart.
 *   - A short read or write means that the kernel has no more just now, and saves the call that
 *     would say EAGAIN. After a hangup a short read is no end: the end itself must be read, because
 *     its notice came already.
 *   - The first break is noted, with its errno; tcp.c fails the pipe at this connection's next
 *     turn.
 *
 * Tested by tests/link/tcp.c and tests/unit/transport/link/tcp/tcp_test.c. */
#include "transport/link/tcp/inside.h"

#include "base/clock.h"
#include "base/copy.h"
#include "transport/stream/frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void name_address(const struct sockaddr_storage *address, char name[GYRE_TCP_NAME_MAX])
{
    char text[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        snprintf(name, GYRE_TCP_NAME_MAX, "%s:%u", text, ntohs(in->sin_port));
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
        snprintf(name, GYRE_TCP_NAME_MAX, "[%s]:%u", text, ntohs(in6->sin6_port));
    } else {
        snprintf(name, GYRE_TCP_NAME_MAX, "%s", "a local socket");
    }
}

static int look_at_ends(struct gyre_tcp_socket *socket, int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_length = sizeof here, there_length = sizeof there;
    if (getsockname(fd, (struct sockaddr *)&here, &here_length) ||
        getpeername(fd, (struct sockaddr *)&there, &there_length))
        return -errno;
    name_address(&here, socket->name[0]);
    name_address(&there, socket->name[1]);
    return 0;
}

int gyre_tcp_socket_open(struct gyre_tcp_socket *socket, struct gyre_tcp_pipe *pipe,
                         struct gyre_stream *stream, int fd, struct gyre_trouble *trouble)
{
    const uint32_t peer = pipe->end.peer;
    *socket = (struct gyre_tcp_socket){.pipe = pipe, .stream = stream, .fd = fd};
    int status = look_at_ends(socket, fd);
    if (status == -ENOTCONN) /* the peer has closed the connection by a reset */
        return gyre_trouble_set(trouble, GYRE_PEER_LOST, "tcp: rank %u left while this rank joined",
                                peer);
    if (status)
        return gyre_trouble_set(trouble, status,
                                "tcp: descriptor %d for rank %u is no connected socket: %s", fd,
                                peer, gyre_status_name(status));
    /* Fails on a local socket, which has no delay. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return 0;
}

void gyre_tcp_socket_use(struct gyre_tcp_socket *socket)
{
    struct gyre_tcp_wire *wire = socket->pipe->wire;
    if (socket->posts++)
        return;
    LIST_INSERT_HEAD(&wire->use, socket, in_use);
    wire->used++;
}

static void unuse(struct gyre_tcp_socket *socket, uint32_t posts)
{
    if (posts == 0)
        return;
    socket->posts -= posts;
    if (socket->posts)
        return;
    LIST_REMOVE(socket, in_use);
    socket->pipe->wire->used--;
}

/* Closes the socket. After goodbyes from both sides the kernel may still be sending ours and is
 * left to it; otherwise the peer should see the end now (a reset), and nothing linger. */
static void hang_up(struct gyre_tcp_socket *socket)
{
    bool orderly = gyre_stream_said_bye(socket->stream) && gyre_stream_heard_bye(socket->stream);
    if (!orderly)
        setsockopt(socket->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1, .l_linger = 0},
                   sizeof(struct linger));
    close(socket->fd);
    socket->fd = -1;
}

void gyre_tcp_socket_close(struct gyre_tcp_socket *socket)
{
    if (socket->blocked)
        socket->pipe->wire->stuck--;
    socket->blocked = false;
    unuse(socket, socket->posts); /* these posts only wait for their completions to be told */
    hang_up(socket);
    gyre_tcp_socket_mark(socket, GYRE_TCP_HARVEST);
}

void gyre_tcp_socket_mark(struct gyre_tcp_socket *socket, unsigned due)
{
    if (!socket->due)
        TAILQ_INSERT_TAIL(&socket->pipe->wire->due, socket, in_due);
    socket->due |= due;
}

void gyre_tcp_socket_unmark(struct gyre_tcp_socket *socket)
{
    if (socket->due)
        TAILQ_REMOVE(&socket->pipe->wire->due, socket, in_due);
    socket->due = 0;
}

int gyre_tcp_socket_harvest(struct gyre_tcp_socket *socket, struct gyre_completion *out, int max)
{
    int got = gyre_stream_complete(socket->stream, out, max);
    if (socket->fd >= 0)
        unuse(socket, (uint32_t)got);
    return got;
}

static bool broken(struct gyre_tcp_socket *socket, int status, int error)
{
    if (!socket->status) {
        socket->status = status;
        socket->broke = error;
    }
    gyre_tcp_socket_mark(socket, GYRE_TCP_HARVEST);
    return false;
}

/* Notes the errno of a transfer: a shortage on this machine stays what it is, every other error
 * means that the peer is gone. */
static bool broken_by(struct gyre_tcp_socket *socket, int error)
{
    bool ours =
        error == ENOMEM || error == ENOBUFS || error == EBADF || error == EFAULT || error == EINVAL;
    return broken(socket, ours ? -error : GYRE_PEER_LOST, error);
}

static bool passes(ssize_t result)
{
    return result == -EINTR ||
           result == -ECANCELED; /* a flight ends like this when the thread that started it ends */
}

void gyre_tcp_socket_block(struct gyre_tcp_socket *socket, bool blocked)
{
    if (socket->blocked == blocked)
        return;
    socket->blocked = blocked;
    socket->pipe->wire->stuck += blocked ? 1 : -1;
}

bool gyre_tcp_socket_wrote(struct gyre_tcp_socket *socket, ssize_t result)
{
    if (result == -EAGAIN) {
        gyre_tcp_socket_block(socket, true);
        return false;
    }
    if (result < 0 && !passes(result))
        return broken_by(socket, (int)-result);
    if (result > 0) {
        socket->pipe->wire->moved += (uint64_t)result;
        gyre_stream_wrote(socket->stream, (size_t)result);
    }
    return true;
}

/* Takes the result of a read. After the peer's goodbye nothing follows, so then no end of the
 * reading is a failure. */
bool gyre_tcp_socket_came(struct gyre_tcp_socket *socket, ssize_t result)
{
    if (result > 0) {
        socket->pipe->wire->moved += (uint64_t)result;
        int status = gyre_stream_read(socket->stream, (size_t)result);
        return status ? broken(socket, status, 0) : true;
    }
    if (result == -EAGAIN || passes(result))
        return result != -EAGAIN;
    socket->finished = gyre_stream_heard_bye(socket->stream);
    return socket->finished ? false : broken_by(socket, (int)-result);
}

static size_t sum_lengths(const struct iovec *iov, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += iov[i].iov_len;
    return total;
}

/* Writes vectors. A single vector, the usual case of small traffic, is cheaper for the kernel
 * without a msghdr. Bytes or -errno. */
static ssize_t transmit(int fd, struct iovec *iov, int count)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    ssize_t sent = count == 1 ? send(fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

static ssize_t receive(int fd, struct iovec *iov, int count)
{
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    ssize_t got = count == 1 ? recv(fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
                             : recvmsg(fd, &message, MSG_DONTWAIT);
    return got < 0 ? -errno : got;
}

/* Writes the next bytes, of at most `vectors` vectors; false: nothing more moves now. */
static bool write_next(struct gyre_tcp_socket *socket, int vectors, size_t *moved)
{
    struct iovec iov[GYRE_TCP_VECTORS];
    int count = gyre_stream_gather(socket->stream, iov, vectors);
    if (!count)
        return false;
    ssize_t result = transmit(socket->fd, iov, count);
    bool more = gyre_tcp_socket_wrote(socket, result);
    if (more && result > 0 && (size_t)result < sum_lengths(iov, count))
        gyre_tcp_socket_block(socket, true);
    *moved += result > 0 ? (size_t)result : 0;
    return more;
}

static bool can_write(const struct gyre_tcp_socket *socket)
{
    return !socket->flying_out && !socket->blocked && !socket->status;
}

void gyre_tcp_socket_push(struct gyre_tcp_socket *socket)
{
    size_t moved = 0;
    while (moved < GYRE_TCP_BUDGET_BYTES)
        if (!can_write(socket) || !write_next(socket, GYRE_TCP_VECTORS, &moved))
            return;
    gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE);
}

void gyre_tcp_socket_nudge(struct gyre_tcp_socket *socket)
{
    size_t moved = 0;
    if (can_write(socket))
        write_next(socket, 1, &moved);
}

void gyre_tcp_socket_pull(struct gyre_tcp_socket *socket)
{
    struct iovec iov[2];
    size_t moved = 0;
    while (!socket->flying_in && !socket->finished && !socket->status) {
        if (moved >= GYRE_TCP_BUDGET_BYTES) {
            gyre_tcp_socket_mark(socket, GYRE_TCP_READ);
            return;
        }
        int count = gyre_stream_target(socket->stream, iov);
        ssize_t result = receive(socket->fd, iov, count);
        if (!gyre_tcp_socket_came(socket, result))
            return;
        if (result > 0 && (size_t)result < sum_lengths(iov, count) && !socket->hangup)
            return;
        moved += result > 0 ? (size_t)result : 0;
    }
}

/* -- progress ---------------------------------------------------------------------------------- */

#define FLUTTER (50 * GYRE_MS) /* of the kernel's clock of acknowledgements */

void gyre_tcp_socket_inspect(struct gyre_tcp_socket *socket, uint64_t now, uint64_t limit_ns)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    if (socket->fd < 0 || getsockopt(socket->fd, IPPROTO_TCP, TCP_INFO, &info, &length))
        return;
    socket->pipe->wire->moved += info.tcpi_unacked != 0;
    uint64_t acknowledged = now - info.tcpi_last_ack_recv * GYRE_MS;
    if (!info.tcpi_unacked || acknowledged > socket->acknowledged + FLUTTER) {
        socket->acknowledged = acknowledged;
        socket->stuck_since = info.tcpi_unacked ? now : 0;
    } else if (!socket->stuck_since) {
        socket->stuck_since = now;
    } else if (now - socket->stuck_since > limit_ns) {
        broken(socket, GYRE_PEER_LOST, ETIMEDOUT);
    }
}

/* -- without a post ---------------------------------------------------------------------------- */

#define GATHERED_MAX 256u /* copying so many bytes costs less than a second vector */

/* Ends a message of which the kernel took only a part: its post goes on with the rest. */
static bool stop_short(struct gyre_tcp_socket *socket, ssize_t sent)
{
    if (sent > 0) {
        socket->pipe->wire->moved += (uint64_t)sent;
        gyre_tcp_socket_block(socket, true);
    } else {
        gyre_tcp_socket_wrote(socket, sent);
    }
    gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE | GYRE_TCP_HARVEST);
    return false;
}

bool gyre_tcp_socket_send_now(struct gyre_tcp_socket *socket, const struct gyre_match *match,
                              const void *data, uint64_t length)
{
    uint8_t frame[GYRE_FRAME_HEAD_MOST + GYRE_STREAM_REST_MOST];
    const size_t head = gyre_stream_head_bytes(socket->stream);
    const bool encrypts = gyre_stream_encrypts(socket->stream);
    const bool gathered = encrypts || length <= GATHERED_MAX;
    struct iovec iov[2] = {{frame, head + (gathered ? length : 0)},
                           {(void *)(uintptr_t)data, length}};
    if (length > GYRE_STREAM_REST_MOST || !can_write(socket) ||
        !gyre_stream_leave_now(socket->stream, match, data, length, frame, frame + head))
        return false;
    if (gathered && !encrypts)
        gyre_copy(frame + head, data, length);
    ssize_t sent = transmit(socket->fd, iov, gathered ? 1 : 2);
    if (sent != (ssize_t)(head + length)) {
        gyre_stream_leave_rest(socket->stream, match, gathered ? frame + head : data, length, frame,
                               sent > 0 ? (size_t)sent : 0);
        return stop_short(socket, sent);
    }
    socket->pipe->wire->moved += (uint64_t)sent;
    return true;
}

static bool came_now(struct gyre_tcp_socket *socket, size_t bytes, const struct gyre_match *match,
                     void *data, uint64_t length)
{
    int status;
    socket->pipe->wire->moved += bytes;
    bool came = gyre_stream_read_now(socket->stream, bytes, match, data, length, &status);
    if (status)
        broken(socket, status, 0);
    if (socket->posts)
        gyre_tcp_socket_mark(socket, GYRE_TCP_HARVEST); /* bytes behind it may be other messages */
    return came || gyre_stream_take_now(socket->stream, match, data, length);
}

int gyre_tcp_socket_recv_now(struct gyre_tcp_socket *socket, const struct gyre_match *match,
                             void *data, uint64_t length)
{
    struct iovec iov[2];
    if (gyre_stream_take_now(socket->stream, match, data, length))
        return 0;
    if (length > GYRE_STREAM_REST_MOST || socket->flying_in || socket->finished || socket->hangup ||
        socket->status || !gyre_stream_awaits_frame(socket->stream))
        return -ENOENT;
    int count = gyre_stream_target(socket->stream, iov);
    ssize_t got = receive(socket->fd, iov, count);
    if (got == -EAGAIN)
        return GYRE_AGAIN;
    if (got <= 0 || (size_t)got == iov[0].iov_len)
        gyre_tcp_socket_mark(socket, GYRE_TCP_READ); /* more bytes wait */
    if (got <= 0)
        gyre_tcp_socket_came(socket, got);
    return got > 0 && came_now(socket, (size_t)got, match, data, length) ? 0 : -ENOENT;
}
