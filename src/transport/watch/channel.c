/* Messages over sockets.
 *
 * A packet socket (inside a node) keeps message boundaries and carries descriptors. A stream
 * (control connections) is cut into messages by their length. A channel keeps, in order, what its
 * socket has not taken. The failure detector composes messages only for channels that keep nothing,
 * so a channel keeps at most one of these, plus shares and their replies.
 *
 * Tested by tests/program/failures/watch.c. */
#include "transport/watch/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <gyre/gyre.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct gyre_watch_packet {
    struct gyre_watch_packet *next;
    size_t length, sent;
    int pass;
    uint8_t bytes[];
};

int gyre_watch_channel_init(struct gyre_watch_channel *channel, int fd)
{
    int type;
    socklen_t size = sizeof type;

    memset(channel, 0, sizeof *channel);
    channel->fd = fd;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
        return -errno;
    channel->stream = type == SOCK_STREAM;
    if (!channel->stream)
        return 0;
    channel->in = malloc(GYRE_WATCH_MESSAGE_MAX);
    return channel->in != NULL ? 0 : -ENOMEM;
}

static void drop_packet(struct gyre_watch_channel *channel)
{
    struct gyre_watch_packet *packet = channel->first;

    channel->first = packet->next;
    if (packet->pass >= 0)
        close(packet->pass);
    free(packet);
}

void gyre_watch_channel_deinit(struct gyre_watch_channel *channel)
{
    while (channel->first != NULL)
        drop_packet(channel);
    free(channel->in);
    memset(channel, 0, sizeof *channel);
    channel->fd = -1;
}

/* -- out --------------------------------------------------------------------------------------- */

static void attach_descriptor(struct msghdr *header, char *control, size_t size, int pass)
{
    header->msg_control = control;
    header->msg_controllen = size;
    struct cmsghdr *part = CMSG_FIRSTHDR(header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof pass);
    memcpy(CMSG_DATA(part), &pass, sizeof pass);
}

/* Bytes that the socket took, 0 if it has no room, -errno. */
static ssize_t try_send(const struct gyre_watch_channel *channel, const uint8_t *bytes,
                        size_t length, int pass)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)bytes, length};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (pass >= 0)
        attach_descriptor(&header, control, sizeof control, pass);
    do
        sent = sendmsg(channel->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    bool full = errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS;
    return full ? 0 : -errno;
}

static int keep_unsent(struct gyre_watch_channel *channel, const uint8_t *bytes, size_t length,
                       size_t sent, int pass)
{
    struct gyre_watch_packet *packet = malloc(sizeof *packet + length);

    if (packet == NULL)
        return -ENOMEM;
    *packet = (struct gyre_watch_packet){.length = length, .sent = sent, .pass = -1};
    if (pass >= 0 && (packet->pass = fcntl(pass, F_DUPFD_CLOEXEC, 0)) < 0) {
        int status = -errno;
        free(packet);
        return status;
    }
    memcpy(packet->bytes, bytes, length);
    if (channel->first == NULL)
        channel->first = packet;
    else
        channel->last->next = packet;
    channel->last = packet;
    return 0;
}

int gyre_watch_channel_send(struct gyre_watch_channel *channel, const uint8_t *message,
                            size_t length, int pass)
{
    ssize_t sent = 0;

    if (channel->first == NULL)
        sent = try_send(channel, message, length, pass);
    if (sent < 0)
        return (int)sent;
    return (size_t)sent == length ? 0 : keep_unsent(channel, message, length, (size_t)sent, pass);
}

int gyre_watch_channel_flush(struct gyre_watch_channel *channel)
{
    while (channel->first != NULL) {
        struct gyre_watch_packet *packet = channel->first;
        ssize_t sent = try_send(channel, packet->bytes + packet->sent,
                                packet->length - packet->sent, packet->pass);

        if (sent < 0)
            return (int)sent;
        packet->sent += (size_t)sent;
        if (packet->sent < packet->length)
            return 0;
        drop_packet(channel);
    }
    return 0;
}

bool gyre_watch_channel_waits(const struct gyre_watch_channel *channel)
{
    return channel->first != NULL;
}

/* -- in ---------------------------------------------------------------------------------------- */

/* Takes the first descriptor that came along and closes any other. */
static int take_descriptor(struct msghdr *header)
{
    int taken = -1;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL;
         part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (taken < 0)
                taken = fd;
            else
                close(fd);
        }
    }
    return taken;
}

static int receive_packet(struct gyre_watch_channel *channel, uint8_t *buffer,
                          struct gyre_watch_message *message, int *passed)
{
    char control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec part = {buffer, GYRE_WATCH_MESSAGE_MAX};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control};
    ssize_t length = recvmsg(channel->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (length < 0 && errno == ECONNRESET) /* told once; its last packets are behind that */
        length = recvmsg(channel->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? GYRE_AGAIN : -errno;
    if (length == 0)
        return -EPIPE;
    *passed = take_descriptor(&header);
    int status = gyre_watch_decode(buffer, (size_t)length, message);
    if (status != 0 && *passed >= 0) {
        close(*passed);
        *passed = -1;
    }
    return status;
}

/* Reads on until `in` holds `want` bytes. */
static int fill_buffer(struct gyre_watch_channel *channel, size_t want)
{
    while (channel->have < want) {
        ssize_t got =
            recv(channel->fd, channel->in + channel->have, want - channel->have, MSG_DONTWAIT);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR ? GYRE_AGAIN : -errno;
        if (got == 0)
            return -EPIPE;
        channel->have += (size_t)got;
    }
    return 0;
}

static int receive_stream(struct gyre_watch_channel *channel, struct gyre_watch_message *message)
{
    int status = fill_buffer(channel, GYRE_WATCH_HEADER_BYTES);

    if (status != 0)
        return status;
    size_t length = gyre_watch_length(channel->in);
    if (length == 0)
        return GYRE_CORRUPT;
    status = fill_buffer(channel, length);
    if (status != 0)
        return status;
    channel->have = 0;
    return gyre_watch_decode(channel->in, length, message);
}

int gyre_watch_channel_receive(struct gyre_watch_channel *channel, uint8_t *buffer,
                               struct gyre_watch_message *message, int *passed)
{
    *passed = -1;
    return channel->stream ? receive_stream(channel, message)
                           : receive_packet(channel, buffer, message, passed);
}
