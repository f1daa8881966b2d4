/* One conversation over one stream socket: a handshake, then sealed records. Never blocks.
 *
 *     | length 4 | kind 2 | zero 2 | payload … | code 32 |
 *
 *     code = HMAC(direction's key, record's number, all before)
 *
 * A talk never reads beyond the conversation: when the talk ends, the socket can carry anything
 * else. Memory is allocated only after the proof. */
#ifndef GYRE_TRANSPORT_NET_TALK_H
#define GYRE_TRANSPORT_NET_TALK_H

#include "transport/net/handshake.h"

#define GYRE_RECORD_HEADER 8
#define GYRE_RECORD_SMALL  8192 /* limit of a record until the owner raises it */

struct gyre_record {
    uint16_t kind;
    uint8_t *payload; /* inside the talk, until the next step */
    size_t length;
};

struct gyre_talk {
    int fd;
    struct gyre_handshake shake;
    size_t limit; /* of a record's payload */
    uint64_t said, heard;
    uint8_t *in, *out;
    size_t in_have, in_size;
    size_t out_sent, out_have, out_size;
};

/* Opens a talk over `fd`, which it closes. The handshake must have been started. */
void gyre_talk_open(struct gyre_talk *talk, int fd);
void gyre_talk_close(struct gyre_talk *talk); /* closes the socket, wipes the keys */
int gyre_talk_take(struct gyre_talk *talk); /* ends the conversation; the caller gets the socket */

/* Derives keys for what the socket carries after the talk; `purpose` says what. Both ends get the
 * same two keys. -EPERM before the proof; -EIO. */
int gyre_talk_keys(const struct gyre_talk *talk, const char *purpose,
                   struct gyre_traffic_keys *keys);

/* Moves what can move. 0: *record is the next event: kind 0 for the proof, else a record.
 * GYRE_AGAIN: no event yet. -ECONNRESET: the other side hung up. GYRE_CORRUPT, GYRE_REFUSED: as in
 * the handshake. Call again while the talk returns 0. */
int gyre_talk_step(struct gyre_talk *talk, struct gyre_record *record);

/* Seals a record and sends as much as the socket takes. Only after the proof. */
int gyre_talk_say(struct gyre_talk *talk, uint16_t kind, const void *payload, size_t length);

/* Sends as much as the socket takes. 0: everything was sent; GYRE_AGAIN: some is left; negative:
 * the socket failed. */
int gyre_talk_flush(struct gyre_talk *talk);

/* Flushes, and waits for the socket meanwhile, until everything was sent, the socket has failed, or
 * the clock (base/clock.h) is at `until`. */
void gyre_talk_drain(struct gyre_talk *talk, uint64_t until);
bool gyre_talk_pending(const struct gyre_talk *talk); /* bytes wait until the socket is writable */

#endif
