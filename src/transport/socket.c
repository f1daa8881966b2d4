/* The few socket calls that join makes, each with the options it must not be forgotten with.
 *
 * Every descriptor is non-blocking and close-on-exec from birth. Ports from a range are tried in
 * order, from a start that differs between processes, so that many ranks of one machine do not all
 * collide at its first port. */
#include "transport/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static int listen_at(struct sockaddr_storage *address, uint16_t port, int backlog)
{
    socklen_t length = sizeof *address;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
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
    gyre_address_normalise(from);
    return fd;
}

int gyre_socket_connect(const struct sockaddr_storage *to, const struct sockaddr_storage *source)
{
    int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
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

static int at_least(int value, int least)
{
    return value < least ? least : value;
}

void gyre_socket_tune(int fd, int dead_time_ms)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (dead_time_ms <= 0)
        return;
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, at_least(dead_time_ms / 2000, 1));
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, at_least(dead_time_ms / 6000, 1));
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, dead_time_ms);
}

void gyre_socket_drop(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}
