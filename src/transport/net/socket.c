/* The socket calls of join, each with the options that it needs.
 *
 * Every descriptor is non-blocking and close-on-exec from birth. Ports of a range are tried in
 * order, from a start that differs between processes, so that many ranks of one machine do not all
 * collide at the first port.
 *
 * A path inside one machine has no bottleneck to find. A congestion control that paces all the same
 * (BBR, where it is the system's default) pays a timer for every few segments. Reno never paces,
 * and every kernel has it. A connection that began with a pacing control is paced for ever,
 * whatever is set later. So a connection to this machine gets Reno before it connects. A listener
 * cannot know where connections come from: it has Reno too, and a connection from another machine
 * gets the system's control when it is accepted.
 *
 * An outage of the network that is shorter than the dead time is no failure. The kernel's pauses
 * between retransmissions double, 0.2 s, 0.4, 0.8 …, so a network that comes back after 7 s would
 * hear nothing before 12.6 s. TCP_RTO_MAX_MS bounds the pauses by a tenth of the dead time, from
 * Linux 6.15 on. On older kernels an outage of up to 6 s of 10 is outlived.
 *
 * TCP_USER_TIMEOUT may count from a loss long ago: a network that goes down for 2.5 s and up for
 * 2 s over and over ended connections whose peer had been heard a second before. So the kernel's
 * limit is twice the dead time, and half an hour where the owner measures for itself: the watch
 * measures silence, the tcp driver acknowledgements. Keepalive's probes obey the same limit.
 *
 * A link of 1 Mbit/s whose queue holds 200 KB of data delays a beat behind them by 1.7 s. Linux
 * sends a socket of priority 6 first, in the queues that have bands (pfifo_fast, fq, prio).
 * Switches and routers look at the traffic class of each packet: CS6, network control. */
#include "transport/net/socket.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif

#define HELD_MS (30 * 60 * 1000)

#define NETWORK_CONTROL 0xc0 /* CS6 of RFC 4594 */
#define INTERACTIVE     6    /* TC_PRIO_INTERACTIVE; the highest without a privilege */

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static void forgo_pacing(int fd)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

/* Sets the congestion control with which a new socket begins. */
static void take_the_systems_control(int fd, int family)
{
    char name[16];
    socklen_t length = sizeof name;
    int untold = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (untold < 0)
        return;
    if (!getsockopt(untold, IPPROTO_TCP, TCP_CONGESTION, name, &length))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, length);
    close(untold);
}

static bool is_near(const struct sockaddr_storage *here, const struct sockaddr_storage *there)
{
    return gyre_address_is_loopback(there) || gyre_address_same_host(here, there);
}

static bool comes_from_here(int fd, const struct sockaddr_storage *from)
{
    struct sockaddr_storage here;
    socklen_t length = sizeof here;
    if (getsockname(fd, (struct sockaddr *)&here, &length))
        return false;
    gyre_address_normalise(&here);
    return is_near(&here, from);
}

static int listen_at(struct sockaddr_storage *address, uint16_t port, int backlog)
{
    socklen_t length = sizeof *address;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    forgo_pacing(fd);
    if (address->ss_family == AF_INET6)
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, !gyre_address_is_any(address));
    gyre_address_set_port(address, port);
    if (!bind(fd, (struct sockaddr *)address, gyre_address_length(address)) &&
        !listen(fd, backlog) && !getsockname(fd, (struct sockaddr *)address, &length))
        return fd;
    int status = -errno;
    close(fd);
    return status;
}

int gyre_socket_listen(struct sockaddr_storage *address, uint16_t low, uint16_t high, int backlog)
{
    uint16_t port = gyre_address_port(address);
    if (port || !high)
        return listen_at(address, port, backlog);

    uint32_t span = (uint32_t)high - low + 1, start = (uint32_t)getpid() % span;
    int status = -EADDRINUSE;
    for (uint32_t i = 0; i < span && status == -EADDRINUSE; i++)
        status = listen_at(address, (uint16_t)(low + (start + i) % span), backlog);
    return status;
}

int gyre_socket_accept(int listener, struct sockaddr_storage *from)
{
    socklen_t length = sizeof *from;
    int fd = accept4(listener, (struct sockaddr *)from, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    int family = from->ss_family;
    gyre_address_normalise(from);
    if (!comes_from_here(fd, from))
        take_the_systems_control(fd, family);
    return fd;
}

int gyre_socket_connect(const struct sockaddr_storage *to, const struct sockaddr_storage *source)
{
    int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (source ? is_near(source, to) : gyre_address_is_loopback(to))
        forgo_pacing(fd);
    if (source && source->ss_family == to->ss_family) {
        struct sockaddr_storage any_port = *source;
        gyre_address_set_port(&any_port, 0);
        set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        if (bind(fd, (struct sockaddr *)&any_port, gyre_address_length(&any_port)))
            goto fail;
    }
    if (!connect(fd, (const struct sockaddr *)to, gyre_address_length(to)) || errno == EINPROGRESS)
        return fd;
fail:;
    int status = -errno;
    close(fd);
    return status;
}

int gyre_socket_connect_peer(const struct sockaddr_storage *to, const struct sockaddr_storage *own)
{
    struct sockaddr_storage there = *to;
    bool near = gyre_address_is_loopback(to) || gyre_address_is_loopback(own);
    gyre_address_take_scope(&there, own);
    return gyre_socket_connect(&there, near ? NULL : own);
}

static bool met_itself(int fd)
{
    struct sockaddr_storage mine, theirs;
    socklen_t length_mine = sizeof mine, length_theirs = sizeof theirs;
    return !getsockname(fd, (struct sockaddr *)&mine, &length_mine) &&
           !getpeername(fd, (struct sockaddr *)&theirs, &length_theirs) &&
           gyre_address_same_host(&mine, &theirs) &&
           gyre_address_port(&mine) == gyre_address_port(&theirs);
}

int gyre_socket_connected(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
        return -errno;
    if (error)
        return -error;
    return met_itself(fd) ? -ECONNREFUSED : 0;
}

static int limit(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

void gyre_socket_tune(int fd, int dead_time_ms)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (dead_time_ms <= 0)
        return;
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, limit(dead_time_ms / 2000, 1, 32767));
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, limit(dead_time_ms / 6000, 1, 32767));
    set(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, limit(dead_time_ms / 10, 1000, 120000));
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 2 * limit(dead_time_ms, 1, INT_MAX / 2));
}

void gyre_socket_hold(int fd, int dead_time_ms)
{
    if (dead_time_ms > 0)
        set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
            limit(2 * limit(dead_time_ms, 1, INT_MAX / 2), HELD_MS, INT_MAX));
}

void gyre_socket_names(int fd, char mine[GYRE_ADDRESS_TEXT], char theirs[GYRE_ADDRESS_TEXT])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    mine[0] = theirs[0] = '?';
    mine[1] = theirs[1] = '\0';
    if (!getsockname(fd, (struct sockaddr *)&address, &length))
        gyre_address_format(&address, mine);
    length = sizeof address;
    if (!getpeername(fd, (struct sockaddr *)&address, &length))
        gyre_address_format(&address, theirs);
}

/* The traffic class of IPv4 sets a priority too, so the priority comes last. */
void gyre_socket_expedite(int fd)
{
    set(fd, IPPROTO_IP, IP_TOS, NETWORK_CONTROL);
    set(fd, IPPROTO_IPV6, IPV6_TCLASS, NETWORK_CONTROL);
    set(fd, SOL_SOCKET, SO_PRIORITY, INTERACTIVE);
}

int gyre_socket_move(int fd, short direction, void *bytes, size_t length, uint64_t deadline_ns)
{
    char *at = bytes;
    while (length) {
        struct pollfd poll_fd = {.fd = fd, .events = direction};
        uint64_t now = gyre_now_ns();
        if (now >= deadline_ns || poll(&poll_fd, 1, (int)((deadline_ns - now) / GYRE_MS) + 1) == 0)
            return GYRE_TIMED_OUT;
        ssize_t count = direction == POLLIN ? recv(fd, at, length, MSG_DONTWAIT)
                                            : send(fd, at, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
            return GYRE_PEER_LOST;
        at += count > 0 ? count : 0;
        length -= (size_t)(count > 0 ? count : 0);
    }
    return 0;
}

void gyre_socket_drop(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}
