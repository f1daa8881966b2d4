/* Streams against anything. The input is a script of one-byte orders with arguments; two plays:
 *
 *   hostile   one stream, and a peer that sends raw bytes, or frames of any kind and content whose
 *             sum is right, so that what lies behind the sum is reached too. The stream may fail,
 *             and then must end every post once. Where the stream has keys, which this peer lacks,
 *             nothing is ever received.
 *   honest    two streams on each other, with keys or without; posts, withdrawals and pieces in any
 *             order. Nothing may ever fail, and what is said to have arrived must be what was
 *             sent. */
#include "fuzz/fuzz.h"
#include "rig/stream_pair.h"

#include "transport/stream/frame.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A stream's tables and its store grow with these, and are cleared for every input. */
#define POSTS       12u
#define EAGER_SHORT 768
#define EAGER_LONG  4096

#define PENDING (-1000000)
#define TOKENS  1024
#define NAMES   255

struct script {
    const uint8_t *at, *end;
};

struct post {
    int status;
    int end, name;
    uint64_t length;
    uint8_t *data;
    bool send, cancelled;
};

struct play {
    struct script script;
    uint32_t eager; /* a longer message waits for a grant */
    struct stream_pair pair;
    struct post post[TOKENS];
    int posts, open;
    bool keyless;            /* hostile, and the peer lacks the keys that the stream has */
    int names;               /* used so far, honest play */
    uint8_t sent[NAMES + 1]; /* per name: bit 0 posted by end 0, … */
};

static uint8_t next(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

/* Lengths at which something changes; seldom one that takes as long as a hundred others. */
static uint64_t some_length(struct play *play, uint8_t pick)
{
    const uint64_t lengths[] = {
        0, 1, 256, 257, 3000, play->eager - 500, play->eager, play->eager + 1};
    static const uint64_t long_lengths[] = {GYRE_FRAME_PAYLOAD_MAX, GYRE_FRAME_PAYLOAD_MAX + 1,
                                            2 * GYRE_FRAME_PAYLOAD_MAX + 7};
    return pick < 253 ? lengths[pick % 8] : long_lengths[pick % 3];
}

static struct gyre_match some_name(uint8_t i)
{
    return (struct gyre_match){.sequence = i >> 2 & 1, .order = i & 3, .fingerprint = 5};
}

/* What a message has: 256 bytes of the row of its name, then of the next row, and so on. Rows are
 * copied and compared whole, because each comparison of one byte would be recorded. */
static const uint8_t *row_of(int name, uint64_t block)
{
    static uint8_t row[256][256];
    for (unsigned first = 0; !row[0][1] && first < 256; first++) {
        for (unsigned i = 0; i < 256; i++) {
            row[255 - first][i] = (uint8_t)(i * 7 + 255 - first);
        }
    }
    return row[((uint64_t)name * 13 + block) % 256];
}

static void paint(uint8_t *data, uint64_t length, int name)
{
    for (uint64_t at = 0; at < length; at += 256) {
        memcpy(data + at, row_of(name, at / 256), length - at < 256 ? length - at : 256);
    }
}

static bool painted(const uint8_t *data, uint64_t length, int name)
{
    for (uint64_t at = 0; at < length; at += 256) {
        if (memcmp(data + at, row_of(name, at / 256), length - at < 256 ? length - at : 256)) {
            return false;
        }
    }
    return true;
}

static struct post *do_post(struct play *play, int end, bool send, const struct gyre_match *match,
                            int name, uint64_t length)
{
    if (play->posts == TOKENS) {
        return NULL;
    }
    struct post *post = &play->post[play->posts];
    uint64_t token = (uint64_t)play->posts;
    *post =
        (struct post){.status = PENDING, .end = end, .name = name, .length = length, .send = send};
    post->data = malloc(length ? length : 1);
    if (send) {
        paint(post->data, length, name);
    }
    struct gyre_stream *stream = play->pair.end[end];
    int status = send ? gyre_stream_send(stream, match, post->data, length, token)
                      : gyre_stream_recv(stream, match, post->data, length, token);
    if (status) {
        free(post->data);
        post->data = NULL;
        return NULL;
    }
    play->posts++;
    play->open++;
    return post;
}

static void fetch(struct play *play, int end)
{
    struct gyre_completion done[4];
    int count = gyre_stream_complete(play->pair.end[end], done, 4);
    for (int i = 0; i < count; i++) {
        REQUIRE(done[i].token < (uint64_t)play->posts);
        struct post *post = &play->post[done[i].token];
        REQUIRE(post->status == PENDING && post->end == end && done[i].status <= 0);
        REQUIRE(!play->keyless || post->send || done[i].status < 0);
        post->status = done[i].status;
        play->open--;
        if (!post->send && done[i].status == 0 && play->names) {
            REQUIRE(painted(post->data, post->length, post->name));
        }
        free(post->data); /* touched once more, it is a use after free */
        post->data = NULL;
    }
}

static void cancel_some(struct play *play)
{
    if (play->posts == 0) {
        return;
    }
    struct post *post = &play->post[play->posts - 1 - next(&play->script) % play->posts % 16];
    int status = gyre_stream_cancel(play->pair.end[post->end], (uint64_t)(post - play->post));
    REQUIRE(status == 0 || status == -ENOENT);
    post->cancelled |= status == 0;
}

/* -- hostile ----------------------------------------------------------------------------------- */

static int feed(struct play *play, const uint8_t *bytes, size_t length)
{
    int status = 0;
    for (size_t done = 0; done < length && !status;) {
        struct iovec to[2], from = {.iov_base = (void *)(bytes + done), .iov_len = length - done};
        int count = gyre_stream_target(play->pair.end[0], to);
        REQUIRE(count == 1 || count == 2);
        REQUIRE(to[0].iov_len > 0 && to[count - 1].iov_len > 0);
        size_t moved = stream_copy(&from, 1, to, count, SIZE_MAX);
        status = gyre_stream_read(play->pair.end[0], moved);
        done += moved;
    }
    return status;
}

static void feed_raw(struct play *play)
{
    uint8_t bytes[64];
    size_t length = next(&play->script) % sizeof bytes;
    for (size_t i = 0; i < length; i++) {
        bytes[i] = next(&play->script);
    }
    feed(play, bytes, length);
}

static void feed_frame(struct play *play)
{
    static uint8_t wire[GYRE_FRAME_HEAD_MOST + GYRE_FRAME_PAYLOAD_MAX];
    const uint32_t head = gyre_stream_head_bytes(play->pair.end[0]);
    struct script *script = &play->script;
    uint8_t kind = next(script) % 8;
    struct gyre_frame frame = {.kind = kind, .match = some_name(next(script))};
    frame.match.fingerprint += next(script) % 32 == 1;
    frame.epoch = next(script) % 64 == 1;
    uint64_t length = some_length(play, next(script));
    frame.length = (uint32_t)(length < GYRE_FRAME_PAYLOAD_MAX ? length : GYRE_FRAME_PAYLOAD_MAX);
    if (kind == GYRE_FRAME_GRANT || kind == GYRE_FRAME_ASK) {
        frame.length = 8;
        length = htole64(length);
        memcpy(wire + head, &length, 8);
    } else if (kind != GYRE_FRAME_DATA && kind != GYRE_FRAME_PIECE) {
        frame.length = 0;
        frame.match.sequence = kind == GYRE_FRAME_CREDIT ? length : frame.match.sequence;
    }
    frame.summed = head == GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES;
    gyre_frame_encode(&frame, wire);
    if (frame.summed)
        gyre_frame_sum_payload(wire, wire + head, frame.length);
    feed(play, wire, head + frame.length);
}

static void write_some(struct play *play)
{
    struct iovec iov[4];
    size_t offered = 0, most = (size_t)next(&play->script) * 64;
    int count = gyre_stream_gather(play->pair.end[0], iov, 4);
    for (int i = 0; i < count; i++) {
        offered += iov[i].iov_len;
    }
    gyre_stream_wrote(play->pair.end[0], offered < most ? offered : most);
}

static void hostile_order(struct play *play)
{
    uint8_t order = next(&play->script);
    struct gyre_match match = some_name(next(&play->script));
    switch (order % 8) {
    case 0:
    case 1:
        do_post(play, 0, order % 2, &match, 0, some_length(play, next(&play->script)));
        break;
    case 2:
        feed_raw(play);
        break;
    case 3:
    case 4:
    case 5:
        feed_frame(play);
        break;
    case 6:
        write_some(play);
        fetch(play, 0);
        break;
    case 7:
        cancel_some(play);
        if (next(&play->script) % 16 == 0) {
            gyre_stream_bye(play->pair.end[0]);
        }
        break;
    }
}

static void play_hostile(struct play *play)
{
    while (play->script.at < play->script.end) {
        hostile_order(play);
    }
    gyre_stream_fail(play->pair.end[0], GYRE_PEER_LOST);
    while (play->open > 0) {
        int before = play->open;
        fetch(play, 0);
        REQUIRE(play->open < before);
    }
}

/* -- honest ------------------------------------------------------------------------------------ */

/* Each name is sent once and received once, by ends and in an order that the script decides. A
 * fresh name is one that no post has had; where all are used up, nothing is posted. */
static void honest_post(struct play *play, bool fresh)
{
    struct script *script = &play->script;
    if (fresh && play->names == NAMES)
        return;
    if (fresh || play->names == 0)
        play->sent[++play->names] = 0;
    int name = fresh ? play->names : 1 + next(script) % play->names;
    struct gyre_match match = {
        .comm = name & 1, .sequence = (uint64_t)name / 8, .order = (uint16_t)name};
    int sender = name >> 1 & 1;
    bool send = !(play->sent[name] & 1) && (next(script) & 1 || play->sent[name] & 2);
    uint8_t bit = send ? 1 : 2;
    if (play->sent[name] & bit) {
        return;
    }
    if (do_post(play, send ? sender : !sender, send, &match, name,
                some_length(play, (uint8_t)(name * 37)))) {
        play->sent[name] |= bit;
    }
}

static void honest_order(struct play *play)
{
    uint8_t order = next(&play->script);
    switch (order % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
        honest_post(play, order & 8);
        break;
    case 4:
    case 5:
        play->pair.piece =
            1 + (size_t)(order >> 3) * (size_t)(order >> 3) * (1u << next(&play->script) % 11);
        stream_pair_move(&play->pair, order & 1);
        break;
    case 6:
        fetch(play, 0);
        fetch(play, 1);
        break;
    case 7:
        if (next(&play->script) % 4 == 0) {
            cancel_some(play);
        }
        break;
    }
}

static void settle(struct play *play)
{
    int before;
    play->pair.piece = 0;
    do {
        before = play->open;
        stream_pair_settle(&play->pair);
        fetch(play, 0);
        fetch(play, 1);
    } while (play->open < before);
}

/* A message whose both posts stand must have gone; what is left has no partner, or one that was
 * withdrawn. */
static void nothing_is_stuck(struct play *play)
{
    uint8_t stands[2][NAMES + 1] = {{0}}, withdrawn[2][NAMES + 1] = {{0}};
    for (int i = 0; i < play->posts; i++) {
        const struct post *post = &play->post[i];
        stands[post->send][post->name] = 1;
        withdrawn[post->send][post->name] |= post->cancelled;
    }
    for (int i = 0; i < play->posts; i++) {
        const struct post *post = &play->post[i];
        REQUIRE(post->status != PENDING || !stands[!post->send][post->name] ||
                withdrawn[!post->send][post->name]);
    }
}

static void play_honest(struct play *play)
{
    while (play->script.at < play->script.end) {
        honest_order(play);
        REQUIRE(play->pair.status[0] == 0 && play->pair.status[1] == 0);
    }
    settle(play);
    REQUIRE(play->pair.status[0] == 0 && play->pair.status[1] == 0);
    nothing_is_stuck(play);
    for (int i = 0; i < play->posts; i++) {
        gyre_stream_cancel(play->pair.end[play->post[i].end], (uint64_t)i);
    }
    settle(play);
    REQUIRE(play->open == 0);
    REQUIRE(play->pair.status[0] == 0 && play->pair.status[1] == 0);
}

/* Seldom with encryption: such a stream has buffers of 1 MiB. libFuzzer keeps and mutates inputs
 * whatever they cost, so their length decides, too. */
static enum gyre_seal_mode some_security(uint8_t pick, size_t size)
{
    if (pick == 31 && size % 8 == 0)
        return GYRE_SEAL_ENCRYPT;
    return pick >= 16 ? GYRE_SEAL_AUTH : GYRE_SEAL_NONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play play;
    if (size < 1) {
        return 0;
    }
    play.script = (struct script){data + 1, data + size};
    play.eager = data[0] & 128 ? EAGER_LONG : EAGER_SHORT;
    play.posts = play.open = play.names = 0;
    play.pair = (struct stream_pair){0};
    struct gyre_stream_options options = {
        .posts = POSTS, .checksum = !(data[0] & 2), .eager = play.eager};
    enum gyre_seal_mode security = some_security(data[0] >> 2 & 31, size);
    play.keyless = data[0] & 1 && security;
    REQUIRE(stream_pair_open(&play.pair, options, security) == 0);
    if (data[0] & 1) {
        play_hostile(&play);
    } else {
        play_honest(&play);
    }
    gyre_stream_destroy(play.pair.end[0]);
    gyre_stream_destroy(play.pair.end[1]);
    return 0;
}

#ifndef GYRE_LIBFUZZER

static size_t make_case(uint64_t seed, uint8_t *data)
{
    return fuzz_random_bytes(seed, 1, 601, data);
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 1000, make_case);
}

#endif
