/* Short messages without a post, for a carrier that is at hand:
 *
 *     leave_now()   nothing else to say, and credit ──▶ a header, and the carrier brings both
 *     take_now()    it came before it was asked for ──▶ out of the store
 *     come_now()    the next header is this message's ──▶ the carrier copies the payload itself
 *
 * No record is made of either and nothing completes, so all that a record would be asked must be
 * known to be so: no other message of that name, or of that operation's other meaning, is alive
 * here, and nothing goes first. Whatever is not so takes the way of all posts. */
#include "transport/stream_state.h"

#include <string.h>

_Static_assert(GYRE_STREAM_NOW_ROOM == GYRE_FRAME_BYTES + GYRE_STREAM_NOW_MOST,
               "stream.h does not know the frame");

static bool is_open(const struct gyre_stream *stream)
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
    if (length > stream->eager || !is_open(stream) || !gyre_stream_silent(stream) ||
        !gyre_stream_has_credit(stream, length) || gyre_stream_differs(stream, match))
        return false;
    struct gyre_frame frame = frame_of(stream, match, length);
    stream->credit.spent += length + GYRE_UNEXPECTED_CHARGE;
    gyre_frame_encode(&frame, stream->checksum ? data : NULL, header);
    return true;
}

uint32_t gyre_stream_send_now(struct gyre_stream *stream, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token, uint8_t *to)
{
    if (length > GYRE_STREAM_NOW_MOST || stream->sends_out == stream->posts ||
        !gyre_stream_leave_now(stream, match, data, length, to))
        return 0;
    if (length > 0)
        memcpy(to + GYRE_FRAME_BYTES, data, length);
    stream->sends_out++;
    gyre_stream_tell(stream, token, 0, true);
    return GYRE_FRAME_BYTES + (uint32_t)length;
}

bool gyre_stream_take_now(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                          uint64_t length)
{
    struct gyre_stored *stored = gyre_table_find(&stream->stored, match);
    if (!stored || !is_open(stream) || stored->parcel.length != length ||
        stored->slot.match.fingerprint != match->fingerprint)
        return false;
    gyre_stream_unstore(stream, stored, data);
    return true;
}

/* Nothing that has come, or was asked for, is this message, or is of its operation and differs. */
static bool is_news(const struct gyre_stream *stream, const struct gyre_match *match)
{
    return !gyre_table_find(&stream->stored, match) && !gyre_table_find(&stream->receives, match) &&
           !gyre_table_find(&stream->asks, match) && !gyre_stream_differs(stream, match);
}

bool gyre_stream_come_now(struct gyre_stream *stream, const struct gyre_match *match,
                          uint64_t length, const uint8_t header[GYRE_FRAME_BYTES])
{
    const struct gyre_incoming *in = &stream->in;
    struct gyre_credit *credit = &stream->credit;
    uint64_t charge = length + GYRE_UNEXPECTED_CHARGE;
    uint8_t wanted[GYRE_FRAME_BYTES];
    if (length > stream->eager || !is_open(stream) || in->where != GYRE_IN_HEADER || in->have > 0 ||
        credit->received + charge - credit->given > stream->unexpected || !is_news(stream, match))
        return false;
    struct gyre_frame frame = frame_of(stream, match, length);
    gyre_frame_encode(&frame, NULL, wanted);
    if (memcmp(header, wanted, sizeof(wanted)) != 0)
        return false;
    credit->received += charge;
    credit->given += charge;
    return true;
}
