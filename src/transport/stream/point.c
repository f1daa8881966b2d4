/* Messages that the receiver reads in the sender's memory.
 *
 *      sender                                   receiver
 *      send, in memory that both see    ◀─ GRANT ─ recv
 *      located ─ POINT region, offset ─▶           points ─▶ copied, a piece at a time
 *      complete                         ◀─ TAKEN ─ complete
 *
 * There is one copy instead of two, and the sender makes none. Only the receiver touches the
 * other's memory, and only reads. So a sender that fails and goes on to use its buffer harms only
 * an operation that has failed. The place in a POINT is looked up, never believed: the region must
 * be one that this very peer has shared, and hold the message.
 *
 * Where one end is memory that the CPU cannot touch, a device copies (device.c). */
#include "transport/stream/inside.h"

#include "base/bytes.h"
#include "base/copy.h"

#include <string.h>

bool gyre_stream_point(struct gyre_stream *stream, struct gyre_send *send)
{
    if (stream->lookup && !send->region)
        send->region = gyre_lookup_locate(stream->lookup, GYRE_MEMORY_HOST, send->data,
                                          send->length, true, &send->offset);
    if (!send->region)
        return false;
    send->state = GYRE_SEND_LOCATED;
    gyre_queue_push(&stream->out.points, send);
    return true;
}

int gyre_stream_heard_point(struct gyre_stream *stream, const struct gyre_match *match)
{
    struct gyre_incoming *in = &stream->in;
    uint64_t region = gyre_get64(in->control), offset = gyre_get64(in->control + 8);
    struct gyre_receive *receive = gyre_stream_granted_receive(stream, match);
    if (!stream->lookup || in->bye_heard || !receive || !receive->invited || receive->region ||
        receive->got || !region || region > UINT32_MAX)
        return GYRE_CORRUPT;
    int status = receive->live ? gyre_stream_agree_check(stream, match) : 0;
    if (status)
        return status;
    receive->region = (uint32_t)region;
    receive->offset = offset;
    gyre_queue_push(&in->points, receive);
    return 0;
}

static uint64_t piece_of_point(const struct gyre_receive *receive)
{
    uint64_t left = receive->length - receive->got;
    return left < GYRE_FRAME_PAYLOAD_MAX ? left : GYRE_FRAME_PAYLOAD_MAX;
}

/* The address of the next piece for the CPU; NULL: not mapped here. */
static const void *look_up_source(const struct gyre_stream *stream,
                                  const struct gyre_receive *receive)
{
    return receive->landing
               ? receive->staged_in
               : gyre_lookup_view(stream->lookup, stream->peer, receive->region, GYRE_MEMORY_HOST,
                                  receive->offset + receive->got, piece_of_point(receive));
}

static void copy_piece(struct gyre_stream *stream, struct gyre_receive *receive, const void *from)
{
    uint64_t bytes = piece_of_point(receive);
    if (receive->live)
        gyre_copy(receive->data + receive->got, from, bytes);
    receive->got += bytes;
    if (receive->got < receive->length)
        return;
    gyre_queue_pop(&stream->in.points);
    gyre_stream_end_copied(stream, receive);
}

/* Copies one piece. 1 or 0: whether anything moved; negative: the stream fails. */
static int fetch_next(struct gyre_stream *stream, struct gyre_receive *receive)
{
    const void *from = receive->live ? look_up_source(stream, receive) : NULL;
    if (receive->live && (receive->on_device || (!from && stream->copy_queue)))
        return gyre_stream_post_copy(stream, receive, from != NULL);
    if (receive->live && !from)
        return 0;
    copy_piece(stream, receive, from);
    return 1;
}

int gyre_stream_fetch(struct gyre_stream *stream)
{
    if (stream->status)
        return 0;
    int ended = gyre_stream_end_copies(stream);
    int staged = ended >= 0 && stream->out.staging.head ? gyre_stream_run_staging(stream) : 0;
    struct gyre_receive *receive = (struct gyre_receive *)stream->in.points.head;
    int fetched = ended >= 0 && staged >= 0 && receive ? fetch_next(stream, receive) : 0;
    int status = ended < 0 ? ended : staged < 0 ? staged : fetched;
    if (status < 0) {
        gyre_stream_fail(stream, status);
        return status;
    }
    return ended | staged | fetched;
}

bool gyre_stream_pending(const struct gyre_stream *stream)
{
    const struct gyre_send *send = (const struct gyre_send *)stream->out.staging.head;
    return !stream->status && (stream->in.points.head || (send && !send->copying));
}

int gyre_stream_heard_taken(struct gyre_stream *stream, const struct gyre_match *match)
{
    struct gyre_send *send = gyre_table_find(&stream->sends, match);
    while (send && send->state != GYRE_SEND_POINTED)
        send = gyre_table_next(send, match);
    if (!send)
        return GYRE_CORRUPT;
    gyre_table_remove(&stream->sends, send);
    stream->out.unframed--;
    gyre_stream_finish_send(stream, send, 0);
    return 0;
}
