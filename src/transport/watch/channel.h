/* The watch's channel to one peer: whole messages over a Unix packet socket or a TCP stream, never
 * blocking. A stream with keys has a tag of 16 bytes behind each message, and encrypts, if wished,
 * all but the message's length.
 *
 * The watch's lock protects a channel. */
#ifndef GYRE_TRANSPORT_WATCH_CHANNEL_H
#define GYRE_TRANSPORT_WATCH_CHANNEL_H

#include "transport/seal/seal.h"
#include "transport/watch/detect/message.h"

#include <stdbool.h>

struct gyre_watch_packet; /* a message that waits for room in the socket */

struct gyre_watch_channel {
    int fd; /* borrowed; -1: closed */
    bool stream;
    struct gyre_watch_packet *first, *last; /* `last` counts only while there is a first */
    uint8_t *in;                            /* of a stream: the message that is being read */
    size_t have;
    struct gyre_seal *seal_out, *seal_in; /* NULL: no keys */
};

int gyre_watch_channel_init(struct gyre_watch_channel *channel, int fd); /* 0 or -errno */

/* Protects all later messages of a stream; nothing for GYRE_SEAL_NONE. 0 or negative. */
int gyre_watch_channel_seal(struct gyre_watch_channel *channel, enum gyre_seal_mode mode,
                            const struct gyre_traffic_keys *keys);
void gyre_watch_channel_deinit(struct gyre_watch_channel *channel); /* zeroed or initialised */

/* Sends the message now or keeps a copy until flush(); with it a duplicate of `pass` (-1: none;
 * packets only). 0, or a negative errno after which the channel is broken. */
int gyre_watch_channel_send(struct gyre_watch_channel *channel, const uint8_t *message,
                            size_t length, int pass);
int gyre_watch_channel_flush(struct gyre_watch_channel *channel);
bool gyre_watch_channel_waits(const struct gyre_watch_channel *channel); /* something is kept */

/* Reads one message. `buffer` has GYRE_WATCH_MESSAGE_MAX bytes; the message points into it or into
 * the channel until the next call. *passed becomes the message's descriptor, which the caller then
 * owns, or -1. 0; GYRE_AGAIN: no message now; negative: the channel has ended (-EPIPE at its
 * orderly end) or speaks nonsense. */
int gyre_watch_channel_receive(struct gyre_watch_channel *channel, uint8_t *buffer,
                               struct gyre_watch_message *message, int *passed);

#endif
