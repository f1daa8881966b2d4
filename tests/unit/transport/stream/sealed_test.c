/* Streams with keys: forged, repeated, dropped and moved frames, short messages without a post, and
 * what an encrypted payload shows. What streams do without an adversary is in stream_test.c and
 * ends_test.c, which run with keys too. */
#include "unit/transport/stream/stream_fixture.h"

#include "base/bytes.h"
#include "transport/stream/inside.h"

#include <errno.h>

#define FORGERIES 10000
#define LENGTHS   6
#define WIRE_MOST (1 << 20)

static const uint64_t lengths[LENGTHS] = {0, 8, 40, 300, 4000, GYRE_EAGER_MAX};

/* What end 0 writes of its next posts, up to `most` bytes of `wire`. */
static size_t write_all(struct fixture *f, uint8_t *wire, size_t most)
{
    struct iovec iov[8];
    size_t length = 0;
    int count;
    while ((count = gyre_stream_gather(f->pair.end[0], iov, 8)) > 0) {
        struct iovec to = {wire + length, most - length};
        size_t moved = stream_copy(iov, count, &to, 1, SIZE_MAX);
        assert_true(moved > 0);
        gyre_stream_wrote(f->pair.end[0], moved);
        length += moved;
    }
    return length;
}

static int read_all(struct fixture *f, const uint8_t *wire, size_t length)
{
    int status = 0;
    while (length > 0 && !status) {
        struct iovec to[2], from = {(void *)(uintptr_t)wire, length};
        int count = gyre_stream_target(f->pair.end[1], to);
        size_t moved = stream_copy(&from, 1, to, count, SIZE_MAX);
        status = gyre_stream_read(f->pair.end[1], moved);
        wire += moved;
        length -= moved;
    }
    return status;
}

/* -- forgeries --------------------------------------------------------------------------------- */

struct spoil {
    uint8_t *wire, *frame[LENGTHS];
    size_t length, bytes[LENGTHS];
};

static void flip_a_bit(struct spoil *spoil, struct gyre_rng *rng)
{
    uint64_t bit = gyre_rng_below(rng, 8 * spoil->length);
    spoil->wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* The adversary knows the CRC of a header, and makes it right. */
static void change_a_header(struct spoil *spoil, struct gyre_rng *rng)
{
    uint8_t *head = spoil->frame[gyre_rng_below(rng, LENGTHS)];
    head[8 + gyre_rng_below(rng, 20)] ^= (uint8_t)(1 + gyre_rng_below(rng, 255));
    gyre_put32(head + 28, gyre_frame_sum(head));
}

static void drop_a_frame(struct spoil *spoil, struct gyre_rng *rng)
{
    size_t i = gyre_rng_below(rng, LENGTHS - 1);
    size_t behind = spoil->length - (size_t)(spoil->frame[i + 1] - spoil->wire);
    memmove(spoil->frame[i], spoil->frame[i + 1], behind);
    spoil->length -= spoil->bytes[i];
}

static void repeat_a_frame(struct spoil *spoil, struct gyre_rng *rng)
{
    size_t i = gyre_rng_below(rng, LENGTHS);
    uint8_t *behind = spoil->frame[i] + spoil->bytes[i];
    memmove(behind + spoil->bytes[i], behind, spoil->length - (size_t)(behind - spoil->wire));
    memcpy(behind, spoil->frame[i], spoil->bytes[i]);
    spoil->length += spoil->bytes[i];
}

static void swap_two_frames(struct spoil *spoil, struct gyre_rng *rng)
{
    static uint8_t copy[2 * (GYRE_FRAME_HEAD_MOST + GYRE_EAGER_MAX)];
    size_t i = gyre_rng_below(rng, LENGTHS - 1);
    memcpy(copy, spoil->frame[i + 1], spoil->bytes[i + 1]);
    memcpy(copy + spoil->bytes[i + 1], spoil->frame[i], spoil->bytes[i]);
    memcpy(spoil->frame[i], copy, spoil->bytes[i] + spoil->bytes[i + 1]);
}

static void (*const spoilers[])(struct spoil *, struct gyre_rng *) = {
    flip_a_bit, change_a_header, drop_a_frame, repeat_a_frame, swap_two_frames};

/* Six messages of which one is forged: those before it arrive, those behind it never do. */
static void forge(struct gyre_rng *rng, uint8_t *wire, unsigned how)
{
    static uint8_t out[LENGTHS][GYRE_EAGER_MAX];
    struct fixture *f = fixture_new(POSTS, true);
    struct spoil spoil = {.wire = wire};
    uint8_t *data = pattern(GYRE_EAGER_MAX, 3);
    for (uint64_t i = 0; i < LENGTHS; i++) {
        memset(out[i], 0, lengths[i]);
        assert_int_equal(post_recv(f, 1, i, out[i], lengths[i]), 0);
        assert_int_equal(post_send(f, 0, i, data, lengths[i]), 0);
        spoil.frame[i] = wire + spoil.length;
        spoil.bytes[i] = HEAD + lengths[i];
        spoil.length += write_all(f, spoil.frame[i], WIRE_MOST);
    }
    spoilers[how](&spoil, rng);
    memset(wire + spoil.length, 0,
           GYRE_FRAME_PAYLOAD_MAX); /* for a length that has become longer */
    assert_int_equal(read_all(f, wire, spoil.length + GYRE_FRAME_PAYLOAD_MAX), GYRE_CORRUPT);
    fetch(f);
    for (uint64_t i = 0; i < LENGTHS; i++)
        if (f->got[i] == 0)
            assert_memory_equal(out[i], data, lengths[i]);
        else
            assert_int_equal(f->got[i], GYRE_CORRUPT);
    free(data);
    fixture_free(f);
}

static void no_forgery_passes(void **state)
{
    uint8_t *wire = malloc(2 * WIRE_MOST);
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 5);
    for (unsigned i = 0; i < FORGERIES / 2; i++)
        forge(&rng, wire, i % (sizeof spoilers / sizeof *spoilers));
    free(wire);
}

/* What this end wrote itself is not what the peer wrote. */
static void a_reflected_frame_is_corrupt(void **state)
{
    static uint8_t wire[1000];
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t out[8];
    assert_int_equal(post_recv(f, 0, 0, out, 8), 0);
    assert_int_equal(post_send(f, 0, 0, "message", 8), 0);
    size_t length = write_all(f, wire, sizeof wire);
    struct gyre_stream *other = f->pair.end[1];
    f->pair.end[1] = f->pair.end[0];
    assert_int_equal(read_all(f, wire, length), GYRE_CORRUPT);
    f->pair.end[1] = other;
    fixture_free(f);
}

/* -- without a post ---------------------------------------------------------------------------- */

/* A message of which the carrier took nothing has no number, and one that read_now() does not find
 * right fails the stream. */
static void short_messages_without_a_post(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    struct gyre_match match = name(1);
    uint8_t frame[GYRE_FRAME_HEAD_MOST + 8], *body = frame + HEAD, out[8];
    struct iovec to[2];
    int status;
    assert_int_equal(gyre_stream_leave_now(f->pair.end[0], &match, "message", 8, frame, NULL),
                     security == GYRE_SEAL_AUTH);
    if (security == GYRE_SEAL_AUTH)
        gyre_stream_leave_rest(f->pair.end[0], &match, "message", 8, frame, 0);
    for (int i = 0; i < 3; i++) {
        match = name(1 + (uint64_t)i);
        assert_true(gyre_stream_leave_now(f->pair.end[0], &match, "massage", 8, frame, body));
        gyre_stream_leave_rest(f->pair.end[0], &match, "massage", 8, frame, 0);
        assert_true(gyre_stream_leave_now(f->pair.end[0], &match, "message", 8, frame, body));
        if (security == GYRE_SEAL_AUTH)
            memcpy(body, "message", 8);
        body[1] ^= i == 2;
        gyre_stream_target(f->pair.end[1], to);
        memcpy(to[0].iov_base, frame, sizeof frame);
        bool came = gyre_stream_read_now(f->pair.end[1], sizeof frame, &match, out, 8, &status);
        assert_int_equal(came, i < 2);
        assert_int_equal(status, i < 2 ? 0 : GYRE_CORRUPT);
        assert_true(!came || !memcmp(out, "message", 8));
    }
    fixture_free(f);
}

/* -- the rest ---------------------------------------------------------------------------------- */

static bool contains(const uint8_t *wire, size_t length, const char *text)
{
    return memmem(wire, length, text, strlen(text)) != NULL;
}

static void only_encryption_hides_payloads(void **state)
{
    static uint8_t wire[WIRE_MOST], data[2000];
    struct fixture *f = fixture_new(POSTS, true);
    memcpy(data + 1000, "the gradient", 12);
    assert_int_equal(post_send(f, 0, 0, "a short one", 11), 0);
    assert_int_equal(post_send(f, 0, 1, data, sizeof data), 0);
    size_t length = write_all(f, wire, sizeof wire);
    assert_int_equal(contains(wire, length, "a short one"), security == GYRE_SEAL_AUTH);
    assert_int_equal(contains(wire, length, "the gradient"), security == GYRE_SEAL_AUTH);
    fixture_free(f);
}

/* The last number is never used: the stream fails before. */
static void a_spent_seal_fails_its_stream(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    assert_int_equal(post_send(f, 0, 0, "x", 1), 0);
    gyre_seal_return_to(f->pair.end[0]->seal_out, GYRE_SEAL_NUMBERS - GYRE_SEAL_SPARE);
    settle(f);
    assert_int_equal(f->sent[0], -EOVERFLOW);
    fixture_free(f);
}

/* Without keys no number has to be kept, so no honest peer says BLANK. */
static void a_blank_without_keys_is_corrupt(void **state)
{
    struct fixture *f;
    enum gyre_seal_mode mode = security;
    struct gyre_frame frame = {.kind = GYRE_FRAME_BLANK, .epoch = 7};
    uint8_t wire[GYRE_FRAME_BYTES];
    security = GYRE_SEAL_NONE;
    f = fixture_new(POSTS, true);
    gyre_frame_encode(&frame, NULL, wire);
    assert_int_equal(read_all(f, wire, sizeof wire), GYRE_CORRUPT);
    fixture_free(f);
    security = mode;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_forgery_passes),
                                       cmocka_unit_test(a_reflected_frame_is_corrupt),
                                       cmocka_unit_test(short_messages_without_a_post),
                                       cmocka_unit_test(only_encryption_hides_payloads),
                                       cmocka_unit_test(a_spent_seal_fails_its_stream),
                                       cmocka_unit_test(a_blank_without_keys_is_corrupt)};
    security = GYRE_SEAL_AUTH;
    int bad = cmocka_run_group_tests_name("authenticated", tests, NULL, NULL);
    security = GYRE_SEAL_ENCRYPT;
    return cmocka_run_group_tests_name("encrypted", tests, NULL, NULL) || bad;
}
