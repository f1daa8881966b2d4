/* From a post to a record: send() and recv().
 *
 *     recv(name) ── stored already? ──▶ copy, complete
 *               └── no: receives[name]; GRANT if it is long or the peer has asked
 *     send(name) ── short: out.eager, as credit allows
 *               └── long: granted already? out.granted : sends[name] until the GRANT comes
 *
 * A post either takes one record and one place among the direction's `posts`, or takes nothing.
 *
 * Tested by tests/unit/transport/stream/stream_test.c. */
#include "transport/stream/inside.h"

#include <string.h>

static int admit_post(const struct gyre_stream *stream, uint32_t outstanding, uint32_t most)
{
    if (stream->status) {
        return stream->status;
    }
    if (stream->out.bye_asked) {
        return GYRE_INVALID;
    }
    return outstanding >= most ? GYRE_AGAIN : 0;
}

/* Refuses a post. Ends that disagree fail the stream, not only the post. */
static int refuse_post(struct gyre_stream *stream, int status)
{
    if (status == GYRE_MISMATCH) {
        gyre_stream_fail(stream, status);
    }
    return status;
}

/* Removes the peer's note of this name into *out (none: length 0). The note's length must be
 * `length`. */
static int take_note(struct gyre_stream *stream, struct gyre_table *notes,
                     const struct gyre_match *match, uint64_t length, struct gyre_note *out)
{
    struct gyre_note *note = gyre_table_find(notes, match);
    *out = (struct gyre_note){.length = 0};
    if (!note) {
        return 0;
    }
    if (note->length != length) {
        return gyre_stream_disagree(stream, match, note->slot.match.fingerprint);
    }
    *out = *note;
    if (note->spared_due)
        gyre_queue_unlink(&stream->out.spared, note);
    gyre_table_remove(notes, note);
    gyre_stream_agree_leave(stream, note->agreement, true);
    gyre_table_give(notes, note);
    return 0;
}

static int start_send(struct gyre_stream *stream, struct gyre_send *send)
{
    struct gyre_note grant;
    if (gyre_stream_go_on(stream, send)) {
        return 0;
    }
    stream->out.unframed++;
    if (send->length <= stream->eager) {
        send->state = GYRE_SEND_QUEUED;
        gyre_queue_push(&stream->out.eager, send);
        return 0;
    }
    int status = take_note(stream, &stream->grants, &send->slot.match, send->length, &grant);
    send->state = GYRE_SEND_WAITING;
    gyre_queue_push(&stream->out.patient, send);
    if (grant.length && !status) {
        send->placed = grant.placed;
        send->number = grant.number;
        send->place = grant.place;
        gyre_stream_granted(stream, send);
    } else {
        gyre_table_insert(&stream->sends, send);
    }
    return status;
}

static int post_send(struct gyre_stream *stream, const struct gyre_match *match, const void *data,
                     uint64_t length, uint64_t token, bool registered)
{
    int status = admit_post(stream, stream->sends_out, stream->posts);
    if (status) {
        return status;
    }
    uint64_t offset = 0;
    bool on_device = gyre_stream_is_on_device(stream, match, length);
    uint32_t region = on_device ? gyre_stream_locate_on_device(stream, data, length, &offset) : 0;
    if (on_device && !region && !registered) {
        return GYRE_INVALID;
    }
    struct gyre_send *send = gyre_table_take(&stream->sends, match);
    if (!send) {
        return GYRE_AGAIN;
    }
    send->region = region;
    send->offset = offset;
    send->on_device = on_device;
    send->registered = registered;
    send->agreement = gyre_stream_agree_join(stream, match, false, &status);
    if (!send->agreement) {
        gyre_table_give(&stream->sends, send);
        return refuse_post(stream, status);
    }
    send->data = data;
    send->length = length;
    send->token = token;
    send->live = true;
    status = start_send(stream, send);
    if (status) {
        send->live = false;
        return refuse_post(stream, status);
    }
    stream->sends_out++;
    if (stream->in.bye_heard) {
        gyre_stream_hear_nothing_more(stream);
    }
    return 0;
}

int gyre_stream_send(struct gyre_stream *stream, const struct gyre_match *match, const void *data,
                     uint64_t length, uint64_t token)
{
    return post_send(stream, match, data, length, token, false);
}

int gyre_stream_send_registered(struct gyre_stream *stream, const struct gyre_match *match,
                                const void *data, uint64_t length, uint64_t token)
{
    return post_send(stream, match, data, length, token, true);
}

/* Reuses a withdrawn receive whose message has not begun to come. */
static struct gyre_receive *revive(struct gyre_stream *stream, const struct gyre_match *match,
                                   uint64_t length)
{
    struct gyre_receive *receive = gyre_table_find(&stream->receives, match);
    while (receive && (receive->live || receive->got > 0 || receive->length != length ||
                       stream->in.receive == receive)) {
        receive = gyre_table_next(receive, match);
    }
    return receive;
}

static bool granted_already(const struct gyre_stream *stream, const struct gyre_match *match)
{
    const struct gyre_receive *receive = gyre_table_find(&stream->receives, match);
    while (receive && !receive->granted) {
        receive = gyre_table_next(receive, match);
    }
    return receive != NULL;
}

static int place_receive(struct gyre_stream *stream, const struct gyre_match *match,
                         uint64_t length, struct gyre_receive **out)
{
    struct gyre_note ask;
    *out = revive(stream, match, length);
    if (*out) {
        return 0;
    }
    if (length > stream->eager && granted_already(stream, match)) {
        return GYRE_INVALID;
    }
    struct gyre_receive *receive = gyre_table_take(&stream->receives, match);
    if (!receive) {
        return GYRE_AGAIN;
    }
    receive->length = length;
    gyre_table_insert(&stream->receives, receive);
    *out = receive;
    int status = take_note(stream, &stream->asks, match, length, &ask);
    if (!status && (ask.agreement || length > stream->eager)) {
        gyre_stream_grant(stream, receive);
    }
    return status;
}

static int receive_stored(struct gyre_stream *stream, struct gyre_stored *stored, void *data,
                          uint64_t length, uint64_t token)
{
    if (stored->parcel.length != length) {
        uint64_t theirs = stored->slot.match.fingerprint;
        return refuse_post(stream, gyre_stream_disagree(stream, &stored->slot.match, theirs));
    }
    gyre_stream_unstore(stream, stored, data);
    stream->receives_out++;
    gyre_stream_tell(stream, token, 0, false);
    return 0;
}

static int receive_later(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                         uint64_t length, uint64_t token, const struct gyre_remote_place *place)
{
    int status = 0;
    struct gyre_agreement *agreement = gyre_stream_agree_join(stream, match, false, &status);
    if (!agreement) {
        return refuse_post(stream, status);
    }
    struct gyre_receive *receive;
    status = place_receive(stream, match, length, &receive);
    if (status) {
        gyre_stream_agree_leave(stream, agreement, false);
        return refuse_post(stream, status);
    }
    receive->agreement = agreement;
    receive->data = data;
    receive->on_device = gyre_stream_is_on_device(stream, match, length);
    receive->registered = place;
    if (place)
        receive->place = *place;
    receive->token = token;
    receive->live = true;
    stream->receives_out++;
    if (stream->in.bye_heard) {
        gyre_stream_hear_nothing_more(stream);
    }
    return 0;
}

static int post_receive(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                        uint64_t length, uint64_t token, const struct gyre_remote_place *place)
{
    uint32_t most = match->early ? stream->posts / 2 : stream->posts;
    int status = admit_post(stream, stream->receives_out, most);
    if (status) {
        return status;
    }
    struct gyre_stored *stored = gyre_table_find(&stream->stored, match);
    if (stored && stored->slot.match.fingerprint == match->fingerprint) {
        return receive_stored(stream, stored, data, length, token);
    }
    return receive_later(stream, match, data, length, token, place);
}

int gyre_stream_recv(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                     uint64_t length, uint64_t token)
{
    return post_receive(stream, match, data, length, token, NULL);
}

int gyre_stream_recv_registered(struct gyre_stream *stream, const struct gyre_match *match,
                                void *data, uint64_t length, uint64_t token,
                                const struct gyre_remote_place *place)
{
    return post_receive(stream, match, data, length, token, place);
}
