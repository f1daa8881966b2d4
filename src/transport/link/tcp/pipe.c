/* The connections of a pipe together: how they close, and how the pipe fails.
 *
 * Death. A connection that breaks fails its pipe: every connection of the pipe is closed (a second
 * descriptor keeps it up where the peer is to hear the reason first), every post completes with the
 * status, and state() tells the story with both addresses. Other pipes do not notice.
 *
 * Tested by tests/link/tcp.c and tests/unit/transport/link/tcp. */
#include "transport/link/tcp/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void close_socket(struct gyre_tcp_socket *socket)
{
    if (socket->fd >= 0)
        socket->pipe->wire->poller->remove(socket);
    if (socket->fd >= 0 || socket->away)
        gyre_tcp_socket_close(socket);
}

void gyre_tcp_pipe_close(struct gyre_tcp_pipe *pipe)
{
    for (int i = 0; i < pipe->sockets; i++)
        close_socket(&pipe->socket[i]);
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

void gyre_tcp_pipe_fail(struct gyre_tcp_pipe *pipe, const struct gyre_tcp_socket *socket)
{
    if (pipe->end.status)
        return;
    tell_pipe_failure(pipe, socket);
    if (socket->status != GYRE_PEER_LOST || socket->broke == ETIMEDOUT)
        keep_open(pipe);
    gyre_tcp_pipe_close(pipe);
    gyre_end_fail(&pipe->end, socket->status);
}
