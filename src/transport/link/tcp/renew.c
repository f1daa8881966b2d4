/* Connections that broke and are made anew, and connections that are made at their first use.
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
 * Tested by tests/unit/transport/link/tcp/renew_test.c and tests/link/tcp.c. */
#include "transport/link/tcp/inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/stream/frame.h"

#include <errno.h>
#include <inttypes.h>

#define FRUITLESS_MOST 100u               /* breaks in a row without a byte between them */
#define UNRENEWED      (10 * GYRE_SECOND) /* the limit where there is no dead time */

/* Whether the peer may live although the connection broke. The kernel's ETIMEDOUT is no reset: the
 * path has carried nothing for long. */
static bool may_be_renewed(const struct gyre_tcp_socket *socket)
{
    return socket->kept.ring && socket->status == GYRE_PEER_LOST &&
           (socket->broke == 0 || gyre_tcp_is_break(socket->broke));
}

void gyre_tcp_part_or_fail(struct gyre_tcp_socket *socket)
{
    const struct gyre_tcp_poller *poller = socket->pipe->wire->poller;
    bool renewed = may_be_renewed(socket);
    if (renewed) {
        poller->settle(socket);
        poller->remove(socket);
        renewed = gyre_tcp_socket_part(socket);
    }
    if (!renewed)
        gyre_tcp_pipe_fail(socket->pipe, socket);
}

static struct gyre_tcp_socket *renewable_socket(struct gyre_pipe *end, int index)
{
    struct gyre_tcp_pipe *pipe = (struct gyre_tcp_pipe *)end;
    if (end->status || index < 0 || index >= pipe->sockets)
        return NULL;
    struct gyre_tcp_socket *socket = &pipe->socket[index];
    return socket->kept.ring || socket->unmade ? socket : NULL;
}

bool gyre_tcp_broken(struct gyre_wire *handle, struct gyre_break *lost)
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

int gyre_tcp_part(struct gyre_pipe *end, int index, uint32_t newer, uint64_t *received)
{
    struct gyre_tcp_socket *socket = renewable_socket(end, index);
    if (!socket)
        return end->status ? end->status : GYRE_INVALID;
    if (socket->number >= newer || (socket->fd < 0 && !socket->away))
        return -EALREADY;
    if (!socket->away) {
        socket->status = socket->status ? socket->status : GYRE_PEER_LOST;
        gyre_tcp_part_or_fail(socket);
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
    gyre_tcp_pipe_close(pipe);
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

int gyre_tcp_renew(struct gyre_pipe *end, int index, int fd, uint32_t number, uint64_t received)
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
        gyre_tcp_pipe_close(socket->pipe);
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

bool gyre_tcp_gone(struct gyre_pipe *end, int index, bool told)
{
    struct gyre_tcp_socket *socket = renewable_socket(end, index);
    if (socket && socket->unmade) {
        gyre_tcp_pipe_close(socket->pipe);
        gyre_end_leave(end, told);
        return true;
    }
    if (!socket || !socket->away || !gyre_stream_heard_bye(socket->stream))
        return false;
    gyre_tcp_socket_rest(socket);
    return true;
}

bool gyre_tcp_mend(struct gyre_wire *handle)
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

void gyre_tcp_give_up_overdue(struct gyre_tcp_wire *wire, uint64_t now)
{
    const uint64_t limit = wire->dead_ns ? wire->dead_ns : UNRENEWED;
    struct gyre_tcp_pipe *pipe;
    LIST_FOREACH(pipe, &wire->pipes, in_wire)
    for (int i = 0; i < pipe->sockets && !pipe->end.status; i++) {
        struct gyre_tcp_socket *socket = &pipe->socket[i];
        if (socket->away && !socket->unmade && is_overdue(socket, now, limit)) {
            socket->status = GYRE_PEER_LOST;
            gyre_tcp_pipe_fail(pipe, socket);
        }
    }
}
