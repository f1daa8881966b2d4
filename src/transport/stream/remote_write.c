/* Messages that the carrier writes into the posted buffer, past the stream.
 *
 *      sender                                     receiver
 *      send_registered()                       ◀─ PLACE ─ recv_registered()
 *      reached ─ take_write()                             placed
 *      the carrier writes … and says so ────────────────▶ arrived(number): complete
 *      end_write(): complete
 *
 * A PLACE is a GRANT with an address. The sender whose memory is not registered sends pieces, as
 * for a GRANT, and the first of them takes the place back.
 *
 * A receive that is withdrawn while the peer may write into it ends when the peer cannot any more:
 * RECALL asks for that. If a send was posted, its message answers: it arrives, or comes in pieces,
 * or is void. If none was, SPARED answers, and the message comes in pieces, which nobody keeps. */
#include "transport/stream/inside.h"

#include "base/bytes.h"

#include <errno.h>

/* -- the receiver ------------------------------------------------------------------------------ */

bool gyre_stream_expose(struct gyre_stream *stream, struct gyre_receive *receive)
{
    receive->placed = receive->registered && receive->live && receive->length > stream->eager &&
                      stream->places < stream->places_most;
    stream->places += receive->placed;
    return receive->placed;
}

uint32_t gyre_stream_number(const struct gyre_stream *stream, const struct gyre_receive *receive)
{
    return (uint32_t)(((const uint8_t *)receive - stream->receives.records) /
                      stream->receives.stride);
}

void gyre_stream_unplace(struct gyre_stream *stream, struct gyre_receive *receive)
{
    if (!receive->placed)
        return;
    receive->placed = false;
    stream->places--;
    if (receive->recall_due)
        gyre_queue_unlink(&stream->out.recalls, receive);
    receive->recall_due = false;
    if (receive->recalled && receive->live) {
        gyre_stream_end_receive(stream, receive, -ECANCELED);
        receive->data = NULL;
    }
    receive->recalled = false;
}

bool gyre_stream_recall(struct gyre_stream *stream, struct gyre_receive *receive)
{
    if (!receive->placed || stream->in.bye_heard)
        return false;
    if (!receive->recalled) {
        receive->recalled = receive->recall_due = true;
        gyre_queue_push(&stream->out.recalls, receive);
    }
    return true;
}

/* The receive into which the peer may write under this number; NULL: there is none. A goodbye says
 * that all writes have been made, and a receive that is withdrawn behind it has no memory. */
static struct gyre_receive *find_placed(struct gyre_stream *stream, uint32_t number)
{
    struct gyre_receive *receive = gyre_table_record(&stream->receives, number);
    bool writable = receive && receive->placed && !receive->got && stream->in.receive != receive &&
                    !stream->in.bye_heard;
    return writable ? receive : NULL;
}

bool gyre_stream_arrival_of(struct gyre_stream *stream, uint32_t number,
                            struct gyre_stream_arrival *arrival)
{
    const struct gyre_receive *receive = stream->status ? NULL : find_placed(stream, number);
    if (receive)
        *arrival = (struct gyre_stream_arrival){receive->data, receive->length, receive->on_device};
    return receive;
}

int gyre_stream_arrived(struct gyre_stream *stream, uint32_t number)
{
    struct gyre_receive *receive = find_placed(stream, number);
    if (stream->status)
        return stream->status;
    if (!receive) {
        gyre_stream_fail(stream, GYRE_CORRUPT);
        return GYRE_CORRUPT;
    }
    gyre_stream_unplace(stream, receive);
    gyre_stream_end_granted(stream, receive, 0);
    return 0;
}

int gyre_stream_heard_spared(struct gyre_stream *stream, const struct gyre_match *match)
{
    struct gyre_receive *receive = gyre_stream_granted_receive(stream, match);
    if (!receive || !receive->placed || !receive->recalled)
        return GYRE_CORRUPT;
    gyre_stream_unplace(stream, receive);
    return 0;
}

/* -- the sender -------------------------------------------------------------------------------- */

bool gyre_stream_write_remote(struct gyre_stream *stream, struct gyre_send *send)
{
    if (!send->placed || !send->registered)
        return false;
    send->state = GYRE_SEND_REMOTE;
    gyre_queue_push(&stream->out.remote_writes, send);
    return true;
}

static struct gyre_send *find_remote_write(struct gyre_stream *stream,
                                           const struct gyre_match *match)
{
    struct gyre_slot *slot = stream->out.remote_writes.head;
    while (slot && !gyre_match_same(&slot->match, match))
        slot = slot->next;
    return (struct gyre_send *)slot;
}

/* A write that has begun goes on; any other message goes in pieces. */
int gyre_stream_heard_recall(struct gyre_stream *stream, const struct gyre_match *match,
                             struct gyre_send **out)
{
    struct gyre_note *note = gyre_table_find(&stream->grants, match);
    struct gyre_send *send = find_remote_write(stream, match);
    if (!stream->places_most)
        return GYRE_CORRUPT;
    if (note && note->placed) {
        note->placed = false;
        note->spared_due = true;
        gyre_queue_push(&stream->out.spared, note);
    } else if (send) {
        gyre_queue_unlink(&stream->out.remote_writes, send);
        send->placed = false;
        *out = send;
    }
    return 0;
}

void gyre_stream_write_of(const struct gyre_send *send, struct gyre_stream_write *write)
{
    *write = (struct gyre_stream_write){.from = send->data,
                                        .length = send->length,
                                        .place = send->place,
                                        .number = send->number,
                                        .send = (struct gyre_send *)send};
}

bool gyre_stream_take_write(struct gyre_stream *stream, struct gyre_stream_write *write)
{
    struct gyre_send *send = stream->status ? NULL : gyre_queue_pop(&stream->out.remote_writes);
    if (!send)
        return false;
    send->state = GYRE_SEND_WRITING;
    gyre_stream_write_of(send, write);
    return true;
}

void gyre_stream_end_write(struct gyre_stream *stream, struct gyre_send *send)
{
    if (stream->status)
        return;
    stream->out.unframed--;
    gyre_stream_finish_send(stream, send, 0);
}
