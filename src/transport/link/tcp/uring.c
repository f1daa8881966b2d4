/* The io_uring poller: moves bytes itself for many connections and for bulk; its descriptor is what
 * the caller sleeps on.
 *
 * An operation in the ring is a *flight*: at most one per connection and direction, owned by the
 * ring from carry() until it lands. While a flight is out, its memory (the stream's vectors, the
 * messages here) stays in place and no plain call touches that direction.
 *
 *     carry ─▶ SQE ─┐                                     ┌─▶ wrote() / came(), due again
 *     carry ─▶ SQE ─┼─ launch: one io_uring_enter ─▶ CQE ─┤
 *     carry ─▶ SQE ─┘                                     └─▶ (cancelled: nothing moved, due again)
 *
 * These operations fly:
 *   - the reads of many connections in use: one system call starts them all, and landings are seen
 *     in memory;
 *   - a write that met a full buffer (MSG_WAITALL), so bulk leaves while the caller reduces;
 *   - before sleeping, and now and then while spinning, every idle connection's read: the ring's
 *     descriptor is the alarm.
 *
 * All other bytes move by plain calls: tcp.c says when, and what was measured. Zero-copy sends are
 * left out: loopback copies anyway, so their gain can only be measured between machines with real
 * network cards.
 *
 * Threads. Flights belong to the thread that launched them: the kernel finishes them there, and
 * cancels them when that thread ends. Gyre's owner changes threads. So ring flags that bind the
 * ring to one thread (SINGLE_ISSUER, DEFER_TASKRUN) or let a computing thread sit on its finished
 * work (COOP_TASKRUN) are not used, and a flight that the kernel cancelled by itself starts again.
 *
 * Where io_uring_enter() fails, the operations that the kernel has not taken are taken back: plain
 * calls move their bytes, and the caller polls instead of sleeping.
 *
 * Tested by tests/link/tcp.c, tests/program/failures/uring_refused.c and calls.c. */
#include "transport/link/tcp/inside.h"
#include "transport/link/tcp/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SUBMISSIONS 256
#define REFUSALS    100         /* of a cancellation, before its connection is given up */
#define OUTWARD     UINT64_C(1) /* in user_data, beside the connection's address: the direction */
#define NOBODY      UINT64_C(0) /* user_data of a cancellation, whose own result says nothing */

struct flight {
    struct msghdr out, in;
    struct iovec out_iov[GYRE_TCP_VECTORS], in_iov[2];
};

struct poller {
    struct io_uring ring;
    bool crowded; /* at the last look */
};

static struct io_uring *ring_of(const struct gyre_tcp_wire *wire)
{
    return &((struct poller *)wire->state)->ring;
}

/* -- open and close ---------------------------------------------------------------------------- */

static int disabled_by_sysctl(void)
{
    int value = 0;
    FILE *file = fopen("/proc/sys/kernel/io_uring_disabled", "re");
    if (file && fscanf(file, "%d", &value) != 1)
        value = 0;
    if (file)
        fclose(file);
    return value;
}

static const char *likely_cause(int error)
{
    if (error == EPERM && disabled_by_sysctl())
        return "sysctl kernel.io_uring_disabled forbids it";
    if (error == EPERM)
        return "a container's seccomp profile or a security module forbids it";
    if (error == ENOSYS)
        return "the kernel is without it, too old (5.7), or a seccomp profile hides it";
    if (error == ENOMEM)
        return "memory or the limit of locked memory (ulimit -l) is too small";
    if (error == EMFILE || error == ENFILE)
        return "no descriptor is free (ulimit -n)";
    return "unexpected here";
}

static int set_up_ring(struct io_uring *ring, uint32_t connections)
{
    const unsigned wanted = connections < 64 ? 256 : connections < 4096 ? 4 * connections : 16384;
    struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |
                                              IORING_SETUP_SUBMIT_ALL,
                                     .cq_entries = wanted + SUBMISSIONS};
    int status = io_uring_queue_init_params(SUBMISSIONS, ring, &params);
    if (status == -EINVAL) { /* SUBMIT_ALL came with Linux 5.18 */
        params = (struct io_uring_params){.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
                                          .cq_entries = wanted + SUBMISSIONS};
        status = io_uring_queue_init_params(SUBMISSIONS, ring, &params);
    }
    if (status)
        return status;
    if (params.features & IORING_FEAT_FAST_POLL && params.features & IORING_FEAT_NODROP)
        return 0;
    io_uring_queue_exit(ring);
    return -ENOSYS;
}

static int uring_refused(int status, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, status, "io_uring is refused with %s (%s)",
                            strerrorname_np(-status), likely_cause(-status));
}

static int uring_open(struct gyre_tcp_wire *wire, uint32_t connections,
                      struct gyre_trouble *trouble)
{
    struct poller *poller = calloc(1, sizeof *poller);
    int status = poller ? set_up_ring(&poller->ring, connections) : -ENOMEM;
    if (status) {
        free(poller);
        return uring_refused(status, trouble);
    }
    wire->state = poller;
    return 0;
}

int gyre_tcp_uring_try(struct gyre_trouble *trouble)
{
    struct io_uring ring;
    int status = set_up_ring(&ring, 1);
    if (status)
        return uring_refused(status, trouble);
    io_uring_queue_exit(&ring);
    return 0;
}

static void uring_close(struct gyre_tcp_wire *wire)
{
    io_uring_queue_exit(ring_of(wire));
    free(wire->state);
}

/* -- landing ----------------------------------------------------------------------------------- */

static void land(uint64_t name, int result)
{
    struct gyre_tcp_socket *socket = (struct gyre_tcp_socket *)(uintptr_t)(name & ~OUTWARD);
    if (!socket)
        return;
    if (name & OUTWARD) {
        socket->flying_out = false;
        const struct msghdr *out = &((struct flight *)socket->flight)->out;
        gyre_tcp_socket_wrote(socket, out->msg_iov, (int)out->msg_iovlen, result);
        gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE | GYRE_TCP_HARVEST);
    } else {
        socket->flying_in = false;
        gyre_tcp_socket_came(socket, result);
        gyre_tcp_socket_mark(socket, GYRE_TCP_READ | GYRE_TCP_HARVEST);
    }
}

static bool land_next(struct io_uring *ring)
{
    struct io_uring_cqe *cqe;
    if (io_uring_peek_cqe(ring, &cqe))
        return false;
    const uint64_t name = cqe->user_data;
    const int result = cqe->res;
    io_uring_cqe_seen(ring, cqe);
    land(name, result);
    return true;
}

/* Takes back the operations that the kernel has not taken. They end like flights that the kernel
 * has cancelled: they start again, or plain calls move their bytes. */
static void reclaim_flights(struct io_uring *ring)
{
    const struct io_uring_sq *queue = &ring->sq;
    for (unsigned left = io_uring_sq_ready(ring); left; left--) {
        struct io_uring_sqe *sqe = &queue->sqes[(queue->sqe_tail - left) & queue->ring_mask];
        const uint64_t name = sqe->user_data;
        io_uring_prep_nop(sqe);
        io_uring_sqe_set_data64(sqe, NOBODY);
        land(name, -ECANCELED);
    }
}

/* -- starting ---------------------------------------------------------------------------------- */

static struct io_uring_sqe *next_sqe(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    if (sqe)
        return sqe;
    io_uring_submit(ring);
    return io_uring_get_sqe(ring);
}

static bool start_write(struct gyre_tcp_socket *socket)
{
    struct flight *flight = socket->flight;
    int count = gyre_tcp_socket_gather(socket, flight->out_iov, GYRE_TCP_VECTORS);
    struct io_uring_sqe *sqe = count ? next_sqe(ring_of(socket->pipe->wire)) : NULL;
    if (!sqe)
        return count == 0;
    flight->out = (struct msghdr){.msg_iov = flight->out_iov, .msg_iovlen = (size_t)count};
    io_uring_prep_sendmsg(sqe, socket->fd, &flight->out, MSG_NOSIGNAL | MSG_WAITALL);
    io_uring_sqe_set_data64(sqe, (uintptr_t)socket | OUTWARD);
    socket->flying_out = true;
    gyre_tcp_socket_block(socket, false);
    return true;
}

static bool start_read(struct gyre_tcp_socket *socket)
{
    struct flight *flight = socket->flight;
    struct io_uring_sqe *sqe = next_sqe(ring_of(socket->pipe->wire));
    if (!sqe)
        return false;
    int count = gyre_stream_target(socket->stream, flight->in_iov);
    flight->in = (struct msghdr){.msg_iov = flight->in_iov, .msg_iovlen = (size_t)count};
    io_uring_prep_recvmsg(sqe, socket->fd, &flight->in, 0);
    io_uring_sqe_set_data64(sqe, (uintptr_t)socket);
    socket->flying_in = true;
    return true;
}

static bool wants_read(const struct gyre_tcp_socket *socket)
{
    return socket->fd >= 0 && !socket->flying_in && !socket->finished && !socket->status;
}

static void uring_carry(struct gyre_tcp_socket *socket)
{
    if (socket->blocked && !socket->flying_out && !start_write(socket))
        gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE);
    if (gyre_tcp_is_crowded(socket->pipe->wire) && wants_read(socket) && !start_read(socket))
        gyre_tcp_socket_mark(socket, GYRE_TCP_READ);
}

static void uring_launch(struct gyre_tcp_wire *wire)
{
    struct io_uring *ring = ring_of(wire);
    if (io_uring_sq_ready(ring) && io_uring_submit(ring) < 0)
        reclaim_flights(ring);
}

/* Starts the reads of all connections, or only of those without a post. False: not all could be
 * started. */
static bool listen_to_sockets(struct gyre_tcp_wire *wire, bool idle_only)
{
    struct gyre_tcp_pipe *pipe;
    LIST_FOREACH(pipe, &wire->pipes, in_wire)
    for (int i = 0; i < pipe->sockets; i++) {
        struct gyre_tcp_socket *socket = &pipe->socket[i];
        bool skip = idle_only && socket->posts;
        if (!skip && wants_read(socket) && !start_read(socket))
            return false;
    }
    return true;
}

static void uring_look(struct gyre_tcp_wire *wire)
{
    struct poller *poller = wire->state;
    bool crowded = gyre_tcp_is_crowded(wire), grew = crowded && !poller->crowded;
    poller->crowded = crowded;
    while (land_next(&poller->ring))
        continue;
    if (grew || wire->polls % GYRE_TCP_LOOK_EVERY == 0)
        listen_to_sockets(wire, !crowded);
}

static int uring_arm(struct gyre_tcp_wire *wire, int *fd)
{
    struct io_uring *ring = ring_of(wire);
    bool all = listen_to_sockets(wire, false);
    uring_launch(wire);
    while (land_next(ring))
        continue;
    *fd = ring->ring_fd;
    return all && !io_uring_sq_ready(ring) ? 0 : GYRE_AGAIN;
}

/* -- connections ------------------------------------------------------------------------------- */

static int uring_add(struct gyre_tcp_socket *socket, struct gyre_trouble *trouble)
{
    int flags = fcntl(socket->fd, F_GETFL);
    socket->flight = calloc(1, sizeof(struct flight));
    if (!socket->flight)
        return gyre_trouble_set(trouble, -ENOMEM, "tcp: no memory for the connection to rank %u",
                                socket->pipe->end.peer);
    fcntl(socket->fd, F_SETFL, flags & ~O_NONBLOCK);
    return 0;
}

static void call_back(struct io_uring *ring, uint64_t name)
{
    struct io_uring_sqe *sqe = next_sqe(ring);
    if (!sqe)
        return;
    io_uring_prep_cancel64(sqe, name, 0);
    io_uring_sqe_set_data64(sqe, NOBODY);
}

/* Cancels a connection's flights. A flight only waits for readiness, so its cancellation lands at
 * once; cancelling twice does no harm. Where the kernel takes no cancellation the connection ends,
 * and its flights with it. */
static void uring_settle(struct gyre_tcp_socket *socket)
{
    struct io_uring *ring = ring_of(socket->pipe->wire);
    int refused = 0;
    reclaim_flights(ring);
    while (socket->flying_out || socket->flying_in) {
        if (socket->flying_out)
            call_back(ring, (uintptr_t)socket | OUTWARD);
        if (socket->flying_in)
            call_back(ring, (uintptr_t)socket);
        int status = io_uring_submit_and_wait(ring, 1);
        refused += status < 0 && status != -EINTR;
        if (refused > REFUSALS)
            shutdown(socket->fd, SHUT_RDWR);
        while (land_next(ring))
            continue;
    }
}

static void uring_remove(struct gyre_tcp_socket *socket)
{
    uring_settle(socket);
    free(socket->flight);
    socket->flight = NULL;
}

static const struct gyre_tcp_poller uring = {
    .name = "io_uring",
    .open = uring_open,
    .close = uring_close,
    .add = uring_add,
    .settle = uring_settle,
    .remove = uring_remove,
    .look = uring_look,
    .carry = uring_carry,
    .launch = uring_launch,
    .arm = uring_arm,
};

const struct gyre_tcp_poller *const gyre_tcp_uring = &uring;
