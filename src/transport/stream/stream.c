/* The life of a stream: its memory, its completions, its end.
 *
 * Every post is a record in a table, every record is found by its message's name, and all memory is
 * one piece that is cut up at create(). A post is accepted while fewer than `posts` of its
 * direction are accepted and not yet fetched by complete(), so the ring of completions never
 * overflows.
 *
 *     stream │ completions │ stage │ receives sends grants asks agreements stored │ ahead │ store │
 *     │ cipher
 *            └── what every message touches lies together; the rest is not even mapped until used
 *
 * Withdrawn posts complete at once, but a record on which the peer relies stays: a granted receive
 * swallows its message when it comes, an asked or granted send answers VOID. So each table holds
 * twice as many records as posts. */
#include "transport/stream/inside.h"

#include <errno.h>
#include <stdlib.h>

#define POSTS_MAX  65536u
#define CACHE_LINE 64u

/* -- create and destroy ------------------------------------------------------------------------ */

struct table_plan {
    size_t table; /* offset in struct gyre_stream */
    uint32_t capacity, stride;
};

#define TABLES 6

static void plan_tables(uint32_t posts, uint32_t stored, struct table_plan plan[TABLES])
{
    uint32_t most = 2 * posts;
    const struct table_plan all[TABLES] = {
        {offsetof(struct gyre_stream, receives), most, sizeof(struct gyre_receive)},
        {offsetof(struct gyre_stream, sends), most, sizeof(struct gyre_send)},
        {offsetof(struct gyre_stream, grants), most, sizeof(struct gyre_note)},
        {offsetof(struct gyre_stream, asks), most, sizeof(struct gyre_note)},
        {offsetof(struct gyre_stream, agreements), 4 * most + stored,
         sizeof(struct gyre_agreement)},
        {offsetof(struct gyre_stream, stored), stored, sizeof(struct gyre_stored)}};
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

/* Cuts the next `bytes` from `memory`; NULL memory only counts. Memory that is used first lies
 * first. */
static void *carve(uint8_t *memory, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return memory ? memory + at : NULL;
}

static size_t lay_out_stream(uint8_t *memory, uint32_t posts, uint32_t unexpected, bool encrypts)
{
    size_t used = 0;
    struct table_plan plan[TABLES];
    struct gyre_stream *stream = carve(memory, &used, sizeof *stream);
    uint32_t done = done_capacity(posts);
    void *completions = carve(memory, &used, done * sizeof(struct gyre_done));
    void *stage = carve(memory, &used, GYRE_STREAM_STAGE_BYTES);
    plan_tables(posts, unexpected / GYRE_UNEXPECTED_CHARGE, plan);
    for (int i = 0; i < TABLES; i++) {
        void *table = carve(memory, &used, gyre_table_bytes(plan[i].capacity, plan[i].stride));
        if (memory) {
            gyre_table_init((struct gyre_table *)(memory + plan[i].table), table, plan[i].capacity,
                            plan[i].stride);
        }
    }
    void *ahead = carve(memory, &used, GYRE_STREAM_AHEAD_BYTES);
    void *store = carve(memory, &used, gyre_unexpected_bytes(unexpected));
    void *cipher = encrypts ? carve(memory, &used, GYRE_STREAM_CIPHER_BYTES) : NULL;
    if (memory) {
        stream->done = completions;
        stream->done_mask = done - 1;
        stream->out.stage = stage;
        stream->in.ahead = ahead;
        stream->out.cipher = (struct gyre_cipher_ring){
            .bytes = cipher, .size = GYRE_STREAM_CIPHER_BYTES, .most = GYRE_FRAME_PAYLOAD_MAX};
        gyre_unexpected_init(&stream->store, store, unexpected);
    }
    return used;
}

static void destroy_seals(struct gyre_stream *stream)
{
    gyre_seal_destroy(stream->seal_out);
    gyre_seal_destroy(stream->seal_in);
    stream->seal_out = stream->seal_in = NULL;
}

static int create_seals(struct gyre_stream *stream, const struct gyre_stream_options *options)
{
    stream->head = GYRE_FRAME_BYTES + (stream->checksum ? GYRE_FRAME_SUM_BYTES : 0);
    if (options->security == GYRE_SEAL_NONE)
        return 0;
    stream->head = GYRE_FRAME_HEAD_MOST;
    stream->checksum = false;
    int status = gyre_seal_create(options->security, false, options->keys->out, &stream->seal_out);
    if (!status)
        status = gyre_seal_create(options->security, true, options->keys->in, &stream->seal_in);
    if (status)
        destroy_seals(stream);
    return status;
}

bool gyre_stream_encrypts(const struct gyre_stream *stream)
{
    return stream->out.cipher.bytes != NULL;
}

bool gyre_stream_has_keys(const struct gyre_stream *stream)
{
    return stream->seal_in != NULL;
}

uint32_t gyre_stream_head_bytes(const struct gyre_stream *stream)
{
    return stream->head;
}

int gyre_stream_create(const struct gyre_stream_options *options, struct gyre_stream **stream)
{
    uint32_t eager = options->eager ? options->eager : GYRE_EAGER_MAX;
    uint32_t unexpected = GYRE_UNEXPECTED_TIMES * eager;
    if (options->posts == 0 || options->posts > POSTS_MAX || eager > GYRE_EAGER_MOST) {
        return GYRE_INVALID;
    }
    const bool encrypts = options->security == GYRE_SEAL_ENCRYPT;
    size_t bytes = lay_out_stream(NULL, options->posts, unexpected, encrypts);
    struct gyre_stream *fresh = calloc(1, bytes); /* untouched pages stay unused */
    if (!fresh) {
        return -ENOMEM;
    }
    lay_out_stream((uint8_t *)fresh, options->posts, unexpected, encrypts);
    fresh->eager = eager;
    fresh->unexpected = unexpected;
    fresh->epoch = options->epoch;
    fresh->checksum = options->checksum;
    fresh->peer = options->peer;
    fresh->lookup = options->lookup;
    fresh->places_most = options->places;
    fresh->copy_queue = options->lookup && options->lookup->copy_queue ? options->lookup->copy_queue
                                                                       : options->copy_queue;
    fresh->posts = options->posts;
    int status = create_seals(fresh, options);
    if (status) {
        free(fresh);
        return status;
    }
    *stream = fresh;
    return 0;
}

void gyre_stream_destroy(struct gyre_stream *stream)
{
    struct gyre_receive *receive;
    if (!stream) {
        return;
    }
    gyre_stream_settle(stream);
    for (uint32_t i = 0; (receive = gyre_table_record(&stream->receives, i)); i++) {
        free(receive->staged_in);
    }
    struct gyre_send *send;
    for (uint32_t i = 0; (send = gyre_table_record(&stream->sends, i)); i++) {
        free(send->staged_out);
    }
    free(stream->out.torn);
    destroy_seals(stream);
    free(stream);
}

/* -- completions ------------------------------------------------------------------------------- */

bool gyre_stream_waits(const struct gyre_stream *stream)
{
    return stream->sends_out + stream->receives_out != stream->done_end - stream->done_first;
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

/* -- the end ----------------------------------------------------------------------------------- */

int gyre_stream_failure(const struct gyre_stream *stream)
{
    return stream->status;
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
