/* The life of a stream and of its posts. The two directions are in stream_out.c and stream_in.c.
 *
 * Every post is a record in a table, every record is found by its message's name, and all memory is
 * one piece that is cut up at create(). A post is accepted while fewer than `posts` of its
 * direction are accepted and not yet fetched by complete(), so the ring of completions never
 * overflows.
 *
 *     recv(name) ── stored already? ──▶ copy, complete
 *               └── no: receives[name]; GRANT if it is long or the peer has asked
 *     send(name) ── short: out.eager, as credit allows
 *               └── long: granted already? out.granted : sends[name] until the GRANT comes
 *
 * Withdrawn posts complete at once, but a record on which the peer relies stays: a granted receive
 * swallows its message when it comes, an asked or granted send answers VOID. So each table holds
 * twice as many records as posts. Messages of equal names that are outstanding at once are not told
 * apart; collectives never make them. */
#include "transport/stream_state.h"

#include <errno.h>
#include <stdlib.h>

#define POSTS_MAX  65536u
#define STORED_MAX (GYRE_UNEXPECTED_BYTES / GYRE_UNEXPECTED_CHARGE)
#define CACHE_LINE 64u

/* -- create and destroy
 * ------------------------------------------------------------------------------------------ */

struct table_plan {
    size_t table; /* offset in struct gyre_stream */
    uint32_t capacity, stride;
};

#define TABLES 6

static void plan_tables(uint32_t posts, struct table_plan plan[TABLES])
{
    uint32_t most = 2 * posts;
    const struct table_plan all[TABLES] = {
        {offsetof(struct gyre_stream, receives), most, sizeof(struct gyre_receive)},
        {offsetof(struct gyre_stream, sends), most, sizeof(struct gyre_send)},
        {offsetof(struct gyre_stream, grants), most, sizeof(struct gyre_note)},
        {offsetof(struct gyre_stream, asks), most, sizeof(struct gyre_note)},
        {offsetof(struct gyre_stream, agreements), 4 * most + STORED_MAX,
         sizeof(struct gyre_agreement)},
        {offsetof(struct gyre_stream, stored), STORED_MAX, sizeof(struct gyre_stored)}};
    for (int i = 0; i < TABLES; i++) {
        plan[i] = all[i];
    }
}

static uint32_t done_capacity(uint32_t posts)
{
    uint32_t capacity = 2;
    while (capacity < 2 * posts) {
        capacity *= 2;
    }
    return capacity;
}

/* The next `bytes` of `memory`; NULL memory only counts. What is used first lies first. */
static void *carve(uint8_t *memory, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return memory ? memory + at : NULL;
}

static size_t lay_out(uint8_t *memory, uint32_t posts)
{
    size_t used = 0;
    struct table_plan plan[TABLES];
    struct gyre_stream *stream = carve(memory, &used, sizeof *stream);
    uint32_t done = done_capacity(posts);
    void *completions = carve(memory, &used, done * sizeof(struct gyre_done));
    void *stage = carve(memory, &used, GYRE_STREAM_STAGE_BYTES);
    plan_tables(posts, plan);
    for (int i = 0; i < TABLES; i++) {
        void *table = carve(memory, &used, gyre_table_bytes(plan[i].capacity, plan[i].stride));
        if (memory) {
            gyre_table_init((struct gyre_table *)(memory + plan[i].table), table, plan[i].capacity,
                            plan[i].stride);
        }
    }
    void *ahead = carve(memory, &used, GYRE_STREAM_AHEAD_BYTES);
    void *store = carve(memory, &used, sizeof(struct gyre_store));
    if (memory) {
        stream->done = completions;
        stream->done_mask = done - 1;
        stream->out.stage = stage;
        stream->in.ahead = ahead;
        stream->store = store;
    }
    return used;
}

int gyre_stream_create(const struct gyre_stream_options *options, struct gyre_stream **stream)
{
    if (options->posts == 0 || options->posts > POSTS_MAX) {
        return GYRE_INVALID;
    }
    size_t bytes = lay_out(NULL, options->posts);
    struct gyre_stream *fresh = calloc(1, bytes); /* untouched pages stay unused */
    if (!fresh) {
        return -ENOMEM;
    }
    lay_out((uint8_t *)fresh, options->posts);
    gyre_store_init(fresh->store);
    fresh->epoch = options->epoch;
    fresh->checksum = options->checksum;
    fresh->posts = options->posts;
    fresh->footprint = bytes;
    *stream = fresh;
    return 0;
}

void gyre_stream_destroy(struct gyre_stream *stream)
{
    if (stream) {
        free(stream->out.torn);
        free(stream);
    }
}

size_t gyre_stream_footprint(const struct gyre_stream *stream)
{
    return stream->footprint;
}

/* -- completions
 * -------------------------------------------------------------------------------------------------
 */

static void complete(struct gyre_stream *stream, uint64_t token, int status, bool send)
{
    stream->done[stream->done_end++ & stream->done_mask] =
        (struct gyre_done){.completion = {.token = token, .status = status}, .send = send};
}

int gyre_stream_complete(struct gyre_stream *stream, struct gyre_completion *out, int max)
{
    int count = 0;
    while (count < max && stream->done_first != stream->done_end) {
        const struct gyre_done *done = &stream->done[stream->done_first++ & stream->done_mask];
        out[count++] = done->completion;
        *(done->send ? &stream->sends_out : &stream->receives_out) -= 1;
    }
    return count;
}

void gyre_stream_end_send(struct gyre_stream *stream, struct gyre_send *send, int status)
{
    complete(stream, send->token, status, true);
    send->live = false;
    gyre_stream_agree_leave(stream, send->agreement, false);
}

void gyre_stream_release_send(struct gyre_stream *stream, struct gyre_send *send)
{
    send->state = GYRE_SEND_FREE;
    gyre_table_give(&stream->sends, send);
}

void gyre_stream_finish_send(struct gyre_stream *stream, struct gyre_send *send, int status)
{
    gyre_stream_end_send(stream, send, status);
    gyre_stream_release_send(stream, send);
}

void gyre_stream_end_receive(struct gyre_stream *stream, struct gyre_receive *receive, int status)
{
    complete(stream, receive->token, status, false);
    receive->live = false;
    gyre_stream_agree_leave(stream, receive->agreement, false);
}

void gyre_stream_release_receive(struct gyre_stream *stream, struct gyre_receive *receive)
{
    gyre_table_remove(&stream->receives, receive);
    gyre_table_give(&stream->receives, receive);
}

void gyre_stream_finish_receive(struct gyre_stream *stream, struct gyre_receive *receive,
                                int status)
{
    gyre_stream_end_receive(stream, receive, status);
    gyre_stream_release_receive(stream, receive);
}

/* -- posts
 * -------------------------------------------------------------------------------------------------------
 */

static int admit(const struct gyre_stream *stream, uint32_t outstanding)
{
    if (stream->status) {
        return stream->status;
    }
    if (stream->out.bye_asked) {
        return GYRE_INVALID;
    }
    return outstanding == stream->posts ? GYRE_AGAIN : 0;
}

/* A disagreement between the ends is the stream's failure, not only the post's. */
static int refuse(struct gyre_stream *stream, int status)
{
    if (status == GYRE_MISMATCH) {
        gyre_stream_fail(stream, status);
    }
    return status;
}

/* Removes the peer's note of this name and says whether there was one; its length must be `length`.
 */
static int take_note(struct gyre_stream *stream, struct gyre_table *notes,
                     const struct gyre_match *match, uint64_t length, bool *noted)
{
    struct gyre_note *note = gyre_table_find(notes, match);
    *noted = note != NULL;
    if (!note) {
        return 0;
    }
    if (note->length != length) {
        return gyre_stream_disagree(stream, match, note->slot.match.fingerprint);
    }
    gyre_table_remove(notes, note);
    gyre_stream_agree_leave(stream, note->agreement, true);
    gyre_table_give(notes, note);
    return 0;
}

static int start_send(struct gyre_stream *stream, struct gyre_send *send)
{
    bool granted = false;
    stream->out.unframed++;
    if (send->length <= GYRE_EAGER_MAX) {
        send->state = GYRE_SEND_QUEUED;
        gyre_queue_push(&stream->out.eager, send);
        return 0;
    }
    int status = take_note(stream, &stream->grants, &send->slot.match, send->length, &granted);
    send->state = GYRE_SEND_WAITING;
    gyre_queue_push(&stream->out.patient, send);
    if (granted && !status) {
        gyre_stream_granted(stream, send);
    } else {
        gyre_table_insert(&stream->sends, send);
    }
    return status;
}

int gyre_stream_send(struct gyre_stream *stream, const struct gyre_match *match, const void *data,
                     uint64_t length, uint64_t token)
{
    int status = admit(stream, stream->sends_out);
    if (status) {
        return status;
    }
    struct gyre_send *send = gyre_table_take(&stream->sends, match);
    if (!send) {
        return GYRE_AGAIN;
    }
    send->agreement = gyre_stream_agree_join(stream, match, false, &status);
    if (!send->agreement) {
        gyre_table_give(&stream->sends, send);
        return refuse(stream, status);
    }
    send->data = data;
    send->length = length;
    send->token = token;
    send->live = true;
    status = start_send(stream, send);
    if (status) {
        send->live = false;
        return refuse(stream, status);
    }
    stream->sends_out++;
    if (stream->in.bye_heard) {
        gyre_stream_hear_nothing_more(stream);
    }
    return 0;
}

/* A withdrawn receive whose message has not begun to come is the new one's place. */
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
    bool asked = false;
    *out = revive(stream, match, length);
    if (*out) {
        return 0;
    }
    if (length > GYRE_EAGER_MAX && granted_already(stream, match)) {
        return GYRE_INVALID;
    }
    struct gyre_receive *receive = gyre_table_take(&stream->receives, match);
    if (!receive) {
        return GYRE_AGAIN;
    }
    receive->length = length;
    gyre_table_insert(&stream->receives, receive);
    *out = receive;
    int status = take_note(stream, &stream->asks, match, length, &asked);
    if (!status && (asked || length > GYRE_EAGER_MAX)) {
        gyre_stream_grant(stream, receive);
    }
    return status;
}

static int receive_stored(struct gyre_stream *stream, struct gyre_stored *stored, void *data,
                          uint64_t length, uint64_t token)
{
    if (stored->parcel.length != length) {
        uint64_t theirs = stored->slot.match.fingerprint;
        return refuse(stream, gyre_stream_disagree(stream, &stored->slot.match, theirs));
    }
    stream->credit.given += stored->parcel.length + GYRE_UNEXPECTED_CHARGE;
    gyre_store_take(stream->store, &stored->parcel, data);
    gyre_table_remove(&stream->stored, stored);
    gyre_stream_agree_leave(stream, stored->agreement, true);
    gyre_table_give(&stream->stored, stored);
    stream->receives_out++;
    complete(stream, token, 0, false);
    return 0;
}

static int post_receive(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                        uint64_t length, uint64_t token)
{
    int status = 0;
    struct gyre_agreement *agreement = gyre_stream_agree_join(stream, match, false, &status);
    if (!agreement) {
        return refuse(stream, status);
    }
    struct gyre_receive *receive;
    status = place_receive(stream, match, length, &receive);
    if (status) {
        gyre_stream_agree_leave(stream, agreement, false);
        return refuse(stream, status);
    }
    receive->agreement = agreement;
    receive->data = data;
    receive->token = token;
    receive->live = true;
    stream->receives_out++;
    if (stream->in.bye_heard) {
        gyre_stream_hear_nothing_more(stream);
    }
    return 0;
}

int gyre_stream_recv(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                     uint64_t length, uint64_t token)
{
    int status = admit(stream, stream->receives_out);
    if (status) {
        return status;
    }
    struct gyre_stored *stored = gyre_table_find(&stream->stored, match);
    if (stored && stored->slot.match.fingerprint == match->fingerprint) {
        return receive_stored(stream, stored, data, length, token);
    }
    return post_receive(stream, match, data, length, token);
}

/* -- the end
 * -----------------------------------------------------------------------------------------------------
 */

int gyre_stream_cancel(struct gyre_stream *stream, uint64_t token)
{
    struct gyre_receive *receive;
    for (uint32_t i = 0; (receive = gyre_table_record(&stream->receives, i)); i++) {
        if (receive->live && receive->token == token) {
            gyre_stream_withdraw_receive(stream, receive, -ECANCELED);
            return 0;
        }
    }
    struct gyre_send *send;
    for (uint32_t i = 0; (send = gyre_table_record(&stream->sends, i)); i++) {
        if (send->live && send->token == token) {
            gyre_stream_withdraw_send(stream, send, -ECANCELED);
            return 0;
        }
    }
    return -ENOENT;
}

void gyre_stream_fail(struct gyre_stream *stream, int status)
{
    if (stream->status) {
        return;
    }
    stream->status = status;
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

void gyre_stream_bye(struct gyre_stream *stream)
{
    stream->out.bye_asked = true;
}

bool gyre_stream_said_bye(const struct gyre_stream *stream)
{
    return stream->out.bye_said;
}

bool gyre_stream_heard_bye(const struct gyre_stream *stream)
{
    return stream->in.bye_heard;
}

void gyre_stream_mismatch(const struct gyre_stream *stream, struct gyre_match *mine,
                          uint64_t *theirs)
{
    *mine = stream->mine;
    *theirs = stream->theirs;
}
