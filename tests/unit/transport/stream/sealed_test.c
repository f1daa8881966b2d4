/* Streams with keys: short messages without a post, what an encrypted payload shows, and the end of
 * the numbers. Forged frames are in forged_test.c. What streams do without an adversary is in
 * stream_test.c and ends_test.c, which run with keys too. */
#include "unit/transport/stream/stream_fixture.h"

#include "base/bytes.h"
#include "transport/stream/inside.h"

#include <errno.h>

#define WIRE_MOST (1 << 20)

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

/* Delivers a message of 8 bytes whose length somebody has changed to the longest, sum and all. */
static struct fixture *deliver_forged_length(uint8_t out[8])
{
    uint8_t wire[GYRE_FRAME_HEAD_MOST + 8];
    struct fixture *f = fixture_new(POSTS, true);
    assert_int_equal(post_recv(f, 1, 0, out, 8), 0);
    assert_int_equal(post_send(f, 0, 0, "message", 8), 0);
    assert_int_equal(write_all(f, wire, sizeof wire), HEAD + 8);
    gyre_put32(wire, (uint32_t)GYRE_FRAME_DATA << 28 | GYRE_EAGER_MAX);
    gyre_put32(wire + 28, gyre_frame_sum(wire));
    assert_int_equal(read_all(f, wire, sizeof wire), 0);
    fetch(f);
    assert_int_equal(f->got[0], NEVER);
    return f;
}

/* What was promised is waited for, and never believed. */
static void a_forged_length_only_waits(void **state)
{
    static const uint8_t zeros[GYRE_EAGER_MAX];
    uint8_t out[8] = {0}, none[8] = {0};
    struct fixture *f = deliver_forged_length(out);
    assert_int_equal(read_all(f, zeros, sizeof zeros), GYRE_CORRUPT);
    fetch(f);
    assert_int_equal(f->got[0], GYRE_CORRUPT);
    fixture_free(f);

    f = deliver_forged_length(out);
    gyre_stream_fail(f->pair.end[1], GYRE_PEER_LOST); /* the connection ends */
    fetch(f);
    assert_int_equal(f->got[0], GYRE_PEER_LOST);
    fixture_free(f);
    assert_memory_equal(out, none, sizeof out);
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
    struct gyre_frame frame = {.kind = GYRE_FRAME_BLANK, .summed = true, .epoch = 7};
    uint8_t wire[SUMMED];
    security = GYRE_SEAL_NONE;
    f = fixture_new(POSTS, true);
    gyre_frame_encode(&frame, wire);
    gyre_frame_sum_payload(wire, NULL, 0);
    assert_int_equal(read_all(f, wire, sizeof wire), GYRE_CORRUPT);
    fixture_free(f);
    security = mode;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_messages_without_a_post),
                                       cmocka_unit_test(only_encryption_hides_payloads),
                                       cmocka_unit_test(a_forged_length_only_waits),
                                       cmocka_unit_test(a_spent_seal_fails_its_stream),
                                       cmocka_unit_test(a_blank_without_keys_is_corrupt)};
    security = GYRE_SEAL_AUTH;
    int bad = cmocka_run_group_tests_name("authenticated", tests, NULL, NULL);
    security = GYRE_SEAL_ENCRYPT;
    return cmocka_run_group_tests_name("encrypted", tests, NULL, NULL) || bad;
}
