/* Short messages of a stream without a post, beside posts: what leaves, what is taken from the
 * store or from the next frame, and what has to go the other way. */
#include "rig/stream_pair.h"

#include "transport/stream/frame.h"
#include "rig/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define POSTS  64u
#define SUMMED (GYRE_FRAME_BYTES + GYRE_FRAME_SUM_BYTES) /* before a payload that has a sum */

static const char text[GYRE_EAGER_MAX + 1] = "what a message says";

static struct gyre_match name(uint64_t i)
{
    return (struct gyre_match){.comm = 1, .sequence = 1 + i, .fingerprint = 99};
}

static void open_pair(struct stream_pair *pair, uint32_t posts, bool checksum)
{
    struct gyre_stream_options options = {.epoch = 7, .posts = posts, .checksum = checksum};
    *pair = (struct stream_pair){.fed = true};
    for (int end = 0; end < 2; end++)
        assert_int_equal(gyre_stream_create(&options, &pair->end[end]), 0);
}

static void close_pair(struct stream_pair *pair)
{
    gyre_stream_destroy(pair->end[0]);
    gyre_stream_destroy(pair->end[1]);
}

/* The next completion's token; 0: there is none. */
static uint64_t fetch(struct gyre_stream *stream)
{
    struct gyre_completion done = {0};
    if (gyre_stream_complete(stream, &done, 1))
        assert_int_equal(done.status, 0);
    return done.token;
}

/* -- with a post ------------------------------------------------------------------------------- */

/* Brings what leaves at once to the other end. */
static uint32_t send_now(struct stream_pair *pair, uint64_t i, const void *data, uint64_t length)
{
    uint8_t frame[SUMMED + GYRE_EAGER_MAX];
    struct gyre_match match = name(i);
    uint32_t bytes = gyre_stream_send_now(pair->end[0], &match, data, length, i + 1, frame);
    if (bytes)
        assert_int_equal(gyre_stream_feed(pair->end[1], frame, bytes), 0);
    return bytes;
}

static int post_recv(struct gyre_stream *stream, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_recv(stream, &match, data, length, i + 1);
}

static int post_send(struct gyre_stream *stream, uint64_t i, const void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_send(stream, &match, data, length, i + 1);
}

static void a_short_send_leaves_at_once(void **state)
{
    static const uint64_t lengths[] = {0, 1, 8, GYRE_EAGER_MAX};
    struct stream_pair pair;
    uint8_t out[GYRE_EAGER_MAX];
    (void)state;
    open_pair(&pair, POSTS, true);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(post_recv(pair.end[1], i, out, lengths[i]), 0);
        assert_int_equal(send_now(&pair, i, text, lengths[i]), SUMMED + lengths[i]);
        assert_int_equal(fetch(pair.end[0]), i + 1);
        assert_int_equal(fetch(pair.end[1]), i + 1);
        assert_memory_equal(text, out, lengths[i]);
    }
    assert_int_equal(send_now(&pair, 4, text, GYRE_EAGER_MAX + 1), 0);
    close_pair(&pair);
}

static void nothing_goes_before_what_was_posted_before(void **state)
{
    struct stream_pair pair;
    (void)state;
    open_pair(&pair, POSTS, false);
    assert_int_equal(post_send(pair.end[0], 0, "first", 5), 0);
    assert_int_equal(send_now(&pair, 1, "second", 6), 0);
    stream_pair_settle(&pair);
    assert_int_equal(send_now(&pair, 1, "second", 6), GYRE_FRAME_BYTES + 6);
    gyre_stream_bye(pair.end[0]);
    assert_int_equal(send_now(&pair, 2, "third", 5), 0);
    close_pair(&pair);
}

static void at_once_is_bounded_alike(void **state)
{
    struct stream_pair pair;
    uint64_t most = GYRE_UNEXPECTED_BYTES / (GYRE_EAGER_MAX + GYRE_UNEXPECTED_CHARGE);
    (void)state;
    open_pair(&pair, 512, false);
    for (uint64_t i = 0; i < most; i++)
        assert_true(send_now(&pair, i, text, GYRE_EAGER_MAX) > 0);
    assert_int_equal(send_now(&pair, most, text, GYRE_EAGER_MAX), 0); /* no credit */
    close_pair(&pair);

    open_pair(&pair, 2, false);
    assert_true(send_now(&pair, 0, text, 1) && send_now(&pair, 1, text, 1));
    assert_int_equal(send_now(&pair, 2, text, 1), 0); /* no post */
    close_pair(&pair);
}

static void at_once_nobody_disagrees_with_himself(void **state)
{
    struct stream_pair pair;
    struct gyre_match match = name(0);
    uint8_t frame[GYRE_FRAME_BYTES + 8], out[8];
    (void)state;
    open_pair(&pair, POSTS, false);
    assert_int_equal(post_recv(pair.end[0], 0, out, sizeof out), 0);
    match.lane++;
    match.fingerprint++;
    assert_int_equal(gyre_stream_send_now(pair.end[0], &match, text, 8, 1, frame), 0);
    assert_int_equal(gyre_stream_send(pair.end[0], &match, text, 8, 1), GYRE_INVALID);
    close_pair(&pair);
}

/* -- without ----------------------------------------------------------------------------------- */

static bool leave(struct stream_pair *pair, uint64_t i, uint64_t length,
                  uint8_t header[GYRE_FRAME_BYTES])
{
    struct gyre_match match = name(i);
    return gyre_stream_leave_now(pair->end[0], &match, text, length, header, NULL);
}

static bool come(struct stream_pair *pair, uint64_t i, uint64_t length,
                 const uint8_t header[GYRE_FRAME_BYTES])
{
    struct gyre_match match = name(i);
    return gyre_stream_come_now(pair->end[1], &match, length, header);
}

static bool take(struct stream_pair *pair, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_take_now(pair->end[1], &match, data, length);
}

/* What the other end would have read itself. */
static void feed(struct stream_pair *pair, const uint8_t header[GYRE_FRAME_BYTES], uint64_t length)
{
    assert_int_equal(gyre_stream_feed(pair->end[1], header, GYRE_FRAME_BYTES), 0);
    assert_int_equal(gyre_stream_feed(pair->end[1], (const uint8_t *)text, length), 0);
}

static void no_record_is_made(void **state)
{
    struct stream_pair pair;
    uint8_t header[GYRE_FRAME_BYTES];
    (void)state;
    open_pair(&pair, 1, false);
    for (uint64_t i = 0; i < 100000; i++) { /* credit goes back and forth */
        uint64_t length = i * 131 % (GYRE_EAGER_MAX + 1);
        assert_true(leave(&pair, i, length, header));
        assert_true(come(&pair, i, length, header));
        stream_pair_settle(&pair);
    }
    assert_int_equal(fetch(pair.end[0]) + fetch(pair.end[1]), 0);
    assert_false(leave(&pair, 0, GYRE_EAGER_MAX + 1, header));
    close_pair(&pair);
}

static void the_store_is_looked_into_first(void **state)
{
    struct stream_pair pair;
    uint8_t header[GYRE_FRAME_BYTES];
    char out[20];
    (void)state;
    open_pair(&pair, POSTS, false);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(leave(&pair, i, 20, header));
        feed(&pair, header, 20);
    }
    assert_false(come(&pair, 2, 20, header)); /* it is there */
    assert_false(take(&pair, 1, out, 19));
    assert_true(take(&pair, 1, out, 20));
    assert_memory_equal(out, text, 20);
    assert_false(take(&pair, 1, out, 20));
    assert_int_equal(post_recv(pair.end[1], 2, out, 20), 0);
    assert_int_equal(fetch(pair.end[1]), 3);
    assert_true(take(&pair, 0, out, 20));
    close_pair(&pair);
}

static void only_the_next_one_comes(void **state)
{
    struct stream_pair pair;
    uint8_t header[GYRE_FRAME_BYTES];
    struct gyre_match other = name(0);
    char out[20];
    (void)state;
    open_pair(&pair, POSTS, false);
    assert_true(leave(&pair, 0, 20, header));
    assert_false(come(&pair, 1, 20, header));
    assert_false(come(&pair, 0, 19, header));
    other.fingerprint++;
    assert_false(gyre_stream_come_now(pair.end[1], &other, 20, header));
    for (size_t byte = 0; byte < sizeof header; byte++) {
        header[byte] ^= 4;
        assert_false(come(&pair, 0, 20, header));
        header[byte] ^= 4;
    }
    assert_int_equal(gyre_stream_feed(pair.end[1], header, 7), 0);
    assert_false(come(&pair, 0, 20, header)); /* in the middle of a frame */
    assert_int_equal(gyre_stream_feed(pair.end[1], header + 7, sizeof header - 7), 0);
    assert_false(come(&pair, 0, 20, header));
    assert_int_equal(gyre_stream_feed(pair.end[1], (const uint8_t *)text, 20), 0);
    assert_true(take(&pair, 0, out, 20));
    close_pair(&pair);
}

/* A receive of that name, or one that means the operation otherwise, has the say. */
static void a_post_has_the_say(void **state)
{
    struct stream_pair pair;
    uint8_t header[GYRE_FRAME_BYTES];
    struct gyre_match lane = name(1);
    char out[20];
    (void)state;
    open_pair(&pair, POSTS, false);
    assert_int_equal(post_recv(pair.end[1], 0, out, 20), 0);
    assert_true(leave(&pair, 0, 20, header));
    assert_false(come(&pair, 0, 20, header));
    feed(&pair, header, 20);
    assert_int_equal(fetch(pair.end[1]), 1);
    lane.lane++;
    lane.fingerprint++;
    assert_int_equal(gyre_stream_recv(pair.end[1], &lane, out, 20, 1), 0);
    assert_true(leave(&pair, 1, 20, header));
    assert_false(come(&pair, 1, 20, header));
    close_pair(&pair);
}

/* What the peer has asked about is granted, and comes in pieces. */
static void credit_bounds_both(void **state)
{
    struct stream_pair pair;
    uint8_t header[GYRE_FRAME_BYTES], first[GYRE_FRAME_BYTES];
    uint64_t most = GYRE_UNEXPECTED_BYTES / (1024 + GYRE_UNEXPECTED_CHARGE), i;
    (void)state;
    open_pair(&pair, POSTS, false);
    for (i = 0; leave(&pair, i, 1024, header); i++) {
        if (i == 0)
            memcpy(first, header, sizeof first);
        feed(&pair, header, 1024);
    }
    assert_int_equal(i, most);
    assert_false(come(&pair, 0, 1024, first));
    struct gyre_frame more = {.kind = GYRE_FRAME_DATA, .length = 1024, .epoch = 7};
    more.match = name(i);
    gyre_frame_encode(&more, header);
    assert_false(come(&pair, i, 1024, header)); /* beyond the credit */
    close_pair(&pair);
}

static void an_end_takes_nothing_more(void **state)
{
    struct stream_pair pair;
    uint8_t header[SUMMED];
    char out[20];
    (void)state;
    open_pair(&pair, POSTS, true);
    assert_true(leave(&pair, 0, 20, header));
    assert_false(come(&pair, 0, 20, header)); /* payloads have sums: they must be proved */
    close_pair(&pair);

    open_pair(&pair, POSTS, false);
    assert_true(leave(&pair, 0, 20, header));
    feed(&pair, header, 20);
    gyre_stream_bye(pair.end[0]);
    stream_pair_settle(&pair);
    assert_false(take(&pair, 0, out, 20)); /* a post tells what the end means for it */
    assert_false(leave(&pair, 1, 20, header));
    gyre_stream_fail(pair.end[0], GYRE_PEER_LOST);
    assert_false(leave(&pair, 2, 20, header));
    close_pair(&pair);
}

/* -- of which the carrier took a part ---------------------------------------------------------- */

/* `bytes` of a message of `length` leave; the rest is offered. */
static void leave_part(struct stream_pair *pair, uint64_t i, uint64_t length, size_t bytes)
{
    struct gyre_match match = name(i);
    uint8_t frame[SUMMED + GYRE_STREAM_REST_MOST];
    assert_true(leave(pair, i, length, frame));
    memcpy(frame + SUMMED, text, length);
    gyre_stream_leave_rest(pair->end[0], &match, text, length, frame, bytes);
    assert_int_equal(gyre_stream_feed(pair->end[1], frame, bytes), 0);
}

static void a_rest_goes_on_with_its_post(void **state)
{
    struct stream_pair pair;
    uint8_t header[SUMMED];
    char out[GYRE_STREAM_REST_MOST];
    (void)state;
    open_pair(&pair, POSTS, true);
    for (uint64_t i = 0; i < 3 * (SUMMED + 20); i++) {
        uint64_t length = i % 3 == 2 ? GYRE_STREAM_REST_MOST : 20;
        assert_int_equal(post_recv(pair.end[1], i, out, length), 0);
        leave_part(&pair, i, length, i / 3);
        if (i % 3 == 1)
            stream_pair_settle(&pair); /* all is written before the post */
        if (i / 3 > 0)
            assert_false(leave(&pair, 1000 + i, 20, header)); /* nothing comes between */
        assert_int_equal(post_send(pair.end[0], i, text, length), 0);
        assert_int_equal(fetch(pair.end[0]), i % 3 == 1 && i / 3 > 0 ? i + 1 : 0);
        stream_pair_settle(&pair);
        assert_int_equal(fetch(pair.end[0]), i % 3 == 1 && i / 3 > 0 ? 0 : i + 1);
        assert_int_equal(fetch(pair.end[1]), i + 1);
        assert_memory_equal(out, text, length);
    }
    close_pair(&pair);
}

static void what_did_not_leave_costs_nothing(void **state)
{
    struct stream_pair pair;
    (void)state;
    open_pair(&pair, POSTS, true);
    for (uint64_t i = 0; i < GYRE_UNEXPECTED_BYTES / 64; i++)
        leave_part(&pair, i, GYRE_STREAM_REST_MOST, 0);
    close_pair(&pair);
}

static void a_rest_outlives_its_post(void **state)
{
    struct stream_pair pair;
    struct gyre_completion done;
    char out[20];
    (void)state;
    open_pair(&pair, POSTS, true);
    assert_int_equal(post_recv(pair.end[1], 0, out, 20), 0);
    leave_part(&pair, 0, 20, 40);
    assert_int_equal(post_send(pair.end[0], 0, text, 20), 0);
    assert_int_equal(gyre_stream_cancel(pair.end[0], 1), 0);
    assert_int_equal(gyre_stream_complete(pair.end[0], &done, 1), 1);
    assert_int_equal(done.status, -ECANCELED);
    stream_pair_settle(&pair);
    assert_int_equal(fetch(pair.end[1]), 1); /* it had left */
    leave_part(&pair, 1, 20, 40);
    assert_int_equal(post_send(pair.end[0], 1, text, 20), 0);
    gyre_stream_fail(pair.end[0], GYRE_PEER_LOST);
    assert_int_equal(gyre_stream_complete(pair.end[0], &done, 1), 1);
    assert_int_equal(done.status, GYRE_PEER_LOST);
    close_pair(&pair);
}

/* -- out of read-ahead ------------------------------------------------------------------------- */

/* Message i stands where the end reads next; where that is. */
static uint8_t *stand_next(struct stream_pair *pair, uint64_t i, uint64_t length)
{
    struct iovec iov[2];
    assert_true(gyre_stream_awaits_frame(pair->end[1]));
    assert_int_equal(gyre_stream_target(pair->end[1], iov), 1);
    assert_true(leave(pair, i, length, iov[0].iov_base));
    memcpy((uint8_t *)iov[0].iov_base + SUMMED, text, length);
    return iov[0].iov_base;
}

/* All but the last `missing` bytes have come. 1: it is message `wanted`, 0: it is not; negative. */
static int read_next(struct stream_pair *pair, uint64_t wanted, void *out, uint64_t length,
                     size_t missing)
{
    struct gyre_match match = name(wanted);
    int status;
    bool came =
        gyre_stream_read_now(pair->end[1], SUMMED + length - missing, &match, out, length, &status);
    return status ? status : came;
}

static void the_next_one_is_read_at_once(void **state)
{
    struct stream_pair pair;
    char out[2048];
    (void)state;
    open_pair(&pair, 1, true);
    for (uint64_t i = 0; i < 2000; i++) { /* credit goes back and forth */
        uint64_t length = i * 131 % sizeof(out);
        stand_next(&pair, i, length);
        assert_int_equal(read_next(&pair, i, out, length, 0), 1);
        assert_memory_equal(out, text, length);
        memset(out, 0, length);
        stream_pair_settle(&pair);
    }
    assert_int_equal(fetch(pair.end[1]), 0);
    close_pair(&pair);
}

static void only_the_next_one_is_read(void **state)
{
    struct stream_pair pair;
    char out[20];
    (void)state;
    open_pair(&pair, POSTS, true);
    stand_next(&pair, 0, 20);
    assert_int_equal(read_next(&pair, 1, out, 20, 0), 0);
    stand_next(&pair, 1, 20);
    assert_int_equal(read_next(&pair, 1, out, 20, 0), 1);
    assert_true(take(&pair, 0, out, 20));
    stand_next(&pair, 2, 20);
    assert_int_equal(read_next(&pair, 2, out, 20, 5), 0);
    assert_false(gyre_stream_awaits_frame(pair.end[1]));
    assert_int_equal(gyre_stream_feed(pair.end[1], (const uint8_t *)text + 15, 5), 0);
    assert_true(take(&pair, 2, out, 20));
    assert_int_equal(post_recv(pair.end[1], 3, out, 20), 0); /* a post has the say */
    stand_next(&pair, 3, 20);
    assert_int_equal(read_next(&pair, 3, out, 20, 0), 0);
    assert_int_equal(fetch(pair.end[1]), 4);
    stand_next(&pair, 4, 20)[SUMMED] ^= 1;
    assert_int_equal(read_next(&pair, 4, out, 20, 0), GYRE_CORRUPT);
    close_pair(&pair);
}

/* What stands behind it is read as ever. */
static void what_follows_is_read_too(void **state)
{
    struct stream_pair pair;
    struct gyre_match match = name(0);
    struct iovec iov[2];
    char out[20], later[20];
    int status;
    (void)state;
    open_pair(&pair, POSTS, true);
    assert_int_equal(post_recv(pair.end[1], 1, later, 20), 0);
    assert_int_equal(gyre_stream_target(pair.end[1], iov), 1);
    uint8_t *to = iov[0].iov_base;
    for (uint64_t i = 0; i < 3; i++, to += SUMMED + 20) {
        assert_true(leave(&pair, i, 20, to));
        memcpy(to + SUMMED, text, 20);
    }
    size_t bytes = 3 * (SUMMED + 20) - 30;
    assert_true(gyre_stream_read_now(pair.end[1], bytes, &match, out, 20, &status));
    assert_int_equal(fetch(pair.end[1]), 2);
    assert_memory_equal(later, text, 20);
    to -= 30; /* of the third's header and payload */
    uint8_t rest[30];
    memcpy(rest, to, sizeof(rest));
    assert_int_equal(gyre_stream_target(pair.end[1], iov), 1);
    memcpy(iov[0].iov_base, rest, sizeof(rest));
    match = name(2);
    assert_true(gyre_stream_read_now(pair.end[1], sizeof(rest), &match, out, 20, &status));
    assert_memory_equal(out, text, 20);
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_send_leaves_at_once),
        cmocka_unit_test(nothing_goes_before_what_was_posted_before),
        cmocka_unit_test(at_once_is_bounded_alike),
        cmocka_unit_test(at_once_nobody_disagrees_with_himself),
        cmocka_unit_test(no_record_is_made),
        cmocka_unit_test(the_store_is_looked_into_first),
        cmocka_unit_test(only_the_next_one_comes),
        cmocka_unit_test(a_post_has_the_say),
        cmocka_unit_test(credit_bounds_both),
        cmocka_unit_test(an_end_takes_nothing_more),
        cmocka_unit_test(a_rest_goes_on_with_its_post),
        cmocka_unit_test(what_did_not_leave_costs_nothing),
        cmocka_unit_test(a_rest_outlives_its_post),
        cmocka_unit_test(the_next_one_is_read_at_once),
        cmocka_unit_test(only_the_next_one_is_read),
        cmocka_unit_test(what_follows_is_read_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
