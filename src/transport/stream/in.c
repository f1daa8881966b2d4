/* From bytes to messages. Bytes are received in two places, and the carrier gets both at once:
 *
 *                    ┌─────────────────────── rest of the current payload, in the user's own buffer
 *      target() = { [0], [1] }
 *                         └─────────────────── read-ahead: the next header and what follows it
 *
 * So one system call ends a piece of a long message, in place, and brings the next header. Bytes in
 * read-ahead are parsed and copied on; all of them are used up before read() returns, except the
 * start of a header.
 *
 *      header ─▶ its sum? ─▶ where does its payload belong? ─▶ payload, summed as it comes
 *                                                                   │
 *                                                        its sum? ◀─┘ ─▶ act
 *
 * With keys the payload's sum is a tag, and an encrypted payload is decrypted as it comes.
 *
 * A carrier whose bytes lie in memory already feeds them from there.
 *
 * A header whose sum is right was not damaged, but without its tag anybody may have written it.
 * Before the payload is proved, a header is believed only as far as its length and the place of its
 * payload. A wrong name or fingerprint becomes a pending status, so that a forgery is told as
 * GYRE_CORRUPT and not as GYRE_MISMATCH. A fault that no honest proof could excuse (a message
 * beyond the credit, a piece that was not granted) fails at once.
 *
 * With keys a forged length makes the reader wait, as does whoever holds bytes back. A control
 * frame and a piece have one length each, and a DATA at most GYRE_EAGER_MOST: the wait ends when
 * so many bytes have come and no tag fits, or with the connection. No byte is believed meanwhile.
 *
 * Tested by tests/unit/transport/stream/stream_test.c. */
#include "transport/stream/inside.h"

#include "base/copy.h"
#include "base/crc.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* -- a whole message, of the sender's own accord ----------------------------------------------- */

/* The receive of a DATA frame; NULL: none is posted yet. Ends that differ set *pending_status. */
static struct gyre_receive *receive_for(struct gyre_stream *stream, const struct gyre_frame *frame,
                                        int *pending_status)
{
    *pending_status = gyre_stream_agree_check(stream, &frame->match);
    struct gyre_receive *receive =
        *pending_status ? NULL : gyre_stream_expecting(stream, &frame->match);
    if (receive && receive->length != frame->length) {
        *pending_status =
            gyre_stream_disagree(stream, &receive->slot.match, frame->match.fingerprint);
        return NULL;
    }
    return receive;
}

static int open_data(struct gyre_stream *stream)
{
    struct gyre_incoming *in = &stream->in;
    struct gyre_credit *credit = &stream->credit;
    credit->received += in->frame.length + GYRE_UNEXPECTED_CHARGE;
    if (in->bye_heard || in->frame.length > stream->eager ||
        credit->received - credit->given > stream->unexpected) {
        return GYRE_CORRUPT;
    }
    in->receive = receive_for(stream, &in->frame, &in->pending_status);
    if (in->receive) {
        in->where = GYRE_IN_BUFFER;
        in->at = in->receive->data;
    } else if (in->pending_status) {
        in->where = GYRE_IN_VOID;
    } else {
        in->where = GYRE_IN_STORE;
        in->stored = gyre_table_take(&stream->stored,
                                     /* Never exhausted: the store's charges allow no more
                                      * messages. */
                                     &in->frame.match);
    }
    return 0;
}

/* Files a whole message. Its receive may have been posted while the message came. */
static int file_stored(struct gyre_stream *stream, struct gyre_stored *stored)
{
    int status = 0;
    struct gyre_receive *receive = receive_for(stream, &stream->in.frame, &status);
    if (receive) {
        gyre_unexpected_take(&stream->store, &stored->parcel, receive->data);
        gyre_table_give(&stream->stored, stored);
        gyre_stream_finish_receive(stream, receive, 0);
        stream->credit.given += stream->in.frame.length + GYRE_UNEXPECTED_CHARGE;
        return 0;
    }
    if (!status) {
        stored->agreement = gyre_stream_agree_join(stream, &stored->slot.match, true, &status);
    }
    if (!status) {
        gyre_table_insert(&stream->stored, stored);
    }
    return status;
}

static int close_data(struct gyre_stream *stream)
{
    struct gyre_incoming *in = &stream->in;
    if (in->where == GYRE_IN_STORE) {
        return file_stored(stream, in->stored);
    }
    if (in->receive) {
        gyre_stream_finish_receive(stream, in->receive, 0);
    }
    stream->credit.given += in->frame.length + GYRE_UNEXPECTED_CHARGE;
    return 0;
}

/* -- a piece of a granted message -------------------------------------------------------------- */

static int open_piece(struct gyre_stream *stream)
{
    struct gyre_incoming *in = &stream->in;
    struct gyre_receive *receive = gyre_stream_granted_receive(stream, &in->frame.match);
    if (!receive || receive->region || in->bye_heard) {
        return GYRE_CORRUPT;
    }
    uint64_t left = receive->length - receive->got;
    if (in->frame.length != (left < GYRE_FRAME_PAYLOAD_MAX ? left : GYRE_FRAME_PAYLOAD_MAX)) {
        return GYRE_CORRUPT;
    }
    in->receive = receive;
    in->where = GYRE_IN_VOID;
    in->pending_status = receive->live ? gyre_stream_agree_check(stream, &in->frame.match) : 0;
    if (receive->live && !receive->recalled && !in->pending_status) {
        uint8_t *to = receive->on_device ? gyre_stream_stage_in(receive) : receive->data;
        if (!to && in->frame.length > 0) {
            return -ENOMEM;
        }
        in->where = GYRE_IN_BUFFER;
        in->at = in->frame.length > 0 ? to + receive->got : NULL;
    }
    return 0;
}

static int close_piece(struct gyre_stream *stream)
{
    struct gyre_receive *receive = stream->in.receive;
    gyre_stream_unplace(stream, receive);
    receive->got += stream->in.frame.length;
    if (receive->got < receive->length) {
        return 0;
    }
    if (receive->live && receive->on_device) {
        gyre_stream_land(stream, receive);
    } else {
        gyre_stream_end_granted(stream, receive, 0);
    }
    return 0;
}

/* -- frames ------------------------------------------------------------------------------------ */

static int open_frame(struct gyre_stream *stream, const uint8_t *header)
{
    struct gyre_incoming *in = &stream->in;
    int status = gyre_frame_decode(header, &in->frame);
    if (status || in->frame.epoch != stream->epoch || in->frame.summed != stream->checksum) {
        return GYRE_CORRUPT;
    }
    in->sum = in->frame.sum;
    if (stream->checksum)
        in->wanted = gyre_frame_payload_sum(header);
    if (stream->seal_in) {
        memcpy(in->tag, header + GYRE_FRAME_BYTES, sizeof in->tag);
        gyre_seal_begin(stream->seal_in, header, GYRE_FRAME_BYTES);
    }
    in->left = in->frame.length;
    in->pending_status = 0;
    in->receive = NULL;
    switch (in->frame.kind) {
    case GYRE_FRAME_DATA:
        return open_data(stream);
    case GYRE_FRAME_PIECE:
        return open_piece(stream);
    default:
        in->where = GYRE_IN_CONTROL;
        return 0;
    }
}

static int act(struct gyre_stream *stream)
{
    switch (stream->in.frame.kind) {
    case GYRE_FRAME_DATA:
        return close_data(stream);
    case GYRE_FRAME_PIECE:
        return close_piece(stream);
    default:
        return gyre_stream_hear(stream);
    }
}

static int close_frame(struct gyre_stream *stream)
{
    struct gyre_incoming *in = &stream->in;
    if ((stream->checksum && in->sum != in->wanted) ||
        (stream->seal_in && !gyre_seal_matches(stream->seal_in, in->tag))) {
        return GYRE_CORRUPT;
    }
    int status = in->pending_status ? in->pending_status : act(stream);
    in->where = GYRE_IN_HEADER;
    in->receive = NULL;
    return status;
}

static void sum_payload(struct gyre_stream *stream, const uint8_t *bytes, size_t length)
{
    if (stream->checksum) {
        stream->in.sum = gyre_crc32c(stream->in.sum, bytes, length);
    }
    stream->in.left -= (uint32_t)length;
}

/* As put_payload() with keys, where `bytes` lie in read-ahead. What goes to the store is decrypted
 * in place. */
static void put_sealed(struct gyre_stream *stream, uint8_t *bytes, uint32_t length)
{
    struct gyre_incoming *in = &stream->in;
    uint8_t *to = in->where == GYRE_IN_BUFFER    ? in->at
                  : in->where == GYRE_IN_CONTROL ? in->control + (in->frame.length - in->left)
                                                 : bytes;
    gyre_seal_take(stream->seal_in, bytes, to, length);
    if (in->where == GYRE_IN_BUFFER)
        in->at += length;
    if (in->where == GYRE_IN_STORE)
        gyre_unexpected_append(&stream->store, &in->stored->parcel, bytes, length);
    in->left -= length;
}

static void put_payload(struct gyre_stream *stream, const uint8_t *bytes, uint32_t length)
{
    struct gyre_incoming *in = &stream->in;
    switch (in->where) {
    case GYRE_IN_BUFFER:
        gyre_copy(in->at, bytes, length);
        bytes = in->at; /* the sum covers the bytes that are kept */
        in->at += length;
        break;
    case GYRE_IN_STORE:
        gyre_unexpected_append(&stream->store, &in->stored->parcel, bytes, length);
        break;
    case GYRE_IN_CONTROL:
        bytes = memcpy(in->control + (in->frame.length - in->left), bytes, length);
        break;
    case GYRE_IN_VOID:
    case GYRE_IN_HEADER:
        break;
    }
    sum_payload(stream, bytes, length);
}

/* Uses up to `length` bytes; *used becomes their number. 0: the bytes are the start of a header. */
static int digest(struct gyre_stream *stream, uint8_t *bytes, uint32_t length, uint32_t *used)
{
    struct gyre_incoming *in = &stream->in;
    int status = 0;
    *used = 0;
    if (in->where == GYRE_IN_HEADER) {
        if (length < stream->head) {
            return 0;
        }
        *used = stream->head;
        status = open_frame(stream, bytes);
    }
    uint32_t part = length - *used < in->left ? length - *used : in->left;
    if (!status && part > 0) {
        if (stream->seal_in)
            put_sealed(stream, bytes + *used, part);
        else
            put_payload(stream, bytes + *used, part);
        *used += part;
    }
    return status || in->left > 0 ? status : close_frame(stream);
}

static int digest_ahead(struct gyre_stream *stream)
{
    struct gyre_incoming *in = &stream->in;
    uint32_t at = 0, used = 0;
    int status;
    do {
        status = digest(stream, in->ahead + at, in->have - at, &used);
        at += used;
    } while (!status && used > 0 && at < in->have);
    in->have -= at;
    memmove(in->ahead, in->ahead + at, in->have);
    return status;
}

/* -- the carrier's side ------------------------------------------------------------------------ */

static bool lands_in_buffer(const struct gyre_incoming *in)
{
    return in->where == GYRE_IN_BUFFER && in->left > 0;
}

/* Whether this piece is not the last: behind it come another header, and payload that should land
 * in place. */
static bool more_pieces_follow(const struct gyre_incoming *in)
{
    return in->frame.kind == GYRE_FRAME_PIECE &&
           in->receive->length - in->receive->got > in->frame.length;
}

int gyre_stream_target(struct gyre_stream *stream, struct iovec iov[2])
{
    struct gyre_incoming *in = &stream->in;
    if (stream->status || !lands_in_buffer(in)) {
        iov[0] = (struct iovec){in->ahead + in->have, GYRE_STREAM_AHEAD_BYTES - in->have};
        return 1;
    }
    iov[0] = (struct iovec){in->at, in->left};
    iov[1] =
        (struct iovec){in->ahead, more_pieces_follow(in) ? stream->head : GYRE_STREAM_AHEAD_BYTES};
    return 2;
}

static int landed(struct gyre_stream *stream, uint32_t length)
{
    struct gyre_incoming *in = &stream->in;
    uint8_t *bytes = in->at;
    in->at += length;
    if (stream->seal_in)
        gyre_seal_take(stream->seal_in, bytes, bytes, length);
    sum_payload(stream, bytes, length);
    return in->left > 0 ? 0 : close_frame(stream);
}

int gyre_stream_read(struct gyre_stream *stream, size_t bytes)
{
    struct gyre_incoming *in = &stream->in;
    if (stream->status) {
        return stream->status;
    }
    int status = 0;
    if (lands_in_buffer(in)) {
        uint32_t direct = bytes < in->left ? (uint32_t)bytes : in->left;
        status = landed(stream, direct);
        bytes -= direct;
    }
    assert(bytes <= GYRE_STREAM_AHEAD_BYTES - in->have && "a carrier reads what target() named");
    in->have += (uint32_t)bytes;
    if (!status && in->have > 0) {
        status = digest_ahead(stream);
    }
    if (status) {
        in->have = 0;
        gyre_stream_fail(stream, status);
    }
    return status;
}

bool gyre_stream_awaits_frame(const struct gyre_stream *stream)
{
    return !stream->status && stream->in.where == GYRE_IN_HEADER;
}

bool gyre_stream_read_now(struct gyre_stream *stream, size_t bytes, const struct gyre_match *match,
                          void *data, uint64_t length, int *status)
{
    struct gyre_incoming *in = &stream->in;
    assert(gyre_stream_awaits_frame(stream) && bytes <= GYRE_STREAM_AHEAD_BYTES - in->have);
    in->have += (uint32_t)bytes;
    bool came = gyre_stream_take_next(stream, match, data, length);
    if (came) {
        uint32_t used = stream->head + (uint32_t)length;
        in->have -= used;
        memmove(in->ahead, in->ahead + used, in->have);
    }
    *status = gyre_stream_read(stream, 0);
    return came;
}

/* Copies a header before looking at it, because the peer might still write there. */
static int feed_header(struct gyre_stream *stream, const uint8_t *bytes, uint32_t part)
{
    struct gyre_incoming *in = &stream->in;
    memcpy(in->ahead + in->have, bytes, part);
    in->have += part;
    if (in->have < stream->head)
        return 0;
    in->have = 0;
    int status = open_frame(stream, in->ahead);
    return status || in->left > 0 ? status : close_frame(stream);
}

static int feed_payload(struct gyre_stream *stream, const uint8_t *bytes, uint32_t part)
{
    put_payload(stream, bytes, part);
    return stream->in.left > 0 ? 0 : close_frame(stream);
}

int gyre_stream_feed(struct gyre_stream *stream, const uint8_t *bytes, size_t length)
{
    struct gyre_incoming *in = &stream->in;
    int status = stream->status;
    assert(!stream->seal_in && "a carrier that feeds has no keys");
    while (length > 0 && !status) {
        bool header = in->where == GYRE_IN_HEADER;
        uint32_t most = header ? stream->head - in->have : in->left;
        uint32_t part = length < most ? (uint32_t)length : most;
        status = header ? feed_header(stream, bytes, part) : feed_payload(stream, bytes, part);
        bytes += part;
        length -= part;
    }
    if (status) {
        in->have = 0;
        gyre_stream_fail(stream, status);
    }
    return status;
}
