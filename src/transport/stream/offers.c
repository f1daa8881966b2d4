/* The offers: frames that the carrier may write, in order, and the unwritten part of each.
 *
 *     offer() ──▶ [ head body ] [ head body ] …  ──gather──▶ the carrier ──wrote──▶ retire
 *
 * Headers and payloads up to 256 bytes are staged side by side, so a burst of small messages is one
 * vector. An offer is never changed once a byte of it was written. The stage is used again from its
 * start when all offers have gone.
 *
 * With keys a frame gets its number when it is offered, and offers are written in their order. So
 * an offer that is taken back leaves a BLANK with its number. An encrypted payload lies in a ring
 * until it is written; others of more than GYRE_STREAM_INLINE_MAX bytes are borrowed.
 *
 * Tested by tests/unit/transport/stream/stream_test.c and sealed_test.c. */
#include "transport/stream/inside.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define STAGED_MAX (GYRE_FRAME_HEAD_MOST + GYRE_STREAM_INLINE_MAX)

void gyre_stream_write_head(const struct gyre_stream *stream, const struct gyre_frame *frame,
                            const void *payload, uint8_t head[GYRE_FRAME_HEAD_MOST])
{
    struct gyre_frame mine = *frame;
    mine.summed = stream->checksum;
    gyre_frame_encode(&mine, head);
    if (stream->checksum)
        gyre_frame_sum_payload(head, payload, frame->length);
}

void gyre_stream_seal(struct gyre_stream *stream, uint8_t head[GYRE_FRAME_HEAD_MOST],
                      const void *payload, uint8_t *to, uint32_t length)
{
    gyre_seal_begin(stream->seal_out, head, GYRE_FRAME_BYTES);
    gyre_seal_take(stream->seal_out, payload, to, length);
    gyre_seal_tag(stream->seal_out, head + GYRE_FRAME_BYTES);
}

bool gyre_stream_offers_have_room(const struct gyre_outgoing *out)
{
    return out->offers < GYRE_STREAM_OFFERS &&
           out->staged + STAGED_MAX <= GYRE_STREAM_STAGE_BYTES &&
           out->offered < GYRE_STREAM_OFFER_BYTES && gyre_cipher_ring_has_room(&out->cipher);
}

/* Puts the payload where the carrier will find it: behind the header, in the ring, or where it is.
 * With keys the frame is sealed on this way. */
static void offer_payload(struct gyre_stream *stream, struct gyre_offer *offer, uint8_t *head,
                          const void *payload, uint32_t length)
{
    struct gyre_cipher_ring *ring = &stream->out.cipher;
    const bool beside = length > GYRE_STREAM_INLINE_MAX;
    uint8_t *to = !beside       ? head + stream->head
                  : ring->bytes ? gyre_cipher_ring_take(ring, length)
                                : NULL;
    if (stream->seal_out) {
        offer->number = gyre_seal_number(stream->seal_out);
        gyre_stream_seal(stream, head, payload, to, length);
    } else if (to && length > 0) {
        memcpy(to, payload, length);
    }
    if (!beside) {
        offer->head_left += length;
        return;
    }
    offer->body = to ? to : payload;
    offer->body_left = length;
    offer->cipher_end = to ? (uint32_t)(to - ring->bytes) + length : 0;
}

struct gyre_offer *gyre_stream_offer(struct gyre_stream *stream, enum gyre_frame_kind kind,
                                     const struct gyre_match *match, const void *payload,
                                     uint32_t length)
{
    struct gyre_outgoing *out = &stream->out;
    struct gyre_offer *offer = gyre_stream_offer_at(out, out->offers++);
    struct gyre_frame frame = {
        .kind = kind, .length = length, .epoch = stream->epoch, .match = *match};
    uint8_t *head = out->stage + out->staged;
    gyre_stream_write_head(stream, &frame, payload, head);
    *offer = (struct gyre_offer){.head = head, .head_left = stream->head, .kind = kind};
    offer_payload(stream, offer, head, payload, length);
    out->staged += offer->head_left;
    out->offered += offer->head_left + offer->body_left;
    return offer;
}

/* Gives an offer's place to a BLANK of the same number. */
static void blank(struct gyre_stream *stream, struct gyre_offer *offer)
{
    uint8_t *head = stream->out.stage + (offer->head - stream->out.stage);
    const struct gyre_frame frame = {.kind = GYRE_FRAME_BLANK, .epoch = stream->epoch};
    const uint64_t next = gyre_seal_number(stream->seal_out);
    gyre_stream_write_head(stream, &frame, NULL, head);
    gyre_seal_return_to(stream->seal_out, offer->number);
    gyre_stream_seal(stream, head, NULL, NULL, 0);
    gyre_seal_return_to(stream->seal_out, next);
    *offer = (struct gyre_offer){.head = head,
                                 .head_left = stream->head,
                                 .kind = GYRE_FRAME_BLANK,
                                 .number = offer->number,
                                 .cipher_end = offer->cipher_end};
    stream->out.offered += stream->head;
}

void gyre_stream_take_back(struct gyre_stream *stream, struct gyre_offer *offer)
{
    stream->out.offered -= offer->head_left + offer->body_left;
    if (stream->seal_out)
        blank(stream, offer);
    else
        *offer = (struct gyre_offer){.kind = offer->kind};
}

/* -- written ----------------------------------------------------------------------------------- */

static void offer_written(struct gyre_stream *stream, const struct gyre_offer *offer)
{
    struct gyre_send *send = offer->send;
    stream->out.bye_said |= offer->kind == GYRE_FRAME_BYE;
    if (send && send->state == GYRE_SEND_TEARING) {
        free(stream->out.torn);
        stream->out.torn = NULL;
        send->state = GYRE_SEND_VOID;
        if (offer->last) {
            gyre_stream_release_send(stream, send);
        } else {
            gyre_queue_push(&stream->out.voids, send);
        }
    } else if (send && offer->last) {
        gyre_stream_finish_send(stream, send, 0);
    }
}

void gyre_stream_retire(struct gyre_stream *stream)
{
    struct gyre_outgoing *out = &stream->out;
    while (out->offers > 0) {
        const struct gyre_offer *offer = gyre_stream_offer_at(out, 0);
        if (offer->head_left + offer->body_left > 0) {
            return;
        }
        offer_written(stream, offer);
        if (offer == out->begun_rest) {
            out->begun_rest = NULL;
        }
        if (offer->cipher_end > 0) {
            gyre_cipher_ring_give(&out->cipher, offer->cipher_end);
        }
        out->first = (out->first + 1) % GYRE_STREAM_OFFERS;
        out->offers--;
    }
    out->staged = 0;
}

static size_t skip_written(const uint8_t **bytes, uint32_t *left, size_t written)
{
    uint32_t part = written < *left ? (uint32_t)written : *left;
    if (part) /* a frame without a body has no bytes to point to */
        *bytes += part;
    *left -= part;
    return written - part;
}

void gyre_stream_wrote(struct gyre_stream *stream, size_t bytes)
{
    struct gyre_outgoing *out = &stream->out;
    if (stream->status || bytes == 0) {
        return;
    }
    assert(bytes <= out->offered && "a carrier writes what it was offered");
    out->offered -= bytes;
    for (uint32_t i = 0; bytes > 0; i++) {
        struct gyre_offer *offer = gyre_stream_offer_at(out, i);
        offer->begun = true;
        bytes = skip_written(&offer->head, &offer->head_left, bytes);
        bytes = offer->body_left > 0 ? skip_written(&offer->body, &offer->body_left, bytes) : bytes;
    }
    gyre_stream_retire(stream);
}

/* -- vectors ----------------------------------------------------------------------------------- */

static bool add_vector(struct iovec *iov, int *used, int max, const uint8_t *bytes, size_t length)
{
    if (length == 0) {
        return true;
    }
    if (*used > 0 && (uint8_t *)iov[*used - 1].iov_base + iov[*used - 1].iov_len == bytes) {
        iov[*used - 1].iov_len += length;
        return true;
    }
    if (*used == max) {
        return false;
    }
    iov[(*used)++] = (struct iovec){.iov_base = (void *)bytes, .iov_len = length};
    return true;
}

int gyre_stream_offered(const struct gyre_stream *stream, struct iovec *iov, int max)
{
    int used = 0;
    for (uint32_t i = 0; i < stream->out.offers; i++) {
        const struct gyre_offer *offer =
            &stream->out.offer[(stream->out.first + i) % GYRE_STREAM_OFFERS];
        if (!add_vector(iov, &used, max, offer->head, offer->head_left) ||
            !add_vector(iov, &used, max, offer->body, offer->body_left)) {
            break;
        }
    }
    return used;
}
