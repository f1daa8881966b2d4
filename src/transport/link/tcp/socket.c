/* One connection of a pipe: carries its stream's bytes through one socket.
 *
 *      stream ── gather ──▶ sendmsg ──▶ wrote() ─▶ kept  push()
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
 *     turn, or parts with a connection that can be made anew.
 *   - Of a renewable connection, every byte that its kernel took is kept until the peer's kernel
 *     has acknowledged it. What the peer's kernel had acknowledged can be read there after a reset,
 *     so the two ends know together which bytes are missing. They are sent once more as they were,
 *     sealed by the same keys and numbers.
 *
 * The kernel is asked for acknowledgements once in 64 KiB, before bytes are kept, so only what is
 * under way is copied.
 *
 * Tested by tests/link/tcp.c and tests/unit/transport/link/tcp/tcp_test.c. */
#include "transport/link/tcp/inside.h"

#include "base/clock.h"
#include "base/copy.h"
#include "transport/stream/frame.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASK_BYTES      (64u * 1024)         /* kept before the kernel is asked what has arrived */
#define KEPT_FIRST     ((size_t)256 * 1024) /* of a connection */
#define KEPT_DOUBLINGS 6                    /* so 16 MiB at most */
#define QUEUE_USUAL    (4u * 1024 * 1024)   /* where the kernel does not say how long it gets */
#define DRAINS_MOST    4096                 /* reads of what a broken connection has brought */

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

/* The most that the kernel takes before its peer acknowledges. */
static size_t longest_queue(void)
{
    unsigned most = 0;
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_wmem", "re");
    if (!file || fscanf(file, "%*u %*u %u", &most) != 1)
        most = QUEUE_USUAL;
    if (file)
        fclose(file);
    return most;
}

/* Has the connection keep what its kernel may take, and by how much that exceeds its limit. */
static int begin_to_keep(struct gyre_tcp_socket *socket)
{
    const size_t wanted = longest_queue() + KEPT_FIRST;
    int doublings = 0;
    while (doublings < KEPT_DOUBLINGS && KEPT_FIRST << doublings < wanted)
        doublings++;
    socket->ask_at = ASK_BYTES;
    return gyre_kept_init(&socket->kept, KEPT_FIRST, doublings);
}

static void count_away(struct gyre_tcp_socket *socket, bool away)
{
    if (socket->away == away)
        return;
    socket->away = away;
    socket->told = false;
    socket->pipe->wire->away += away ? 1 : -1u;
}

/* Fails on a local socket, which has no delay. */
static void turn_delay_off(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

/* Sets up a socket that is there. */
static int take_descriptor(struct gyre_tcp_socket *socket, bool renewable,
                           struct gyre_trouble *trouble)
{
    const uint32_t peer = socket->pipe->end.peer;
    const int fd = socket->fd;
    int status = look_at_ends(socket, fd);
    if (status == -ENOTCONN && renewable)
        status = 0;
    if (status == -ENOTCONN) /* the peer has closed the connection by a reset */
        return gyre_trouble_set(trouble, GYRE_PEER_LOST, "tcp: rank %u left while this rank joined",
                                peer);
    if (status)
        return gyre_trouble_set(trouble, status,
                                "tcp: descriptor %d for rank %u is no connected socket: %s", fd,
                                peer, gyre_status_name(status));
    turn_delay_off(fd);
    return 0;
}

int gyre_tcp_socket_open(struct gyre_tcp_socket *socket, struct gyre_tcp_pipe *pipe,
                         struct gyre_stream *stream, int fd, bool renewable,
                         struct gyre_trouble *trouble)
{
    *socket =
        (struct gyre_tcp_socket){.pipe = pipe, .stream = stream, .fd = fd, .name = {"?", "?"}};
    int status = fd < 0 ? 0 : take_descriptor(socket, renewable, trouble);
    if (status)
        return status;
    if (renewable && begin_to_keep(socket))
        return gyre_trouble_set(trouble, -ENOMEM,
                                "tcp: no memory to keep bytes for rank %u (ulimit -v)",
                                pipe->end.peer);
    socket->unmade = fd < 0;
    count_away(socket, fd < 0);
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

static void count_replay(struct gyre_tcp_socket *socket, bool before)
{
    bool replays = gyre_tcp_socket_replays(socket);
    socket->pipe->wire->replays += replays - (uint32_t)before;
}

void gyre_tcp_socket_close(struct gyre_tcp_socket *socket)
{
    if (socket->blocked)
        socket->pipe->wire->stuck--;
    socket->blocked = false;
    unuse(socket, socket->posts); /* these posts only wait for their completions to be told */
    count_away(socket, false);
    socket->unmade = false;
    if (gyre_tcp_socket_replays(socket))
        socket->pipe->wire->replays--;
    socket->sent = socket->kept.to;
    if (socket->fd >= 0)
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
    if (socket->fd >= 0 || socket->away || socket->unread)
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

/* -- bytes that may have to be sent once more -------------------------------------------------- */

/* The position up to which the peer's kernel has acknowledged, when this connection's kernel has
 * taken the bytes up to `sent`. */
static uint64_t acknowledged(const struct gyre_tcp_socket *socket, uint64_t sent)
{
    int queued;
    if (ioctl(socket->fd, SIOCOUTQ, &queued) || queued < 0 || (uint64_t)queued > sent)
        return 0;
    return sent - (uint64_t)queued;
}

/* Keeps what the kernel has just taken. */
static void keep(struct gyre_tcp_socket *socket, const struct iovec *iov, int count, size_t bytes)
{
    struct gyre_kept *kept = &socket->kept;
    uint64_t arrived = 0;
    if (!kept->ring)
        return;
    socket->sent += bytes;
    if (kept->to - kept->from + bytes >= socket->ask_at)
        arrived = acknowledged(socket, socket->sent);
    gyre_kept_add(kept, iov, count, bytes, arrived);
    if (arrived)
        socket->ask_at = (size_t)(kept->to - kept->from) + ASK_BYTES;
}

int gyre_tcp_socket_gather(struct gyre_tcp_socket *socket, struct iovec *iov, int max)
{
    return gyre_tcp_socket_replays(socket) ? gyre_kept_gather(&socket->kept, socket->sent, iov, max)
                                           : gyre_stream_gather(socket->stream, iov, max);
}

static void took(struct gyre_tcp_socket *socket, const struct iovec *iov, int count, size_t bytes)
{
    if (gyre_tcp_socket_replays(socket)) {
        socket->sent += bytes;
        count_replay(socket, true);
        return;
    }
    if (!socket->unread)
        keep(socket, iov, count, bytes);
    gyre_stream_wrote(socket->stream, bytes);
}

bool gyre_tcp_is_break(int error)
{
    return error == ECONNRESET || error == EPIPE || error == ECONNABORTED || error == ENOTCONN;
}

/* The peer has gone. After its goodbye that is no failure: what it said is here, and what this end
 * still says, credit and a goodbye, moves like any bytes, to nobody. */
static void stop_transmitting(struct gyre_tcp_socket *socket)
{
    gyre_tcp_socket_block(socket, false);
    socket->unread = true;
    gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE | GYRE_TCP_HARVEST);
}

bool gyre_tcp_socket_wrote(struct gyre_tcp_socket *socket, const struct iovec *iov, int count,
                           ssize_t result)
{
    if (result == -EAGAIN) {
        gyre_tcp_socket_block(socket, true);
        return false;
    }
    if (gyre_tcp_is_break((int)-result) && !socket->kept.ring &&
        gyre_stream_heard_bye(socket->stream)) {
        stop_transmitting(socket);
        return true;
    }
    if (result < 0 && !passes(result))
        return broken_by(socket, (int)-result);
    if (result > 0) {
        socket->pipe->wire->moved += (uint64_t)result;
        took(socket, iov, count, (size_t)result);
    }
    return true;
}

/* Takes the result of a read. After the peer's goodbye nothing follows, so then no end of the
 * reading is a failure. */
bool gyre_tcp_socket_came(struct gyre_tcp_socket *socket, ssize_t result)
{
    if (result > 0) {
        socket->pipe->wire->moved += (uint64_t)result;
        socket->received += (uint64_t)result;
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
    int count = gyre_tcp_socket_gather(socket, iov, vectors);
    if (!count)
        return false;
    ssize_t result =
        socket->unread ? (ssize_t)sum_lengths(iov, count) : transmit(socket->fd, iov, count);
    bool more = gyre_tcp_socket_wrote(socket, iov, count, result);
    if (more && result > 0 && (size_t)result < sum_lengths(iov, count))
        gyre_tcp_socket_block(socket, true);
    *moved += result > 0 ? (size_t)result : 0;
    return more;
}

static bool can_write(const struct gyre_tcp_socket *socket)
{
    return !socket->flying_out && !socket->blocked && !socket->status &&
           (socket->fd >= 0 || socket->unread);
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
    while (!socket->flying_in && !socket->finished && !socket->status && socket->fd >= 0) {
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

/* -- renewal ----------------------------------------------------------------------------------- */

/* Reads what has come over a connection that is left. After a reset the kernel gives all that it
 * had acknowledged. A peer that tells of the break sends no more. */
static void drain(struct gyre_tcp_socket *socket)
{
    struct iovec iov[2];
    socket->status = 0;
    for (int reads = 0; reads < DRAINS_MOST && !socket->finished && !socket->status; reads++) {
        int count = gyre_stream_target(socket->stream, iov);
        ssize_t got = receive(socket->fd, iov, count);
        if (got > 0)
            gyre_tcp_socket_came(socket, got);
        else if (got != -EINTR)
            return;
    }
}

/* Counts breaks without a byte between them. */
static void count_break(struct gyre_tcp_socket *socket)
{
    bool fruitless = socket->number > 0 && socket->lost_at[0] == socket->received &&
                     socket->lost_at[1] == socket->kept.from;
    socket->fruitless = fruitless ? socket->fruitless + 1 : 0;
    socket->vain_since = fruitless ? socket->vain_since : 0;
    socket->away_since = 0;
    socket->lost_at[0] = socket->received;
    socket->lost_at[1] = socket->kept.from;
}

bool gyre_tcp_socket_part(struct gyre_tcp_socket *socket)
{
    drain(socket);
    if (socket->status)
        return false;
    gyre_tcp_socket_block(socket, false);
    if (gyre_tcp_socket_replays(socket))
        socket->pipe->wire->replays--;
    socket->sent = socket->kept.to;
    hang_up(socket);
    count_break(socket);
    count_away(socket, true);
    gyre_tcp_socket_mark(socket, GYRE_TCP_HARVEST);
    return true;
}

void gyre_tcp_socket_renew(struct gyre_tcp_socket *socket, int fd, uint32_t number,
                           uint64_t received)
{
    socket->fd = fd;
    socket->number = number;
    socket->broke = 0;
    socket->hangup = socket->finished = socket->shut = false;
    socket->acknowledged = socket->stuck_since = 0;
    turn_delay_off(fd);
    (void)look_at_ends(socket, fd);
    gyre_kept_forget(&socket->kept, received);
    socket->sent = received;
    socket->ask_at = ASK_BYTES;
    count_replay(socket, false);
    count_away(socket, false);
    socket->unmade = false;
    gyre_tcp_socket_mark(socket, GYRE_TCP_READ | GYRE_TCP_WRITE);
}

void gyre_tcp_socket_rest(struct gyre_tcp_socket *socket)
{
    gyre_kept_forget(&socket->kept, socket->kept.to);
    count_away(socket, false);
    socket->finished = true;
    stop_transmitting(socket);
}

static bool is_closed(const struct gyre_tcp_socket *socket)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    return !getsockopt(socket->fd, IPPROTO_TCP, TCP_INFO, &info, &length) &&
           info.tcpi_state == TCP_CLOSE;
}

bool gyre_tcp_socket_delivered(struct gyre_tcp_socket *socket)
{
    int queued;
    if (!socket->kept.ring)
        return true;
    if (socket->away || socket->fd < 0)
        return !socket->away;
    if (gyre_tcp_socket_replays(socket))
        return false;
    bool ended = is_closed(socket); /* looked at first: it may end with all acknowledged */
    if (!ioctl(socket->fd, SIOCOUTQ, &queued) && queued == 0)
        return true;
    return ended ? broken(socket, GYRE_PEER_LOST, ECONNRESET) : false;
}

/* -- progress ---------------------------------------------------------------------------------- */

#define FLUTTER (50 * GYRE_MS) /* of the kernel's clock of acknowledgements */

void gyre_tcp_socket_inspect(struct gyre_tcp_socket *socket, uint64_t now, uint64_t limit_ns)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    socket->pipe->wire->moved += socket->away; /* what waits for this connection stands not still */
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
        gyre_tcp_socket_wrote(socket, NULL, 0, sent);
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
    if (length > GYRE_STREAM_REST_MOST || !can_write(socket) || gyre_tcp_socket_replays(socket) ||
        !gyre_stream_leave_now(socket->stream, match, data, length, frame, frame + head))
        return false;
    if (gathered && !encrypts)
        gyre_copy(frame + head, data, length);
    ssize_t sent = transmit(socket->fd, iov, gathered ? 1 : 2);
    if (sent > 0)
        keep(socket, iov, gathered ? 1 : 2, (size_t)sent);
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
    socket->received += bytes;
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
        socket->status || socket->fd < 0 || !gyre_stream_awaits_frame(socket->stream))
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
