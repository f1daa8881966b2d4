/* Messages over sockets.
 *
 * A packet socket (inside a node) keeps message boundaries and carries descriptors. A stream
 * (control connections) is cut into messages by their length. A channel keeps, in order, what its
 * socket has not taken. The failure detector composes messages only for channels that keep nothing,
 * so a channel keeps at most one of these, plus shares and their replies.
 *
 * Tested by tests/unit/transport/watch/channel_test.c. */
#include "transport/watch/channel.h"

#include "transport/net/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <gyre/gyre.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLEAR_BYTES 4u /* of a sealed message: its length */

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
    channel->in = malloc(GYRE_WATCH_MESSAGE_MAX + GYRE_SEAL_TAG_BYTES);
    return channel->in != NULL ? 0 : -ENOMEM;
}

int gyre_watch_channel_seal(struct gyre_watch_channel *channel, enum gyre_seal_mode mode,
                            const struct gyre_traffic_keys *keys)
{
    if (!channel->stream || mode == GYRE_SEAL_NONE)
        return 0;
    int status = gyre_seal_create(mode, false, keys->out, &channel->seal_out);
    return status ? status : gyre_seal_create(mode, true, keys->in, &channel->seal_in);
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
    gyre_seal_destroy(channel->seal_out);
    gyre_seal_destroy(channel->seal_in);
    memset(channel, 0, sizeof *channel);
    channel->fd = -1;
}

/* -- out --------------------------------------------------------------------------------------- */

/* Sends bytes. Returns how many the socket took, 0 if it has no room, -errno. */
static ssize_t try_send(const struct gyre_watch_channel *channel, const uint8_t *bytes,
                        size_t length, int pass)
{
    ssize_t sent;

    do
        sent = gyre_descriptors_send(channel->fd, bytes, length, &pass, pass >= 0, MSG_DONTWAIT);
    while (sent == -EINTR);
    bool full = sent == -EAGAIN || sent == -ENOBUFS || sent == -ETOOMANYREFS;
    return full ? 0 : sent;
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

static int send_bytes_in_order(struct gyre_watch_channel *channel, const uint8_t *message,
                               size_t length, int pass)
{
    ssize_t sent = 0;

    if (channel->first == NULL)
        sent = try_send(channel, message, length, pass);
    if (sent < 0)
        return (int)sent;
    return (size_t)sent == length ? 0 : keep_unsent(channel, message, length, (size_t)sent, pass);
}

int gyre_watch_channel_send(struct gyre_watch_channel *channel, const uint8_t *message,
                            size_t length, int pass)
{
    uint8_t sealed[GYRE_WATCH_MESSAGE_MAX + GYRE_SEAL_TAG_BYTES];

    if (channel->seal_out == NULL)
        return send_bytes_in_order(channel, message, length, pass);
    if (gyre_seal_spent(channel->seal_out))
        return -EOVERFLOW;
    memcpy(sealed, message, CLEAR_BYTES);
    gyre_seal_begin(channel->seal_out, message, CLEAR_BYTES);
    gyre_seal_take(channel->seal_out, message + CLEAR_BYTES, sealed + CLEAR_BYTES,
                   length - CLEAR_BYTES);
    gyre_seal_tag(channel->seal_out, sealed + length);
    return send_bytes_in_order(channel, sealed, length + GYRE_SEAL_TAG_BYTES, pass);
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

static int receive_packet(struct gyre_watch_channel *channel, uint8_t *buffer,
                          struct gyre_watch_message *message, int *passed)
{
    ssize_t length = gyre_descriptors_receive(channel->fd, buffer, GYRE_WATCH_MESSAGE_MAX, passed,
                                              1, MSG_DONTWAIT);

    if (length == -ECONNRESET) /* told once; the peer's last packets are behind it */
        length = gyre_descriptors_receive(channel->fd, buffer, GYRE_WATCH_MESSAGE_MAX, passed, 1,
                                          MSG_DONTWAIT);
    if (length < 0)
        return length == -EAGAIN || length == -EINTR ? GYRE_AGAIN
               : length == -EMSGSIZE                 ? GYRE_CORRUPT
                                                     : (int)length;
    if (length == 0)
        return -EPIPE;
    int status = gyre_watch_decode(buffer, (size_t)length, message);
    if (status != 0)
        gyre_descriptors_close(passed, 1);
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

/* Takes the message of `in` out of its seal. */
static int open_seal(struct gyre_watch_channel *channel, size_t length)
{
    uint8_t *text = channel->in + CLEAR_BYTES;

    if (channel->seal_in == NULL)
        return 0;
    gyre_seal_begin(channel->seal_in, channel->in, CLEAR_BYTES);
    gyre_seal_take(channel->seal_in, text, text, length - CLEAR_BYTES);
    return gyre_seal_matches(channel->seal_in, channel->in + length) ? 0 : GYRE_CORRUPT;
}

static int receive_stream(struct gyre_watch_channel *channel, struct gyre_watch_message *message)
{
    int status = fill_buffer(channel, GYRE_WATCH_HEADER_BYTES);

    if (status != 0)
        return status;
    size_t length = gyre_watch_length(channel->in);
    if (length == 0)
        return GYRE_CORRUPT;
    status = fill_buffer(channel, length + (channel->seal_in != NULL ? GYRE_SEAL_TAG_BYTES : 0));
    if (status != 0)
        return status;
    channel->have = 0;
    status = open_seal(channel, length);
    return status != 0 ? status : gyre_watch_decode(channel->in, length, message);
}

int gyre_watch_channel_receive(struct gyre_watch_channel *channel, uint8_t *buffer,
                               struct gyre_watch_message *message, int *passed)
{
    *passed = -1;
    return channel->stream ? receive_stream(channel, message)
                           : receive_packet(channel, buffer, message, passed);
}
