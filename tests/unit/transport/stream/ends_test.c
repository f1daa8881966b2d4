/* Streams, two of them back to back in memory: cancel, failure, agreement, and what no honest peer
 * says. */
#include "unit/transport/stream/stream_fixture.h"

#include "transport/stream/frame.h"

#include <errno.h>
#include <stdio.h>

/* -- cancel ------------------------------------------------------------------------------------ */

static void the_stream_still_works(struct fixture *f, uint64_t i)
{
    exchange(f, i, 100, true);
    exchange(f, i + 1, 100000, false);
    assert_int_equal(f->pair.status[0] | f->pair.status[1], 0);
}

static void cancel_before_anything_moved(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(100000, 1);
    for (uint64_t i = 0; i < 3; i++) {
        static const uint64_t length[] = {100, 10000, 100000};
        assert_int_equal(post_send(f, 0, i, data, length[i]), 0);
        assert_int_equal(post_recv(f, 1, 10 + i, data, length[i]), 0);
        assert_int_equal(gyre_stream_cancel(f->pair.end[0], i), 0);
        assert_int_equal(gyre_stream_cancel(f->pair.end[1], RECV_TOKEN + 10 + i), 0);
        fetch(f);
        assert_int_equal(f->sent[i], -ECANCELED);
        assert_int_equal(f->got[10 + i], -ECANCELED);
        assert_int_equal(gyre_stream_cancel(f->pair.end[0], i), -ENOENT);
    }
    the_stream_still_works(f, 20);
    free(data);
    fixture_free(f);
}

/* Cancels one side of an exchange after `steps` pieces, for every number of steps until it ends by
 * itself. */
static void cancel_after(uint64_t length, size_t piece, bool sender)
{
    bool ended = false;
    for (int steps = 0; !ended; steps++) {
        struct fixture *f = fixture_new(POSTS, true);
        uint8_t *data = pattern(length, 3), *out = calloc(1, length);
        f->pair.piece = piece;
        assert_int_equal(post_recv(f, 1, 0, out, length), 0);
        assert_int_equal(post_send(f, 0, 0, data, length), 0);
        for (int i = 0; i < steps; i++) {
            stream_pair_move(&f->pair, 1);
            stream_pair_move(&f->pair, 0);
        }
        fetch(f);
        ended = gyre_stream_cancel(f->pair.end[!sender], sender ? 0 : RECV_TOKEN) == -ENOENT;
        fetch(f);
        int status = sender ? f->sent[0] : f->got[0];
        assert_int_equal(status, ended ? 0 : -ECANCELED);
        uint8_t *buffer = sender ? data : out;
        memset(buffer, 0xee, length); /* it is the caller's again */
        f->pair.piece = 0;
        settle(f);
        if (sender && f->got[0] == 0) { /* what is said to have come is what was sent */
            uint8_t *again = pattern(length, 3);
            assert_memory_equal(again, out, length);
            free(again);
        }
        for (uint64_t i = 0; !sender && i < length; i++) {
            assert_int_equal(out[i], 0xee);
        }
        if (sender && steps > 0 && length > GYRE_EAGER_MAX) { /* it was granted, so it is told */
            assert_int_not_equal(f->got[0], NEVER);
        }
        if (f->got[0] == NEVER) { /* never granted, so never told */
            assert_int_equal(gyre_stream_cancel(f->pair.end[1], RECV_TOKEN), 0);
            fetch(f);
        }
        the_stream_still_works(f, 20);
        free(data);
        free(out);
        fixture_free(f);
    }
}

static void cancel_at_every_point(void **state)
{
    for (int sender = 0; sender < 2; sender++) {
        cancel_after(100, 7, sender);
        cancel_after(5000, 400, sender);
        cancel_after(100000, 9000, sender);
        cancel_after(3 * GYRE_FRAME_PAYLOAD_MAX + 5, 50000, sender);
        cancel_after(3 * GYRE_FRAME_PAYLOAD_MAX + 5, 2 * GYRE_FRAME_PAYLOAD_MAX, sender);
    }
}

/* A frame that was offered but never written gives its credit back. */
static void a_withdrawn_offer_costs_no_credit(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(GYRE_EAGER_MAX, 1);
    struct iovec iov[4];
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(post_send(f, 0, i, data, GYRE_EAGER_MAX), 0);
        assert_int_equal(gyre_stream_gather(f->pair.end[0], iov, 4), 2);
        assert_int_equal(gyre_stream_cancel(f->pair.end[0], i), 0);
        int blanks = gyre_stream_gather(f->pair.end[0], iov, 4); /* with keys, in one vector */
        assert_int_equal(blanks ? iov[0].iov_len : 0, security ? (i + 1) * HEAD : 0);
        assert_int_equal(blanks, security != GYRE_SEAL_NONE);
        fetch(f);
    }
    for (uint64_t i = 20; i < 23; i++) {
        assert_int_equal(post_send(f, 0, i, data, GYRE_EAGER_MAX), 0);
    }
    settle(f);
    assert_int_equal(f->completions, 23);
    free(data);
    fixture_free(f);
}

static void a_withdrawn_receive_can_be_posted_again(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(100000, 1), *out = calloc(1, 100000);
    assert_int_equal(post_recv(f, 1, 0, out, 100000), 0);
    settle(f);
    assert_int_equal(gyre_stream_cancel(f->pair.end[1], RECV_TOKEN), 0);
    struct gyre_match match = name(0);
    assert_int_equal(gyre_stream_recv(f->pair.end[1], &match, out, 90000, RECV_TOKEN + 1),
                     GYRE_INVALID);
    assert_int_equal(gyre_stream_recv(f->pair.end[1], &match, out, 100000, RECV_TOKEN + 1), 0);
    assert_int_equal(post_send(f, 0, 0, data, 100000), 0);
    settle(f);
    assert_int_equal(f->got[0], -ECANCELED);
    assert_int_equal(f->got[1], 0);
    assert_memory_equal(data, out, 100000);
    free(data);
    free(out);
    fixture_free(f);
}

/* -- failure and agreement --------------------------------------------------------------------- */

static void fail_completes_everything_once(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(300000, 1), *out = malloc(300000);
    for (uint64_t i = 0; i < POSTS; i++) {
        assert_int_equal(post_send(f, 0, i, data, i % 2 ? 300000 : 10000), 0);
        assert_int_equal(post_recv(f, 0, 100 + i, out, i % 2 ? 300000 : 10000), 0);
    }
    stream_pair_move(&f->pair, 0);
    gyre_stream_fail(f->pair.end[0], GYRE_PEER_LOST);
    gyre_stream_fail(f->pair.end[0], GYRE_ABORTED); /* the first counts */
    fetch(f);
    assert_int_equal(f->completions, 2 * POSTS);
    for (uint64_t i = 0; i < POSTS; i++) {
        assert_true(f->sent[i] == 0 || f->sent[i] == GYRE_PEER_LOST);
        assert_int_equal(f->got[100 + i], GYRE_PEER_LOST);
    }
    assert_int_equal(post_send(f, 0, 1, data, 1), GYRE_PEER_LOST);
    assert_int_equal(post_recv(f, 0, 1, out, 1), GYRE_PEER_LOST);
    struct iovec iov[2];
    assert_int_equal(gyre_stream_gather(f->pair.end[0], iov, 2), 0);
    assert_true(gyre_stream_target(f->pair.end[0], iov) > 0);
    assert_int_equal(gyre_stream_read(f->pair.end[0], 1), GYRE_PEER_LOST);
    free(data);
    free(out);
    fixture_free(f);
}

static void bye_follows_everything_and_ends_what_waits(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(100000, 1), *out = calloc(1, 100000), byte;
    assert_int_equal(post_send(f, 0, 0, data, 100000), 0);
    gyre_stream_bye(f->pair.end[0]);
    assert_int_equal(post_send(f, 0, 1, data, 1), GYRE_INVALID);
    settle(f);
    assert_false(gyre_stream_said_bye(f->pair.end[0])); /* the message still waits for its grant */
    assert_int_equal(post_recv(f, 1, 0, out, 100000), 0);
    assert_int_equal(post_recv(f, 1, 1, &byte, 1), 0);
    settle(f);
    assert_int_equal(f->got[0], 0);
    assert_memory_equal(data, out, 100000);
    assert_true(gyre_stream_said_bye(f->pair.end[0]));
    assert_true(gyre_stream_heard_bye(f->pair.end[1]));
    assert_int_equal(f->got[1], GYRE_PEER_LOST);
    assert_int_equal(post_send(f, 1, 2, data, 100000), 0);
    assert_int_equal(post_recv(f, 1, 2, &byte, 1), 0);
    settle(f);
    assert_int_equal(f->sent[2], GYRE_PEER_LOST);
    assert_int_equal(f->got[2], GYRE_PEER_LOST);
    gyre_stream_bye(f->pair.end[1]);
    settle(f);
    assert_true(gyre_stream_heard_bye(f->pair.end[0]));
    free(data);
    free(out);
    fixture_free(f);
}

/* Four ways in which ends may differ × who posts first; each must end as GYRE_MISMATCH at one end
 * at least. */
static void one_mismatch(uint64_t sent, uint64_t wanted, uint64_t fingerprint, uint16_t order,
                         bool receive_first)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(100000, 1), *out = calloc(1, 100000);
    struct gyre_match theirs = name(0), mine = name(0);
    mine.fingerprint = fingerprint;
    mine.order = order;
    int status = 0;
    if (receive_first) {
        assert_int_equal(gyre_stream_recv(f->pair.end[1], &mine, out, wanted, RECV_TOKEN), 0);
    }
    assert_int_equal(gyre_stream_send(f->pair.end[0], &theirs, data, sent, 0), 0);
    for (uint32_t i = 0; i < 300; i++) { /* a long message asks after some patience only */
        stream_pair_settle(&f->pair);
    }
    if (!receive_first) {
        status = gyre_stream_recv(f->pair.end[1], &mine, out, wanted, RECV_TOKEN);
        settle(f);
        assert_int_equal(status, GYRE_MISMATCH); /* at once, and for good */
        assert_int_equal(post_recv(f, 1, 7, out, 1), GYRE_MISMATCH);
    } else if (wanted <= GYRE_EAGER_MAX) {
        assert_int_equal(f->pair.status[1], GYRE_MISMATCH); /* nothing went back that could tell */
    }
    int end = f->pair.status[0] == GYRE_MISMATCH ? 0 : 1;
    assert_true(status == GYRE_MISMATCH || f->pair.status[end] == GYRE_MISMATCH);
    struct gyre_match told;
    uint64_t other;
    gyre_stream_mismatch(f->pair.end[end], &told, &other);
    assert_int_equal(told.sequence, mine.sequence);
    assert_int_equal(told.fingerprint, end ? fingerprint : theirs.fingerprint);
    assert_int_equal(other, end ? theirs.fingerprint : fingerprint);
    free(data);
    free(out);
    fixture_free(f);
}

static void ends_that_differ_are_told(void **state)
{
    for (int first = 0; first < 2; first++) {
        one_mismatch(100, 100, 5, 0, first);       /* fingerprint of one name */
        one_mismatch(100, 100, 5, 9, first);       /* fingerprint of one operation */
        one_mismatch(100000, 100000, 5, 0, first); /* of long messages */
        one_mismatch(100000, 100, 5, 9, first);
        one_mismatch(100, 100000, 5, 9, first);
        one_mismatch(100, 101, 99, 0, first); /* lengths */
        one_mismatch(100000, 100, 99, 0, first);
        one_mismatch(100, 100000, 99, 0, first);
        one_mismatch(100000, 200000, 99, 0, first);
    }
}

static void own_disagreement_is_invalid(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *out = malloc(100000);
    struct gyre_match match = name(0);
    assert_int_equal(post_recv(f, 0, 0, out, 100000), 0);
    assert_int_equal(post_recv(f, 0, 0, out, 100000), GYRE_INVALID); /* a second of that name */
    match.fingerprint++;
    assert_int_equal(gyre_stream_send(f->pair.end[0], &match, out, 1, 1), GYRE_INVALID);
    the_stream_still_works(f, 20);
    free(out);
    fixture_free(f);
}

/* Every bit of a whole exchange flipped once, each in a fresh pair: never success with other bytes.
 * A flipped bit of the header is found before any byte behind the head has come. */
static void a_flipped_bit_is_corrupt(void **state)
{
    enum { LENGTH = 40 };
    for (uint32_t bit = 0; bit < 8 * (HEAD + LENGTH); bit++) {
        struct fixture *f = fixture_new(4, true);
        uint8_t *data = pattern(LENGTH, 1), out[LENGTH];
        uint32_t come = bit < 8 * GYRE_FRAME_BYTES ? HEAD : HEAD + LENGTH;
        struct iovec from[4], to[2];
        assert_int_equal(post_recv(f, 1, 0, out, LENGTH), 0);
        assert_int_equal(post_send(f, 0, 0, data, LENGTH), 0);
        assert_int_equal(gyre_stream_gather(f->pair.end[0], from, 4), 1);
        uint8_t wire[GYRE_FRAME_HEAD_MOST + LENGTH];
        memcpy(wire, from[0].iov_base, HEAD + LENGTH);
        wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
        gyre_stream_target(f->pair.end[1], to);
        memcpy(to[0].iov_base, wire, come);
        int status = gyre_stream_read(f->pair.end[1], come);
        fetch(f);
        assert_int_equal(status, GYRE_CORRUPT);
        assert_int_equal(f->got[0], GYRE_CORRUPT);
        free(data);
        fixture_free(f);
    }
}

static void another_epoch_is_corrupt(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    struct gyre_stream_options options = {.epoch = 8, .posts = POSTS, .checksum = true};
    gyre_stream_destroy(f->pair.end[1]);
    assert_int_equal(gyre_stream_create(&options, &f->pair.end[1]), 0);
    assert_int_equal(post_send(f, 0, 0, "x", 1), 0);
    settle(f);
    assert_int_equal(f->pair.status[1], GYRE_CORRUPT);
    fixture_free(f);
}

/* What the peer says, with sums that are right. */
static int say(struct fixture *f, enum gyre_frame_kind kind, uint64_t i, uint32_t length,
               uint64_t control)
{
    static uint8_t wire[SUMMED + GYRE_FRAME_PAYLOAD_MAX];
    struct gyre_frame frame = {
        .kind = kind, .length = length, .summed = true, .epoch = 7, .match = name(i)};
    struct iovec to[2], from = {.iov_base = wire, .iov_len = SUMMED + length};
    int status = 0;
    if (kind == GYRE_FRAME_CREDIT) {
        frame.match = (struct gyre_match){.sequence = control};
    }
    memcpy(wire + SUMMED, &control, sizeof control);
    gyre_frame_encode(&frame, wire);
    gyre_frame_sum_payload(wire, wire + SUMMED, length);
    while (from.iov_len > 0 && !status) {
        int count = gyre_stream_target(f->pair.end[0], to);
        size_t moved = stream_copy(&from, 1, to, count, SIZE_MAX);
        status = gyre_stream_read(f->pair.end[0], moved);
        from.iov_base = (uint8_t *)from.iov_base + moved;
        from.iov_len -= moved;
    }
    return status;
}

struct lie {
    enum gyre_frame_kind kind;
    uint32_t length;
    uint64_t control;
    uint64_t wanted; /* length of the receive that is posted before, 0: none */
};

/* Each is a frame that no honest peer sends. */
static void lies_are_corrupt(void **state)
{
    static const struct lie lies[] = {
        {GYRE_FRAME_PIECE, 100, 0, 0},                                  /* nobody granted it */
        {GYRE_FRAME_PIECE, 100, 0, 100},                                /* nor this one */
        {GYRE_FRAME_PIECE, GYRE_FRAME_PAYLOAD_MAX, 0, 100000},          /* beyond the buffer */
        {GYRE_FRAME_PIECE, 100, 0, 100000},                             /* a short one */
        {GYRE_FRAME_PIECE, 100000, 0, GYRE_FRAME_PAYLOAD_MAX + 100000}, /* likewise */
        {GYRE_FRAME_VOID, 0, 0, 0},
        {GYRE_FRAME_VOID, 0, 0, 100},
        {GYRE_FRAME_CREDIT, 0, 1, 0},   /* nothing was spent */
        {GYRE_FRAME_GRANT, 8, 100, 0}}; /* nobody asked */
    uint8_t *out = malloc(GYRE_FRAME_PAYLOAD_MAX + 100000);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct fixture *f = fixture_new(4, true);
        if (lies[i].wanted) {
            assert_int_equal(post_recv(f, 0, 0, out, lies[i].wanted), 0);
        }
        assert_int_equal(say(f, lies[i].kind, 0, lies[i].length, lies[i].control), GYRE_CORRUPT);
        fetch(f);
        assert_int_equal(f->completions, lies[i].wanted > 0);
        fixture_free(f);
    }
    free(out);
}

static int say_until(struct fixture *f, enum gyre_frame_kind kind, uint32_t length,
                     uint64_t control, int most, int *said)
{
    int status = 0;
    for (*said = 0; *said < most && !status; ++*said) {
        status = say(f, kind, (uint64_t)*said, length, control);
    }
    return status;
}

/* What is honest once is not honest for ever. */
static void too_much_is_corrupt(void **state)
{
    static const struct {
        enum gyre_frame_kind kind;
        uint32_t length;
        uint64_t control;
        int most; /* allowed */
    } cases[] = {{GYRE_FRAME_DATA, GYRE_EAGER_MAX, 0, 3},
                 {GYRE_FRAME_DATA, 0, 0, 1024},
                 {GYRE_FRAME_GRANT, 8, 100000, 8},
                 {GYRE_FRAME_ASK, 8, 100, 8},
                 {GYRE_FRAME_BYE, 0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = fixture_new(4, true);
        int said;
        assert_int_equal(
            say_until(f, cases[i].kind, cases[i].length, cases[i].control, 5000, &said),
            GYRE_CORRUPT);
        assert_int_equal(said, cases[i].most + 1);
        fixture_free(f);
    }
}

static void nothing_follows_a_bye(void **state)
{
    static const enum gyre_frame_kind kinds[] = {GYRE_FRAME_DATA, GYRE_FRAME_PIECE, GYRE_FRAME_ASK};
    for (int i = 0; i < 3; i++) {
        struct fixture *f = fixture_new(4, true);
        assert_int_equal(say(f, GYRE_FRAME_BYE, 0, 0, 0), 0);
        assert_int_equal(say(f, GYRE_FRAME_GRANT, 0, 8, 100000), 0); /* may still come */
        assert_int_equal(say(f, kinds[i], 1, 8, 100), GYRE_CORRUPT);
        fixture_free(f);
    }
}

static void credit_does_not_shrink(void **state)
{
    struct fixture *f = fixture_new(4, true);
    assert_int_equal(post_send(f, 0, 0, "four", 4), 0);
    struct iovec iov[2];
    assert_int_equal(gyre_stream_gather(f->pair.end[0], iov, 2), 1);
    gyre_stream_wrote(f->pair.end[0], iov[0].iov_len);
    assert_int_equal(say(f, GYRE_FRAME_CREDIT, 0, 0, 68), 0);
    assert_int_equal(say(f, GYRE_FRAME_CREDIT, 0, 0, 67), GYRE_CORRUPT);
    fixture_free(f);
}

/* Credit may come back while its message is still to be written only if the peer lies. The lie
 * shows when the message is withdrawn. */
static void credit_for_what_never_left_is_corrupt(void **state)
{
    struct fixture *f = fixture_new(4, true);
    struct iovec iov[2];
    assert_int_equal(post_send(f, 0, 0, "four", 4), 0);
    assert_int_equal(gyre_stream_gather(f->pair.end[0], iov, 2), 1);
    assert_int_equal(say(f, GYRE_FRAME_CREDIT, 0, 0, 68), 0);
    gyre_stream_cancel(f->pair.end[0], 0);
    assert_int_equal(post_send(f, 0, 1, "four", 4), GYRE_CORRUPT);
    fixture_free(f);
}

static void what_goes_unasked_has_the_streams_limit(void **state)
{
    struct gyre_stream_options options = {.posts = 8, .eager = GYRE_EAGER_MOST};
    struct stream_pair pair = {.fed = fed};
    struct gyre_match match[] = {name(0), name(1), name(1000)};
    uint8_t *data = pattern(GYRE_EAGER_MOST + 8, 1), *out = malloc(GYRE_EAGER_MOST + 1);
    struct gyre_completion done[4];
    for (int end = 0; end < 2; end++)
        assert_int_equal(gyre_stream_create(&options, &pair.end[end]), 0);
    for (uint64_t i = 0; i < 3; i++) /* the last one is too long, by a byte */
        assert_int_equal(gyre_stream_send(pair.end[0], &match[i], data, GYRE_EAGER_MOST + i / 2, i),
                         0);
    stream_pair_settle(&pair);
    assert_int_equal(gyre_stream_complete(pair.end[0], done, 4), 2);
    for (uint64_t i = 0; i < 3; i++) {
        memset(out, 0, GYRE_EAGER_MOST + 1);
        assert_int_equal(gyre_stream_recv(pair.end[1], &match[i], out, GYRE_EAGER_MOST + i / 2, i),
                         0);
        stream_pair_settle(&pair);
        assert_memory_equal(out, data, GYRE_EAGER_MOST + i / 2);
    }
    gyre_stream_destroy(pair.end[0]);
    gyre_stream_destroy(pair.end[1]);
    options.eager++;
    assert_int_equal(gyre_stream_create(&options, &pair.end[0]), GYRE_INVALID);
    free(data);
    free(out);

    struct fixture *f = fixture_new(4, true);
    assert_int_equal(say(f, GYRE_FRAME_DATA, 0, GYRE_EAGER_MAX + 1, 1), GYRE_CORRUPT);
    fixture_free(f);
}

static void posts_out_of_range_are_refused(void **state)
{
    struct gyre_stream *stream = NULL;
    struct gyre_stream_options options = {.posts = 0};
    assert_int_equal(gyre_stream_create(&options, &stream), GYRE_INVALID);
    options.posts = 65537;
    assert_int_equal(gyre_stream_create(&options, &stream), GYRE_INVALID);
    assert_null(stream);
    gyre_stream_destroy(NULL);
    options.posts = 65536;
    assert_int_equal(gyre_stream_create(&options, &stream), 0);
    gyre_stream_destroy(stream);
}

int main(void)
{
    const struct CMUnitTest sealed[] = {
        cmocka_unit_test(cancel_before_anything_moved),
        cmocka_unit_test(cancel_at_every_point),
        cmocka_unit_test(a_withdrawn_offer_costs_no_credit),
        cmocka_unit_test(a_withdrawn_receive_can_be_posted_again),
        cmocka_unit_test(fail_completes_everything_once),
        cmocka_unit_test(bye_follows_everything_and_ends_what_waits),
        cmocka_unit_test(ends_that_differ_are_told),
        cmocka_unit_test(own_disagreement_is_invalid)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(cancel_before_anything_moved),
                                       cmocka_unit_test(cancel_at_every_point),
                                       cmocka_unit_test(a_withdrawn_offer_costs_no_credit),
                                       cmocka_unit_test(a_withdrawn_receive_can_be_posted_again),
                                       cmocka_unit_test(fail_completes_everything_once),
                                       cmocka_unit_test(bye_follows_everything_and_ends_what_waits),
                                       cmocka_unit_test(ends_that_differ_are_told),
                                       cmocka_unit_test(own_disagreement_is_invalid),
                                       cmocka_unit_test(a_flipped_bit_is_corrupt),
                                       cmocka_unit_test(another_epoch_is_corrupt),
                                       cmocka_unit_test(lies_are_corrupt),
                                       cmocka_unit_test(too_much_is_corrupt),
                                       cmocka_unit_test(nothing_follows_a_bye),
                                       cmocka_unit_test(credit_does_not_shrink),
                                       cmocka_unit_test(credit_for_what_never_left_is_corrupt),
                                       cmocka_unit_test(what_goes_unasked_has_the_streams_limit),
                                       cmocka_unit_test(posts_out_of_range_are_refused)};
    int bad = cmocka_run_group_tests_name("read", tests, NULL, NULL);
    security = GYRE_SEAL_AUTH;
    bad |= cmocka_run_group_tests_name("authenticated", sealed, NULL, NULL);
    security = GYRE_SEAL_ENCRYPT;
    bad |= cmocka_run_group_tests_name("encrypted", sealed, NULL, NULL);
    security = GYRE_SEAL_NONE;
    fed = true;
    return cmocka_run_group_tests_name("fed", tests, NULL, NULL) || bad;
}
