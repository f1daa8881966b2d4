/* The life of records: from post to completion, and back to the table.
 *
 *     send      live ── end: its completion is due no more ──▶ release: the record is free
 *     receive   live ── end ──▶ kept while the peer may still send its message ──▶ release
 *
 * A stream that fails ends every live post with the status of the failure. The records stay as
 * they are until the stream is destroyed.
 *
 * Tested by tests/unit/transport/stream/stream_test.c and ends_test.c. */
#include "transport/stream/inside.h"

#include "transport/memory/copy_queue.h"

#include <stdlib.h>

/* -- completions ------------------------------------------------------------------------------- */

void gyre_stream_tell(struct gyre_stream *stream, uint64_t token, int status, bool send)
{
    stream->done[stream->done_end++ & stream->done_mask] =
        (struct gyre_done){.completion = {.token = token, .status = status}, .send = send};
}

void gyre_stream_settle(struct gyre_stream *stream)
{
    if (stream->in.copying_receives.head || stream->out.staging.head)
        gyre_copy_queue_settle(stream->copy_queue);
}

void gyre_stream_fail(struct gyre_stream *stream, int status)
{
    if (stream->status) {
        return;
    }
    stream->status = status;
    gyre_stream_settle(stream);
    struct gyre_send *send;
    for (uint32_t i = 0; (send = gyre_table_record(&stream->sends, i)); i++) {
        if (send->live) {
            gyre_stream_end_send(stream, send, status);
        }
    }
    struct gyre_receive *receive;
    for (uint32_t i = 0; (receive = gyre_table_record(&stream->receives, i)); i++) {
        if (receive->live) {
            gyre_stream_end_receive(stream, receive, status);
        }
    }
}

/* -- sends ------------------------------------------------------------------------------------- */

void gyre_stream_end_send(struct gyre_stream *stream, struct gyre_send *send, int status)
{
    gyre_stream_tell(stream, send->token, status, true);
    send->live = false;
    gyre_stream_agree_leave(stream, send->agreement, false);
}

void gyre_stream_release_send(struct gyre_stream *stream, struct gyre_send *send)
{
    free(send->staged_out);
    send->staged_out = NULL;
    send->state = GYRE_SEND_FREE;
    gyre_table_give(&stream->sends, send);
}

void gyre_stream_finish_send(struct gyre_stream *stream, struct gyre_send *send, int status)
{
    gyre_stream_end_send(stream, send, status);
    gyre_stream_release_send(stream, send);
}

/* -- receives ---------------------------------------------------------------------------------- */

void gyre_stream_end_receive(struct gyre_stream *stream, struct gyre_receive *receive, int status)
{
    gyre_stream_tell(stream, receive->token, status, false);
    receive->live = false;
    gyre_stream_agree_leave(stream, receive->agreement, false);
}

void gyre_stream_give_receive(struct gyre_stream *stream, struct gyre_receive *receive)
{
    free(receive->staged_in);
    receive->staged_in = NULL;
    gyre_table_give(&stream->receives, receive);
}

void gyre_stream_release_receive(struct gyre_stream *stream, struct gyre_receive *receive)
{
    gyre_table_remove(&stream->receives, receive);
    gyre_stream_give_receive(stream, receive);
}

void gyre_stream_finish_receive(struct gyre_stream *stream, struct gyre_receive *receive,
                                int status)
{
    gyre_stream_end_receive(stream, receive, status);
    gyre_stream_release_receive(stream, receive);
}

void gyre_stream_end_granted(struct gyre_stream *stream, struct gyre_receive *receive, int status)
{
    if (receive->live) {
        gyre_stream_end_receive(stream, receive, status);
    }
    gyre_stream_release_receive(stream, receive);
}

/* Ends a receive that was copied from the peer's memory. The record leaves the hash and is free
 * once TAKEN was said. */
void gyre_stream_end_copied(struct gyre_stream *stream, struct gyre_receive *receive)
{
    if (receive->live)
        gyre_stream_end_receive(stream, receive, 0);
    if (receive->landing) {
        gyre_stream_give_receive(stream, receive);
        return;
    }
    gyre_table_remove(&stream->receives, receive);
    gyre_queue_push(&stream->out.taken_notices, receive);
}

/* The receive for a message without a grant. A short receive that was granted expects pieces: the
 * peer has asked for its grant. */
struct gyre_receive *gyre_stream_expecting(struct gyre_stream *stream,
                                           const struct gyre_match *match)
{
    struct gyre_receive *receive = gyre_table_find(&stream->receives, match);
    while (receive && receive->granted && receive->length <= stream->eager) {
        receive = gyre_table_next(receive, match);
    }
    return receive;
}

struct gyre_receive *gyre_stream_granted_receive(struct gyre_stream *stream,
                                                 const struct gyre_match *match)
{
    struct gyre_receive *receive = gyre_table_find(&stream->receives, match);
    while (receive && !receive->granted) {
        receive = gyre_table_next(receive, match);
    }
    return receive;
}

void gyre_stream_grant(struct gyre_stream *stream, struct gyre_receive *receive)
{
    receive->granted = true;
    gyre_queue_push(&stream->out.grants, receive);
}

/* -- stored messages --------------------------------------------------------------------------- */

void gyre_stream_unstore(struct gyre_stream *stream, struct gyre_stored *stored, void *data)
{
    stream->credit.given += stored->parcel.length + GYRE_UNEXPECTED_CHARGE;
    gyre_table_remove(&stream->stored, stored);
    gyre_stream_agree_leave(stream, stored->agreement, true);
    gyre_unexpected_take(&stream->store, &stored->parcel, data);
    gyre_table_give(&stream->stored, stored);
}
