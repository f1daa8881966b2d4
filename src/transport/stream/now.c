/* Short messages without a post, for a carrier that is at hand:
 *
 *     leave_now()   nothing else to say, and credit ──▶ a header, and the carrier brings both
 *     take_now()    it came before it was asked for ──▶ out of the store
 *     come_now()    the next header is this message's ──▶ the carrier copies the payload itself
 *     read_now()    the next frame is this message    ──▶ out of read-ahead
 *
 * No record is made and nothing completes, so what a record would tell must be known beforehand: no
 * other message of that name, and no other fingerprint of that operation, is alive here, and
 * nothing goes first. All other messages are posted. A message of which a full carrier took only
 * the beginning is posted, too: its rest is offered, and its post takes the rest over. */
#include "transport/stream/inside.h"

#include "base/copy.h"

#include <assert.h>
#include <string.h>

_Static_assert(GYRE_FRAME_BYTES + GYRE_STREAM_REST_MOST <= GYRE_STREAM_STAGE_BYTES,
               "the stage has room for a rest");
_Static_assert(GYRE_FRAME_BYTES == 32, "stream.h says how long a header is");

static bool is_open_now(const struct gyre_stream *stream)
{
    return !stream->status && !stream->out.bye_asked && !stream->in.bye_heard;
}

static struct gyre_frame frame_of(const struct gyre_stream *stream, const struct gyre_match *match,
                                  uint64_t length)
{
    return (struct gyre_frame){.kind = GYRE_FRAME_DATA,
                               .length = (uint32_t)length,
                               .epoch = stream->epoch,
                               .match = *match};
}

bool gyre_stream_leave_now(struct gyre_stream *stream, const struct gyre_match *match,
                           const void *data, uint64_t length, uint8_t header[GYRE_FRAME_BYTES])
{
    if (length > stream->eager || stream->out.begun || !is_open_now(stream) ||
        !gyre_stream_silent(stream) || !gyre_stream_has_credit(stream, length) ||
        gyre_stream_differs(stream, match))
        return false;
    struct gyre_frame frame = frame_of(stream, match, length);
    stream->credit.spent += length + GYRE_UNEXPECTED_CHARGE;
    gyre_frame_encode(&frame, stream->checksum ? data : NULL, header);
    return true;
}

/* Nothing else is offered, so the stage is empty. */
void gyre_stream_leave_rest(struct gyre_stream *stream, const struct gyre_match *match,
                            const void *data, uint64_t length,
                            const uint8_t header[GYRE_FRAME_BYTES], size_t bytes)
{
    struct gyre_outgoing *out = &stream->out;
    if (bytes == 0) {
        stream->credit.spent -= length + GYRE_UNEXPECTED_CHARGE;
        return;
    }
    size_t head = bytes < GYRE_FRAME_BYTES ? GYRE_FRAME_BYTES - bytes : 0;
    size_t body = GYRE_FRAME_BYTES + length - bytes - head;
    assert(out->offers == 0 && head + body <= GYRE_STREAM_REST_MOST + GYRE_FRAME_BYTES);
    struct gyre_offer *offer = gyre_stream_offer_at(out, out->offers++);
    memcpy(out->stage, header + GYRE_FRAME_BYTES - head, head);
    if (body > 0)
        gyre_copy(out->stage + head, (const uint8_t *)data + (length - body), body);
    *offer = (struct gyre_offer){.head = out->stage,
                                 .head_left = (uint32_t)(head + body),
                                 .kind = GYRE_FRAME_DATA,
                                 .begun = true};
    out->staged = offer->head_left;
    out->offered = offer->head_left;
    out->begun = true;
    out->begun_match = *match;
    out->begun_rest = offer;
}

bool gyre_stream_go_on(struct gyre_stream *stream, struct gyre_send *send)
{
    struct gyre_outgoing *out = &stream->out;
    struct gyre_offer *rest = out->begun_rest;
    if (!out->begun || !gyre_match_same(&out->begun_match, &send->slot.match))
        return false;
    out->begun = false;
    out->begun_rest = NULL;
    send->state = GYRE_SEND_FRAMED;
    send->framed = send->length;
    if (rest) {
        rest->send = send;
        rest->last = true;
    } else {
        gyre_stream_finish_send(stream, send, 0);
    }
    return true;
}

uint32_t gyre_stream_send_now(struct gyre_stream *stream, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token, uint8_t *to)
{
    if (stream->sends_out == stream->posts ||
        !gyre_stream_leave_now(stream, match, data, length, to))
        return 0;
    gyre_copy(to + GYRE_FRAME_BYTES, data, length);
    stream->sends_out++;
    gyre_stream_tell(stream, token, 0, true);
    return GYRE_FRAME_BYTES + (uint32_t)length;
}

bool gyre_stream_take_now(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                          uint64_t length)
{
    struct gyre_stored *stored = gyre_table_find(&stream->stored, match);
    if (!stored || !is_open_now(stream) || stored->parcel.length != length ||
        stored->slot.match.fingerprint != match->fingerprint)
        return false;
    gyre_stream_unstore(stream, stored, data);
    return true;
}

/* Whether no stored message, receive or ASK has that name, and no other fingerprint is known. */
static bool is_news(const struct gyre_stream *stream, const struct gyre_match *match)
{
    return !gyre_table_find(&stream->stored, match) && !gyre_table_find(&stream->receives, match) &&
           !gyre_table_find(&stream->asks, match) && !gyre_stream_differs(stream, match);
}

/* Whether the next frame may be that message: between two frames, with credit, and news. */
static bool is_expected(const struct gyre_stream *stream, const struct gyre_match *match,
                        uint64_t length)
{
    const struct gyre_credit *credit = &stream->credit;
    return length <= stream->eager && is_open_now(stream) && stream->in.where == GYRE_IN_HEADER &&
           credit->received + length + GYRE_UNEXPECTED_CHARGE - credit->given <=
               stream->unexpected &&
           is_news(stream, match);
}

/* Whether that header is the message's, with the sum of `payload` if payloads are summed. */
static bool begins_with(struct gyre_stream *stream, const uint8_t header[GYRE_FRAME_BYTES],
                        const struct gyre_match *match, uint64_t length, const void *payload)
{
    struct gyre_credit *credit = &stream->credit;
    struct gyre_frame frame = frame_of(stream, match, length);
    uint8_t wanted[GYRE_FRAME_BYTES];
    gyre_frame_encode(&frame, payload, wanted);
    if (memcmp(header, wanted, sizeof(wanted)) != 0)
        return false;
    credit->received += length + GYRE_UNEXPECTED_CHARGE;
    credit->given += length + GYRE_UNEXPECTED_CHARGE;
    return true;
}

bool gyre_stream_come_now(struct gyre_stream *stream, const struct gyre_match *match,
                          uint64_t length, const uint8_t header[GYRE_FRAME_BYTES])
{
    return stream->in.have == 0 && is_expected(stream, match, length) &&
           begins_with(stream, header, match, length, NULL);
}

bool gyre_stream_is_next(struct gyre_stream *stream, const struct gyre_match *match,
                         uint64_t length)
{
    const uint8_t *ahead = stream->in.ahead;
    return stream->in.have >= GYRE_FRAME_BYTES + length && is_expected(stream, match, length) &&
           begins_with(stream, ahead, match, length,
                       stream->checksum ? ahead + GYRE_FRAME_BYTES : NULL);
}
