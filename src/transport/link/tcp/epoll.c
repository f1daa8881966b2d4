/* The epoll poller. It says which connections can move; the plain calls of socket.c move them.
 *
 * Every connection is registered once, edge-triggered, for everything, so the data path never calls
 * epoll_ctl. An edge is remembered as a due bit until a read or write comes up short, which re-arms
 * the edge. Plain calls made without asking leave an edge behind that is stale by the time it is
 * fetched; a stale edge costs one futile read.
 *
 *   edge ──▶ due bit ──▶ read until short ──▶ (kernel) next edge
 *
 * The epoll descriptor itself is the alarm: it is readable while edges are waiting, and arm()
 * fetches waiting edges before the caller sleeps on it.
 *
 * Tested by tests/link/tcp.c. */
#include "transport/link/tcp/inside.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_PER_LOOK 64

static int descriptor(const struct gyre_tcp_wire *wire)
{
    return (int)(intptr_t)wire->state;
}

static int epoll_open(struct gyre_tcp_wire *wire, uint32_t connections,
                      struct gyre_trouble *trouble)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return gyre_trouble_set(trouble, -errno, "tcp: epoll_create1 failed: %s; check ulimit -n",
                                strerror(errno));
    wire->state = (void *)(intptr_t)fd;
    return 0;
}

static void epoll_shut(struct gyre_tcp_wire *wire)
{
    close(descriptor(wire));
}

static int epoll_add(struct gyre_tcp_socket *socket, struct gyre_trouble *trouble)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = socket};
    if (epoll_ctl(descriptor(socket->pipe->wire), EPOLL_CTL_ADD, socket->fd, &event))
        return gyre_trouble_set(trouble, -errno,
                                "tcp: epoll does not take the connection to rank %u: %s",
                                socket->pipe->end.peer, strerror(errno));
    return 0;
}

static void epoll_settle(struct gyre_tcp_socket *socket)
{
}

static void epoll_remove(struct gyre_tcp_socket *socket)
{
    epoll_ctl(descriptor(socket->pipe->wire), EPOLL_CTL_DEL, socket->fd, NULL);
}

static void note_events(struct gyre_tcp_socket *socket, uint32_t events)
{
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        socket->hangup = true;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        gyre_tcp_socket_mark(socket, GYRE_TCP_READ);
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR) && socket->blocked) {
        gyre_tcp_socket_block(socket, false);
        gyre_tcp_socket_mark(socket, GYRE_TCP_WRITE);
    }
}

static void fetch_events(struct gyre_tcp_wire *wire)
{
    struct epoll_event events[EVENTS_PER_LOOK];
    int count = epoll_wait(descriptor(wire), events, EVENTS_PER_LOOK, 0);
    for (int i = 0; i < count; i++)
        note_events(events[i].data.ptr, events[i].events);
}

/* Fetches edges. The caller tries a few connections in use directly; the others can then wait some
 * rounds. */
static void epoll_look(struct gyre_tcp_wire *wire)
{
    bool few = wire->used && wire->used <= GYRE_TCP_PLAIN_MAX && !wire->stuck;
    if (!few || wire->polls % GYRE_TCP_LOOK_EVERY == 0)
        fetch_events(wire);
}

static int epoll_arm(struct gyre_tcp_wire *wire, int *fd)
{
    fetch_events(wire);
    *fd = descriptor(wire);
    return 0;
}

const struct gyre_tcp_poller gyre_tcp_epoll = {
    .name = "epoll",
    .open = epoll_open,
    .close = epoll_shut,
    .add = epoll_add,
    .settle = epoll_settle,
    .remove = epoll_remove,
    .look = epoll_look,
    .arm = epoll_arm,
};
