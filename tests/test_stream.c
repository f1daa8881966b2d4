/* Streams, two of them back to back in memory: sizes, order, credit, grants, cancel, failure,
 * agreement. */
#include "stream_pair.h"

#include "transport/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define POSTS 64u
#define NEVER 12345 /* a status that no completion has */

struct fixture {
    struct stream_pair pair;
    struct gyre_rng rng;
    int sent[1 << 16], got[1 << 16]; /* status by token: sends are even ends' tokens below 65,536 */
    int completions;
};

static bool fed; /* of every pair of this run */

static struct fixture *fixture_new(uint32_t posts, bool checksum)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct gyre_stream_options options = {.epoch = 7, .posts = posts, .checksum = checksum};
    assert_int_equal(gyre_stream_create(&options, &f->pair.end[0]), 0);
    assert_int_equal(gyre_stream_create(&options, &f->pair.end[1]), 0);
    f->pair.fed = fed;
    gyre_rng_seed(&f->rng, 42);
    for (int i = 0; i < 1 << 16; i++) {
        f->sent[i] = f->got[i] = NEVER;
    }
    return f;
}

static void fixture_free(struct fixture *f)
{
    gyre_stream_destroy(f->pair.end[0]);
    gyre_stream_destroy(f->pair.end[1]);
    free(f);
}

#define RECV_TOKEN 0x10000u /* sends use tokens below, receives from here on */

static void fetch(struct fixture *f)
{
    struct gyre_completion done[16];
    for (int end = 0; end < 2; end++) {
        int count;
        while ((count = gyre_stream_complete(f->pair.end[end], done, 16)) > 0) {
            for (int i = 0; i < count; i++) {
                uint32_t token = (uint32_t)done[i].token;
                int *slot = token < RECV_TOKEN ? &f->sent[token] : &f->got[token - RECV_TOKEN];
                assert_int_equal(*slot, NEVER); /* exactly once */
                *slot = done[i].status;
                f->completions++;
            }
        }
    }
}

static void settle(struct fixture *f)
{
    stream_pair_settle(&f->pair);
    fetch(f);
}

static struct gyre_match name(uint64_t i)
{
    return (struct gyre_match){.comm = 1,
                               .lane = (uint16_t)(i % 3),
                               .order = (uint16_t)(i % 1000),
                               .sequence = 1 + i / 1000,
                               .fingerprint = 99};
}

static int post_send(struct fixture *f, int end, uint64_t i, const void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_send(f->pair.end[end], &match, data, length, i);
}

static int post_recv(struct fixture *f, int end, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_recv(f->pair.end[end], &match, data, length, RECV_TOKEN + i);
}

static uint8_t *pattern(size_t length, uint64_t seed)
{
    uint8_t *bytes = malloc(length + 8);
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = gyre_mix64(seed + i);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

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

static void exchange(struct fixture *f, uint64_t i, uint64_t size, bool receive_first)
{
    uint8_t *data = pattern(size, i), *out = calloc(1, size + 1);
    if (receive_first) {
        assert_int_equal(post_recv(f, 1, i, out, size), 0);
    }
    assert_int_equal(post_send(f, 0, i, data, size), 0);
    settle(f);
    if (!receive_first) {
        assert_int_equal(post_recv(f, 1, i, out, size), 0);
        settle(f);
    }
    assert_int_equal(f->sent[i], 0);
    assert_int_equal(f->got[i], 0);
    assert_memory_equal(data, out, size);
    free(data);
    free(out);
}

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
    assert_int_equal(iov[0].iov_len, 20 * (GYRE_FRAME_BYTES + 32));
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
    assert_int_equal(there, COUNT * (GYRE_FRAME_BYTES + LENGTH));
    assert_int_equal(back, COUNT / 2 * GYRE_FRAME_BYTES); /* one for each half of the store */
    free(data);
    free(out);
    fixture_free(f);
}

/* Where messages go both ways credit never goes alone: an end that has nothing to send is silent. */
static void credit_goes_beside_messages(void **state)
{
    enum { COUNT = 100, LENGTH = GYRE_EAGER_MAX - GYRE_UNEXPECTED_CHARGE };
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(LENGTH, 1), *out = malloc(LENGTH);
    for (uint64_t i = 0; i < COUNT; i++) {
        int end = (int)(i % 2);
        size_t credit = i > 0 ? GYRE_FRAME_BYTES : 0; /* for the message before */
        assert_int_equal(post_recv(f, 1 - end, i, out, LENGTH), 0);
        assert_int_equal(post_send(f, end, i, data, LENGTH), 0);
        assert_int_equal(stream_pair_move(&f->pair, end), credit + GYRE_FRAME_BYTES + LENGTH);
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

/* Without credit an end starves, until it has asked for the message instead or has heard of room. */
static void an_end_starves_without_credit(void **state)
{
    struct fixture *f = fixture_new(POSTS, true);
    uint8_t *data = pattern(GYRE_EAGER_MAX, 1), *out = malloc(GYRE_EAGER_MAX);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(post_send(f, 0, i, data, GYRE_EAGER_MAX), 0);
        assert_false(gyre_stream_starves(f->pair.end[0]));
        stream_pair_move(&f->pair, 0);
    }
    assert_int_equal(post_send(f, 0, 3, data, GYRE_EAGER_MAX), 0);
    assert_true(gyre_stream_starves(f->pair.end[0]));
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(post_recv(f, 1, i, out, GYRE_EAGER_MAX), 0);
    }
    stream_pair_move(&f->pair, 1);
    assert_false(gyre_stream_starves(f->pair.end[0]));
    free(data);
    free(out);
    fixture_free(f);
}

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
        assert_int_equal(gyre_stream_gather(f->pair.end[0], iov, 4), 0);
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
 */
static void a_flipped_bit_is_corrupt(void **state)
{
    enum { LENGTH = 40 };
    for (uint32_t bit = 0; bit < 8 * (GYRE_FRAME_BYTES + LENGTH); bit++) {
        struct fixture *f = fixture_new(4, true);
        uint8_t *data = pattern(LENGTH, 1), out[LENGTH];
        struct iovec from[4], to[2];
        assert_int_equal(post_recv(f, 1, 0, out, LENGTH), 0);
        assert_int_equal(post_send(f, 0, 0, data, LENGTH), 0);
        assert_int_equal(gyre_stream_gather(f->pair.end[0], from, 4), 1);
        uint8_t wire[GYRE_FRAME_BYTES + LENGTH];
        memcpy(wire, from[0].iov_base, sizeof wire);
        wire[bit / 8] ^= (uint8_t)(1 << bit % 8);
        gyre_stream_target(f->pair.end[1], to);
        memcpy(to[0].iov_base, wire, sizeof wire);
        int status = gyre_stream_read(f->pair.end[1], sizeof wire);
        if (status == 0) { /* a longer length: the sum is seen when that much has come */
            for (size_t more = 0; status == 0 && more < 2 * GYRE_FRAME_PAYLOAD_MAX; more += 64) {
                gyre_stream_target(f->pair.end[1], to);
                memset(to[0].iov_base, 0, to[0].iov_len < 64 ? to[0].iov_len : 64);
                status = gyre_stream_read(f->pair.end[1], to[0].iov_len < 64 ? to[0].iov_len : 64);
            }
        }
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

/* What the peer says, with a sum that is right. */
static int say(struct fixture *f, enum gyre_frame_kind kind, uint64_t i, uint32_t length,
               uint64_t control)
{
    static uint8_t wire[GYRE_FRAME_BYTES + GYRE_FRAME_PAYLOAD_MAX];
    struct gyre_frame frame = {.kind = kind, .length = length, .epoch = 7, .match = name(i)};
    struct iovec to[2], from = {.iov_base = wire, .iov_len = GYRE_FRAME_BYTES + length};
    int status = 0;
    if (kind == GYRE_FRAME_CREDIT) {
        frame.match = (struct gyre_match){.sequence = control};
    }
    memcpy(wire + GYRE_FRAME_BYTES, &control, sizeof control);
    gyre_frame_encode(&frame, wire + GYRE_FRAME_BYTES, wire);
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
    assert_true(gyre_stream_footprint(stream) > 65536 * sizeof(struct gyre_match));
    gyre_stream_destroy(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_in_both_orders),
        cmocka_unit_test(pieces_of_any_size),
        cmocka_unit_test(receives_in_another_order),
        cmocka_unit_test(posts_are_bounded_and_come_back),
        cmocka_unit_test(a_burst_of_small_messages_is_one_vector),
        cmocka_unit_test(five_thousand_operations),
        cmocka_unit_test(ten_thousand_unexpected_both_ways),
        cmocka_unit_test(credit_bounds_what_is_unexpected),
        cmocka_unit_test(credit_comes_back),
        cmocka_unit_test(credit_goes_beside_messages),
        cmocka_unit_test(an_end_waits_until_its_posts_have_completed),
        cmocka_unit_test(an_end_starves_without_credit),
        cmocka_unit_test(a_posted_receive_is_served_past_a_full_store),
        cmocka_unit_test(a_long_message_without_grant_blocks_nobody),
        cmocka_unit_test(a_question_may_cross_its_answer),
        cmocka_unit_test(long_messages_take_turns),
        cmocka_unit_test(cancel_before_anything_moved),
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
        cmocka_unit_test(what_goes_unasked_has_the_streams_limit),
        cmocka_unit_test(posts_out_of_range_are_refused)};
    int bad = cmocka_run_group_tests_name("read", tests, NULL, NULL);
    fed = true;
    return cmocka_run_group_tests_name("fed", tests, NULL, NULL) || bad;
}
