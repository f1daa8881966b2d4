/* Streams against anything. The input is a script of one-byte orders with arguments; two plays:
 *
 *   hostile   one stream, and a peer that sends raw bytes, or frames of any kind and content whose
 *             sum is right, so that what lies behind the sum is reached too. The stream may fail,
 *             and then must end every post once.
 *   honest    two streams on each other, with posts, withdrawals and pieces in any order. Nothing
 *             may ever fail, and what is said to have arrived must be what was sent.
 *
 * As a program it plays seeded random scripts (GYRE_FUZZ_RUNS, default 1,000). As a libFuzzer
 * target:
 *
 *     clang -DGYRE_LIBFUZZER -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -Itests
 *         tests/fuzz/stream.c src/transport/{frame,stream*}.c src/base/{crc,rng,status}.c … */
#include "rig/stream_pair.h"

#include "transport/stream/frame.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define POSTS   24u
#define PENDING (-1000000)
#define TOKENS  4096

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

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
    struct stream_pair pair;
    struct post post[TOKENS];
    int posts, open;
    int names;         /* used so far, honest play */
    uint8_t sent[256]; /* per name: bit 0 posted by end 0, … */
};

static uint8_t next(struct script *script)
{
    return script->at < script->end ? *script->at++ : 0;
}

/* Lengths at which something changes. */
static uint64_t some_length(struct script *script)
{
    static const uint64_t lengths[] = {0,
                                       1,
                                       256,
                                       257,
                                       3000,
                                       GYRE_EAGER_MAX - 500,
                                       GYRE_EAGER_MAX,
                                       GYRE_EAGER_MAX,
                                       GYRE_EAGER_MAX + 1,
                                       GYRE_FRAME_PAYLOAD_MAX,
                                       GYRE_FRAME_PAYLOAD_MAX + 1,
                                       2 * GYRE_FRAME_PAYLOAD_MAX + 7};
    uint8_t pick = next(script);
    return lengths[pick % (sizeof lengths / sizeof *lengths)];
}

static struct gyre_match some_name(uint8_t i)
{
    return (struct gyre_match){.sequence = i >> 2 & 1, .order = i & 3, .fingerprint = 5};
}

static void paint(uint8_t *data, uint64_t length, int name)
{
    for (uint64_t i = 0; i < length; i++) {
        data[i] = (uint8_t)(i * 7 + (uint64_t)name * 13 + (i >> 8));
    }
}

static bool painted(const uint8_t *data, uint64_t length, int name)
{
    for (uint64_t i = 0; i < length; i++) {
        if (data[i] != (uint8_t)(i * 7 + (uint64_t)name * 13 + (i >> 8))) {
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
    static uint8_t wire[GYRE_FRAME_BYTES + GYRE_FRAME_PAYLOAD_MAX];
    struct script *script = &play->script;
    uint8_t kind = next(script) % 8;
    struct gyre_frame frame = {.kind = kind, .match = some_name(next(script))};
    frame.match.fingerprint += next(script) % 32 == 1;
    frame.epoch = next(script) % 64 == 1;
    uint64_t length = some_length(script);
    frame.length = (uint32_t)(length < GYRE_FRAME_PAYLOAD_MAX ? length : GYRE_FRAME_PAYLOAD_MAX);
    if (kind == GYRE_FRAME_GRANT || kind == GYRE_FRAME_ASK) {
        frame.length = 8;
        length = htole64(length);
        memcpy(wire + GYRE_FRAME_BYTES, &length, 8);
    } else if (kind != GYRE_FRAME_DATA && kind != GYRE_FRAME_PIECE) {
        frame.length = 0;
        frame.match.sequence = kind == GYRE_FRAME_CREDIT ? length : frame.match.sequence;
    }
    gyre_frame_encode(&frame, wire + GYRE_FRAME_BYTES, wire);
    feed(play, wire, GYRE_FRAME_BYTES + frame.length);
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
        do_post(play, 0, order % 2, &match, 0, some_length(&play->script));
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

/* Each name is sent once and received once, by ends and in an order that the script decides. */
static void honest_post(struct play *play, bool fresh)
{
    struct script *script = &play->script;
    if (fresh || play->names == 0) {
        play->names += play->names < 255;
        play->sent[play->names] = 0;
    }
    int name = fresh ? play->names : 1 + next(script) % play->names;
    struct gyre_match match = {
        .comm = name & 1, .sequence = (uint64_t)name / 8, .order = (uint16_t)name};
    int sender = name >> 1 & 1;
    bool send = !(play->sent[name] & 1) && (next(script) & 1 || play->sent[name] & 2);
    uint8_t pick[1] = {(uint8_t)(name * 37)};
    struct script lengths = {pick, pick + 1};
    uint8_t bit = send ? 1 : 2;
    if (play->sent[name] & bit) {
        return;
    }
    if (do_post(play, send ? sender : !sender, send, &match, name, some_length(&lengths))) {
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
    for (int i = 0; i < play->posts; i++) {
        bool withdrawn = false;
        int partners = 0;
        for (int j = 0; j < play->posts; j++) {
            bool same = play->post[j].name == play->post[i].name &&
                        play->post[j].send != play->post[i].send;
            partners += same;
            withdrawn |= same && play->post[j].cancelled;
        }
        REQUIRE(play->post[i].status != PENDING || partners == 0 || withdrawn);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play play;
    if (size < 1) {
        return 0;
    }
    play = (struct play){.script = {data + 1, data + size}};
    struct gyre_stream_options options = {.posts = POSTS, .checksum = !(data[0] & 2)};
    REQUIRE(gyre_stream_create(&options, &play.pair.end[0]) == 0);
    REQUIRE(gyre_stream_create(&options, &play.pair.end[1]) == 0);
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
int main(void)
{
    const char *text = getenv("GYRE_FUZZ_RUNS");
    uint64_t runs = text ? strtoull(text, NULL, 10) : 1000;
    for (uint64_t seed = 0; seed < runs; seed++) {
        struct gyre_rng rng;
        uint8_t script[600];
        gyre_rng_seed(&rng, seed);
        size_t length = 1 + gyre_rng_below(&rng, sizeof script);
        for (size_t i = 0; i < length; i++) {
            script[i] = (uint8_t)gyre_rng_next(&rng);
        }
        LLVMFuzzerTestOneInput(script, length);
    }
    printf("%llu scripts played\n", (unsigned long long)runs);
    return 0;
}
#endif
