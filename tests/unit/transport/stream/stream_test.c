/* Streams, two of them back to back in memory: sizes, order, credit, grants; without keys, with
 * tags, encrypted, and fed. */
#include "unit/transport/stream/stream_fixture.h"

#include "transport/stream/frame.h"

/* -- messages ---------------------------------------------------------------------------------- */

static const uint64_t sizes[] = {0,
                                 1,
                                 8,
                                 GYRE_EAGER_MAX - 1,
                                 GYRE_EAGER_MAX,
                                 GYRE_EAGER_MAX + 1,
                                 GYRE_FRAME_PAYLOAD_MAX - 1,
                                 GYRE_FRAME_PAYLOAD_MAX,
                                 GYRE_FRAME_PAYLOAD_MAX + 1,
                                 8 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)

static void every_size_in_both_orders(void **state)
{
    for (int checksum = 0; checksum < 2; checksum++) {
        struct fixture *f = fixture_new(POSTS, checksum);
        for (size_t s = 0; s < SIZES; s++) {
            exchange(f, 2 * s, sizes[s], true);
            exchange(f, 2 * s + 1, sizes[s], false);
        }
        fixture_free(f);
    }
}

/* -- pieces ------------------------------------------------------------------------------------ */

static void pieces_of_any_size(void **state)
{
    static const size_t pieces[] = {1, 31, 33, 1000, 70000};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        struct fixture *f = fixture_new(POSTS, true);
        f->pair.piece = pieces[p];
        f->pair.rng = p % 2 ? &f->rng : NULL;
        for (size_t s = 0; s < SIZES - 1; s++) {
            exchange(f, 2 * s, sizes[s], true);
            exchange(f, 2 * s + 1, sizes[s], false);
        }
        fixture_free(f);
    }
}

static void receives_in_another_order(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint32_t in[POSTS], out[POSTS];
    for (uint32_t i = 0; i < POSTS; i++) {
        in[i] = i * i;
        assert_int_equal(post_recv(f, 1, POSTS - 1 - i, &out[POSTS - 1 - i], 4), 0);
    }
    for (uint32_t i = 0; i < POSTS; i++) {
        assert_int_equal(post_send(f, 0, i, &in[i], 4), 0);
    }
    settle(f);
    assert_int_equal(f->completions, 2 * POSTS);
    assert_memory_equal(in, out, sizeof in);
    fixture_free(f);
}

static void posts_are_bounded_and_come_back(void **state)
{
    struct fixture *f = fixture_new(4, true);
    uint8_t in[8] = {0}, out[8];
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(post_send(f, 0, i, in, 8), 0);
        assert_int_equal(post_recv(f, 1, i, out, 8), 0);
    }
    assert_int_equal(post_send(f, 0, 4, in, 8), GYRE_AGAIN);
    assert_int_equal(post_recv(f, 1, 4, out, 8), GYRE_AGAIN);
    stream_pair_settle(&f->pair); /* completed, but not fetched: still in use */
    assert_int_equal(post_send(f, 0, 4, in, 8), GYRE_AGAIN);
    fetch(f);
    assert_int_equal(post_send(f, 0, 4, in, 8), 0);
    assert_int_equal(post_recv(f, 1, 4, out, 8), 0);
    settle(f);
    assert_int_equal(f->got[4], 0);
    fixture_free(f);
}

/* An early receive takes none of the last half of the posts. */
static void early_receives_leave_half_of_the_posts(void **state)
{
    struct fixture *f = fixture_new(4, true);
    uint8_t out[8];
    for (uint64_t i = 0; i < 4; i++) {
        struct gyre_match match = {.comm = 1, .sequence = 10 + i, .early = true};
        int status = gyre_stream_recv(f->pair.end[1], &match, out, 8, 0);
        assert_int_equal(status, i < 2 ? 0 : GYRE_AGAIN);
    }
    assert_int_equal(post_recv(f, 1, 0, out, 8), 0);
    assert_int_equal(post_recv(f, 1, 1, out, 8), 0);
    assert_int_equal(post_recv(f, 1, 2, out, 8), GYRE_AGAIN);
    fixture_free(f);
}

static void a_burst_of_small_messages_is_one_vector(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t in[32] = {1}, out[32];
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(post_recv(f, 1, i, out, 32), 0);
        assert_int_equal(post_send(f, 0, i, in, 32), 0);
    }
    struct iovec iov[8];
    assert_int_equal(gyre_stream_gather(f->pair.end[0], iov, 8), 1);
    assert_int_equal(iov[0].iov_len, 20 * (HEAD + 32));
    settle(f);
    assert_int_equal(f->completions, 40);
    fixture_free(f);
}

/* Records of operations, of notes and of stored messages are all used again. */
static void five_thousand_operations(void **state)
{
    struct fixture *f = fixture_new(4, true);
    uint8_t *data = calloc(1, 20000), *out = calloc(1, 20000);
    for (uint64_t i = 0; i < 5000; i++) {
        struct gyre_match match = {.comm = i & 1, .sequence = i, .fingerprint = i};
        uint64_t length = i & 2 ? 20000 : 20;
        for (int turn = 0; turn < 2; turn++) {
            bool receive = turn == (int)(i >> 2 & 1);
            int status = receive
                             ? gyre_stream_recv(f->pair.end[1], &match, out, length, RECV_TOKEN + i)
                             : gyre_stream_send(f->pair.end[0], &match, data, length, i);
            assert_int_equal(status, 0);
            settle(f);
        }
        assert_int_equal(f->got[i], 0);
    }
    free(data);
    free(out);
    fixture_free(f);
}

/* -- flow control ------------------------------------------------------------------------------ */

/* Both ends send everything before either posts a receive, through a window of posts. */
static void ten_thousand_unexpected_both_ways(void **state)
{
    enum { COUNT = 10000, LENGTH = 300 };
    struct fixture *f[2] = {fixture_new(1024, true), NULL};
    uint64_t sent[2] = {0}, got[2] = {0};
    uint8_t in[LENGTH], out[LENGTH];
    memset(in, 7, sizeof in);
    for (int round = 0; got[0] + got[1] < 2 * COUNT; round++) {
        assert_true(round < 100);
        for (int end = 0; end < 2; end++) {
            while (sent[end] < COUNT &&
                   post_send(f[0], end, sent[end] + (uint64_t)end * COUNT, in, LENGTH) == 0) {
                sent[end]++;
            }
        }
        settle(f[0]);
        for (int end = 0; end < 2; end++) {
            for (int i = 0; i < 1024 && got[end] < COUNT; i++) {
                int status = post_recv(f[0], end, got[end] + (uint64_t)!end * COUNT, out, LENGTH);
                assert_true(status == 0 || status == GYRE_AGAIN);
                got[end] += status == 0;
            }
        }
        settle(f[0]);
    }
    settle(f[0]);
    assert_int_equal(f[0]->completions, 4 * COUNT);
    for (int i = 0; i < 2 * COUNT; i++) {
        assert_int_equal(f[0]->sent[i] | f[0]->got[i], 0);
    }
    fixture_free(f[0]);
}

/* Without a receive at most the store's charge leaves the sender, whatever it has posted. */
static void credit_bounds_what_is_unexpected(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(GYRE_EAGER_MAX, 1);
    for (uint64_t i = 0; i < POSTS; i++) {
        assert_int_equal(post_send(f, 0, i, data, GYRE_EAGER_MAX), 0);
    }
    settle(f);
    assert_int_equal(f->completions, 3); /* the fourth would be 64 KiB + 4 × 64 */
    free(data);
    fixture_free(f);
}

/* The store is full of messages that the receiver takes only after the one behind them. */
static void a_posted_receive_is_served_past_a_full_store(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(GYRE_EAGER_MAX, 1), *out = malloc(GYRE_EAGER_MAX);
    for (uint64_t i = 0; i < 40; i++) {
        assert_int_equal(post_send(f, 0, i, data, GYRE_EAGER_MAX), 0);
    }
    settle(f);
    assert_int_equal(post_recv(f, 1, 39, out, GYRE_EAGER_MAX), 0);
    settle(f);
    assert_int_equal(f->got[39], 0);
    assert_memory_equal(data, out, GYRE_EAGER_MAX);
    for (uint64_t i = 0; i < 39; i++) {
        memset(out, 0, GYRE_EAGER_MAX);
        assert_int_equal(post_recv(f, 1, i, out, GYRE_EAGER_MAX), 0);
        settle(f);
        assert_int_equal(f->got[i], 0);
        assert_memory_equal(data, out, GYRE_EAGER_MAX);
    }
    free(data);
    free(out);
    fixture_free(f);
}

static void a_long_message_without_grant_blocks_nobody(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(1 << 20, 1), *out = malloc(1 << 20);
    uint8_t small = 5, small_out = 0;
    assert_int_equal(post_send(f, 0, 0, data, 1 << 20), 0);
    assert_int_equal(post_send(f, 0, 1, &small, 1), 0);
    assert_int_equal(post_recv(f, 1, 1, &small_out, 1), 0);
    settle(f);
    assert_int_equal(f->got[1], 0);
    assert_int_equal(small_out, 5);
    assert_int_equal(f->sent[0], NEVER);
    assert_int_equal(post_recv(f, 1, 0, out, 1 << 20), 0);
    settle(f);
    assert_int_equal(f->got[0], 0);
    assert_memory_equal(data, out, 1 << 20);
    free(data);
    free(out);
    fixture_free(f);
}

/* A question that crosses its answer is not answered again: nothing is left over, however often. */
static void a_question_may_cross_its_answer(void **state)
{
    struct fixture *f = fixture_new(4, true);
    uint8_t *data = pattern(100000, 1), *out = malloc(100000);
    for (uint64_t i = 0; i < 40; i++) {
        struct iovec iov[4];
        assert_int_equal(post_send(f, 0, i, data, 100000), 0);
        while (gyre_stream_gather(f->pair.end[0], iov, 4) == 0) { /* until patience is at its end */
        }
        assert_int_equal(post_recv(f, 1, i, out, 100000), 0);
        settle(f);
        assert_int_equal(f->pair.status[0], 0);
        assert_int_equal(f->got[i], 0);
    }
    free(data);
    free(out);
    fixture_free(f);
}

static void a_message_without_a_receive_is_announced(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(100000, 1), *out = malloc(100000);
    struct gyre_match stored = name(0), asked = name(1), other = name(2);
    stored.fingerprint = asked.fingerprint = 0;
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &stored), 0);
    assert_int_equal(post_send(f, 0, 0, data, 10), 0);
    assert_int_equal(post_send(f, 0, 1, data, 100000), 0);
    settle(f);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &stored), 1);
    assert_int_equal(stored.fingerprint, 99);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &asked), 0);
    assert_true(gyre_stream_ask(f->pair.end[0])); /* as before a sleep */
    assert_false(gyre_stream_ask(f->pair.end[0]));
    assert_true(stream_pair_move(&f->pair, 0) > 0);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &asked), 1);
    assert_int_equal(asked.fingerprint, 99);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &other), 0);
    assert_false(gyre_stream_ask(f->pair.end[0])); /* it has asked */
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(post_recv(f, 1, i, out, i ? 100000 : 10), 0);
        settle(f);
        assert_int_equal(f->got[i], 0);
    }
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &stored), 0);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &asked), 0);
    free(data);
    free(out);
    fixture_free(f);
}

/* What came before the goodbye is still there; nothing else will be. */
static void nothing_is_announced_after_a_goodbye(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    struct gyre_match came = name(0), other = name(2);
    uint8_t small = 5;
    assert_int_equal(post_send(f, 0, 0, &small, 1), 0);
    gyre_stream_bye(f->pair.end[0]);
    settle(f);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &came), 1);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &other), GYRE_PEER_LOST);
    gyre_stream_fail(f->pair.end[1], GYRE_CORRUPT);
    assert_int_equal(gyre_stream_announced(f->pair.end[1], &came), GYRE_CORRUPT);
    fixture_free(f);
}

/* While a long message is under way, one posted later overtakes it at the next frame. */
static void long_messages_take_turns(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    size_t length = 8 << 20;
    uint8_t *data = pattern(length, 1), *out = malloc(length), *other = malloc(length);
    f->pair.piece = 100000;
    assert_int_equal(post_recv(f, 1, 0, out, length), 0);
    assert_int_equal(post_recv(f, 1, 1, other, 100000), 0);
    assert_int_equal(post_recv(f, 1, 2, other + 100000, 1), 0);
    assert_int_equal(post_send(f, 0, 0, data, length), 0);
    for (int i = 0; i < 5; i++) {
        stream_pair_move(&f->pair, 1);
        stream_pair_move(&f->pair, 0);
    }
    assert_int_equal(post_send(f, 0, 1, data, 100000), 0);
    assert_int_equal(post_send(f, 0, 2, data, 1), 0);
    int moves = 0;
    while (f->got[1] == NEVER || f->got[2] == NEVER) {
        assert_true(moves++ < 20);
        stream_pair_move(&f->pair, 0);
        fetch(f);
    }
    assert_int_equal(f->got[0], NEVER);
    settle(f);
    assert_int_equal(f->got[0], 0);
    assert_memory_equal(data, out, length);
    assert_memory_equal(data, other, 100000);
    free(data);
    free(out);
    free(other);
    fixture_free(f);
}

/* With receives posted in time, credit comes back by itself: nothing is ever asked for. */
static void credit_comes_back(void **state)
{
    enum { COUNT = 100, LENGTH = GYRE_EAGER_MAX - GYRE_UNEXPECTED_CHARGE };
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(LENGTH, 1), *out = malloc(LENGTH);
    size_t there = 0, back = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(post_recv(f, 1, i, out, LENGTH), 0);
        assert_int_equal(post_send(f, 0, i, data, LENGTH), 0);
        size_t moved[2];
        do {
            there += moved[0] = stream_pair_move(&f->pair, 0);
            back += moved[1] = stream_pair_move(&f->pair, 1);
        } while (moved[0] + moved[1] > 0);
        fetch(f);
    }
    assert_int_equal(f->completions, 2 * COUNT);
    assert_int_equal(there, COUNT * (HEAD + LENGTH));
    assert_int_equal(back, COUNT / 2 * HEAD); /* one for each half of the store */
    free(data);
    free(out);
    fixture_free(f);
}

/* A receive posted while its message lands in the store gives back all of the message's credit: a
 * charge left behind, 64 bytes of it, would use up the store of 64 KiB within these turns. */
static void credit_comes_back_from_a_message_half_stored(void **state)
{
    enum { COUNT = 1100, LENGTH = 100 };
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(LENGTH, 1), out[LENGTH];
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_int_equal(post_send(f, 0, i, data, LENGTH), 0);
        f->pair.piece = HEAD + LENGTH / 2;
        assert_int_equal(stream_pair_move(&f->pair, 0), f->pair.piece);
        memset(out, 0, sizeof out);
        assert_int_equal(post_recv(f, 1, i, out, LENGTH), 0);
        fetch(f);
        assert_int_equal(f->got[i], NEVER); /* the rest of it is still to come */
        f->pair.piece = 0;
        settle(f);
        assert_int_equal(f->sent[i], 0);
        assert_int_equal(f->got[i], 0);
        assert_memory_equal(data, out, LENGTH);
    }
    free(data);
    fixture_free(f);
}

/* Where messages go both ways credit never goes alone: an end that has nothing to send is
 * silent. */
static void credit_goes_beside_messages(void **state)
{
    enum { COUNT = 100, LENGTH = GYRE_EAGER_MAX - GYRE_UNEXPECTED_CHARGE };
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(LENGTH, 1), *out = malloc(LENGTH);
    for (uint64_t i = 0; i < COUNT; i++) {
        int end = (int)(i % 2);
        size_t credit = i > 0 ? HEAD : 0; /* for the message before */
        assert_int_equal(post_recv(f, 1 - end, i, out, LENGTH), 0);
        assert_int_equal(post_send(f, end, i, data, LENGTH), 0);
        size_t moved = stream_pair_move(&f->pair, end);
        moved += stream_pair_move(&f->pair, end); /* what read-ahead had no room for */
        assert_int_equal(moved, credit + HEAD + LENGTH);
        assert_int_equal(stream_pair_move(&f->pair, 1 - end), 0);
        fetch(f);
        assert_int_equal(f->got[i], 0);
    }
    free(data);
    free(out);
    fixture_free(f);
}

/* A carrier need not read for an end all of whose posts have completed, fetched or not. */
static void an_end_waits_until_its_posts_have_completed(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t data = 5, out = 0;
    assert_false(gyre_stream_waits(f->pair.end[0]));
    assert_int_equal(post_send(f, 0, 0, &data, 1), 0);
    assert_int_equal(post_recv(f, 1, 0, &out, 1), 0);
    assert_true(gyre_stream_waits(f->pair.end[0]));
    assert_true(gyre_stream_waits(f->pair.end[1]));
    stream_pair_move(&f->pair, 0);
    assert_false(gyre_stream_waits(f->pair.end[0]));
    assert_false(gyre_stream_waits(f->pair.end[1]));
    fetch(f);
    assert_int_equal(f->completions, 2);
    assert_false(gyre_stream_waits(f->pair.end[0]));
    fixture_free(f);
}

/* Without credit an end starves, until it has asked for the message instead or has heard of
 * room. */
static void an_end_starves_without_credit(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(GYRE_EAGER_MAX, 1), *out = malloc(GYRE_EAGER_MAX);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(post_send(f, 0, i, data, GYRE_EAGER_MAX), 0);
        assert_false(gyre_stream_lacks_credit(f->pair.end[0]));
        stream_pair_move(&f->pair, 0);
    }
    assert_int_equal(post_send(f, 0, 3, data, GYRE_EAGER_MAX), 0);
    assert_true(gyre_stream_lacks_credit(f->pair.end[0]));
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(post_recv(f, 1, i, out, GYRE_EAGER_MAX), 0);
    }
    stream_pair_move(&f->pair, 1);
    assert_false(gyre_stream_lacks_credit(f->pair.end[0]));
    free(data);
    free(out);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_in_both_orders),
        cmocka_unit_test(pieces_of_any_size),
        cmocka_unit_test(receives_in_another_order),
        cmocka_unit_test(posts_are_bounded_and_come_back),
        cmocka_unit_test(early_receives_leave_half_of_the_posts),
        cmocka_unit_test(a_burst_of_small_messages_is_one_vector),
        cmocka_unit_test(five_thousand_operations),
        cmocka_unit_test(ten_thousand_unexpected_both_ways),
        cmocka_unit_test(credit_bounds_what_is_unexpected),
        cmocka_unit_test(credit_comes_back),
        cmocka_unit_test(credit_comes_back_from_a_message_half_stored),
        cmocka_unit_test(credit_goes_beside_messages),
        cmocka_unit_test(an_end_waits_until_its_posts_have_completed),
        cmocka_unit_test(an_end_starves_without_credit),
        cmocka_unit_test(a_posted_receive_is_served_past_a_full_store),
        cmocka_unit_test(a_long_message_without_grant_blocks_nobody),
        cmocka_unit_test(a_question_may_cross_its_answer),
        cmocka_unit_test(a_message_without_a_receive_is_announced),
        cmocka_unit_test(nothing_is_announced_after_a_goodbye),
        cmocka_unit_test(long_messages_take_turns)};
    int bad = cmocka_run_group_tests_name("read", tests, NULL, NULL);
    security = GYRE_SEAL_AUTH;
    bad |= cmocka_run_group_tests_name("authenticated", tests, NULL, NULL);
    security = GYRE_SEAL_ENCRYPT;
    bad |= cmocka_run_group_tests_name("encrypted", tests, NULL, NULL);
    security = GYRE_SEAL_NONE;
    fed = true;
    return cmocka_run_group_tests_name("fed", tests, NULL, NULL) || bad;
}
