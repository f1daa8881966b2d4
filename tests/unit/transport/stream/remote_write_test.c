/* Messages that the carrier writes past the stream: two streams, and a carrier that copies from one
 * side's memory to the other's where it is told to. An arena of each side is registered with it. */
#include "rig/stream_pair.h"

#include "base/bytes.h"
#include "transport/stream/frame.h"
#include "rig/test.h"

#include <errno.h>
#include <stdlib.h>

#define POSTS 16u
#define KEY   77u
#define ARENA ((size_t)1 << 20)
#define LONG  (GYRE_FRAME_PAYLOAD_MAX + 1000u)
#define NEVER 12345

struct fixture {
    struct stream_pair pair;
    uint8_t *arena[2];           /* what the carrier reads from, and writes into */
    uint64_t written;            /* bytes, by the carrier */
    int sent[POSTS], got[POSTS]; /* status by token */
};

static bool in_arena(const struct fixture *f, int which, const void *memory, uint64_t length)
{
    uint64_t at = (uint64_t)((const uint8_t *)memory - f->arena[which]);
    return at < ARENA && length <= ARENA - at;
}

static struct fixture *fixture_new(uint32_t places)
{
    struct fixture *f = calloc(1, sizeof *f);
    for (int end = 0; end < 2; end++) {
        struct gyre_stream_options options = {.epoch = 7, .posts = POSTS, .places = places};
        assert_int_equal(gyre_stream_create(&options, &f->pair.end[end]), 0);
        f->arena[end] = calloc(1, ARENA);
    }
    for (size_t i = 0; i < ARENA; i++)
        f->arena[0][i] = (uint8_t)gyre_mix64(i);
    for (uint32_t i = 0; i < POSTS; i++)
        f->sent[i] = f->got[i] = NEVER;
    return f;
}

static void fixture_free(struct fixture *f)
{
    for (int end = 0; end < 2; end++) {
        gyre_stream_destroy(f->pair.end[end]);
        free(f->arena[end]);
    }
    free(f);
}

static void collect(struct fixture *f)
{
    struct gyre_completion done[4];
    int count;
    for (int end = 0; end < 2; end++)
        while ((count = gyre_stream_complete(f->pair.end[end], done, 4)) > 0)
            for (int i = 0; i < count; i++) {
                uint64_t token = done[i].token;
                int *slot = token < POSTS ? &f->sent[token] : &f->got[token - POSTS];
                assert_int_equal(*slot, NEVER);
                *slot = done[i].status;
            }
}

/* The carrier's own part: the next message. */
static bool write_one(struct fixture *f)
{
    struct gyre_stream_write write;
    if (!gyre_stream_take_write(f->pair.end[0], &write))
        return false;
    assert_int_equal(write.place.key[3], KEY);
    memcpy((void *)(uintptr_t)write.place.address, write.from, write.length);
    f->written += write.length;
    assert_int_equal(gyre_stream_arrived(f->pair.end[1], write.number), 0);
    gyre_stream_end_write(f->pair.end[0], write.send);
    return true;
}

/* Bytes that crossed in the stream until both ends had nothing more to say. */
static size_t settle(struct fixture *f)
{
    size_t total = 0, moved;
    do {
        moved = stream_pair_settle(&f->pair);
        total += moved;
        moved += write_one(f);
    } while (moved);
    collect(f);
    return total;
}

static struct gyre_match name(uint64_t i)
{
    return (struct gyre_match){.comm = 1, .sequence = i, .fingerprint = 99};
}

static void post_send(struct fixture *f, uint64_t i, const void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    assert_int_equal(in_arena(f, 0, data, length)
                         ? gyre_stream_send_registered(f->pair.end[0], &match, data, length, i)
                         : gyre_stream_send(f->pair.end[0], &match, data, length, i),
                     0);
}

static void post_recv(struct fixture *f, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    struct gyre_remote_place place = {.address = (uintptr_t)data, .key = {[3] = KEY}};
    assert_int_equal(
        in_arena(f, 1, data, length)
            ? gyre_stream_recv_registered(f->pair.end[1], &match, data, length, POSTS + i, &place)
            : gyre_stream_recv(f->pair.end[1], &match, data, length, POSTS + i),
        0);
}

static int cancel_recv(struct fixture *f, uint64_t i)
{
    return gyre_stream_cancel(f->pair.end[1], POSTS + i);
}

/* -- messages ---------------------------------------------------------------------------------- */

static void long_messages_are_written(void **state)
{
    static const uint64_t lengths[] = {GYRE_EAGER_MAX + 1, GYRE_FRAME_PAYLOAD_MAX, LONG, ARENA};
    for (uint64_t i = 0; i < 8; i++) {
        struct fixture *f = fixture_new(POSTS);
        uint64_t length = lengths[i / 2];
        if (i % 2)
            post_recv(f, 1, f->arena[1], length);
        post_send(f, 1, f->arena[0], length);
        if (!(i % 2))
            post_recv(f, 1, f->arena[1], length);
        assert_in_range(settle(f), 1, 4 * GYRE_FRAME_BYTES);
        assert_int_equal(f->written, length);
        assert_int_equal(f->sent[1] | f->got[1], 0);
        assert_memory_equal(f->arena[1], f->arena[0], length);
        fixture_free(f);
    }
    (void)state;
}

/* From memory that the carrier does not know, or into such, or short: by the stream. */
static void others_go_by_the_stream(void **state)
{
    struct fixture *f = fixture_new(POSTS);
    uint8_t *own = calloc(2, LONG);
    post_recv(f, 1, f->arena[1], LONG);
    post_send(f, 1, own, LONG);
    settle(f);
    post_recv(f, 2, own + LONG, LONG);
    post_send(f, 2, f->arena[0], LONG);
    settle(f);
    post_send(f, 3, f->arena[0], GYRE_EAGER_MAX);
    post_recv(f, 3, f->arena[1] + LONG, GYRE_EAGER_MAX);
    settle(f);
    assert_int_equal(f->written, 0);
    for (int i = 1; i <= 3; i++)
        assert_int_equal(f->sent[i] | f->got[i], 0);
    assert_memory_equal(f->arena[1], own, LONG);
    assert_memory_equal(own + LONG, f->arena[0], LONG);
    assert_memory_equal(f->arena[1] + LONG, f->arena[0], GYRE_EAGER_MAX);
    free(own);
    fixture_free(f);
    (void)state;
}

/* No more places are given than may be; they come back. */
static void places_are_counted(void **state)
{
    struct fixture *f = fixture_new(2);
    const uint64_t each = GYRE_EAGER_MAX + 1;
    for (int turn = 0; turn < 2; turn++) {
        f->written = 0;
        for (uint64_t i = 0; i < 5; i++)
            post_recv(f, 5 * (uint64_t)turn + i, f->arena[1] + i * each, each);
        stream_pair_settle(&f->pair);
        for (uint64_t i = 0; i < 5; i++)
            post_send(f, 5 * (uint64_t)turn + i, f->arena[0] + i * each, each);
        settle(f);
        assert_int_equal(f->written, 2 * each);
        assert_memory_equal(f->arena[1], f->arena[0], 5 * each);
    }
    fixture_free(f);
    (void)state;
}

/* -- withdrawn --------------------------------------------------------------------------------- */

/* Its send is not posted yet: the peer says that it will not write, and later sends pieces. */
static void cancel_before_the_send(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct fixture *f = fixture_new(POSTS);
        post_recv(f, 1, f->arena[1], LONG);
        settle(f);
        assert_int_equal(cancel_recv(f, 1), 0);
        collect(f);
        assert_int_equal(f->got[1], NEVER); /* the peer may write */
        if (late)
            settle(f);
        post_send(f, 1, f->arena[0], LONG);
        settle(f);
        assert_int_equal(f->got[1], -ECANCELED);
        assert_int_equal(f->sent[1], 0);
        assert_int_equal(late ? f->written : 0, 0);
        post_recv(f, 2, f->arena[1], LONG);
        post_send(f, 2, f->arena[0], LONG);
        settle(f);
        assert_int_equal(f->got[2] | f->sent[2], 0);
        fixture_free(f);
    }
    (void)state;
}

/* The peer has not been told of the first receive. It is told of the second one, if there is one,
 * and writes nothing into the first one's buffer. */
static void cancel_before_the_place(void **state)
{
    uint8_t *own = calloc(1, LONG);
    for (int i = 0; i < 4; i++) {
        struct fixture *f = fixture_new(POSTS);
        uint8_t *arena = f->arena[1], *other = f->arena[1] + LONG;
        uint8_t *first = i == 1 ? own : arena;
        uint8_t *second = (uint8_t *[]){own, arena, other, NULL}[i];
        post_recv(f, 1, first, LONG);
        assert_int_equal(cancel_recv(f, 1), 0);
        collect(f);
        assert_int_equal(f->got[1], -ECANCELED);
        f->got[1] = NEVER;
        if (second)
            post_recv(f, 1, second, LONG);
        post_send(f, 1, f->arena[0], LONG);
        settle(f);
        assert_int_equal(f->sent[1], 0);
        assert_int_equal(f->got[1], second ? 0 : NEVER);
        assert_int_equal(f->written, second == arena || second == other ? LONG : 0);
        if (second)
            assert_memory_equal(second, f->arena[0], LONG);
        assert_int_equal(first[0] | first[1] | first[LONG - 1], 0);
        memset(own, 0, LONG);
        fixture_free(f);
    }
    free(own);
    (void)state;
}

/* Its send waits for the carrier: pieces come instead, and nobody keeps them. */
static void cancel_before_the_write(void **state)
{
    struct fixture *f = fixture_new(POSTS);
    post_send(f, 1, f->arena[0], LONG);
    post_recv(f, 1, f->arena[1], LONG);
    stream_pair_settle(&f->pair); /* the PLACE is heard */
    assert_int_equal(cancel_recv(f, 1), 0);
    stream_pair_settle(&f->pair);
    collect(f);
    assert_int_equal(f->got[1], -ECANCELED);
    settle(f);
    assert_int_equal(f->written, 0);
    assert_int_equal(f->sent[1], 0);
    assert_int_equal(f->arena[1][0] | f->arena[1][1] | f->arena[1][2], 0);
    fixture_free(f);
    (void)state;
}

/* The carrier has begun: the receive ends when it has written, and the send cannot be recalled. */
static void cancel_while_it_is_written(void **state)
{
    struct fixture *f = fixture_new(POSTS);
    struct gyre_stream_write write;
    post_send(f, 1, f->arena[0], LONG);
    post_recv(f, 1, f->arena[1], LONG);
    stream_pair_settle(&f->pair);
    assert_true(gyre_stream_take_write(f->pair.end[0], &write));
    assert_int_equal(gyre_stream_cancel(f->pair.end[0], 1), -ENOENT);
    assert_int_equal(cancel_recv(f, 1), 0);
    assert_int_equal(cancel_recv(f, 1), 0); /* twice is once */
    settle(f);
    assert_int_equal(f->got[1], NEVER);
    assert_int_equal(gyre_stream_arrived(f->pair.end[1], write.number), 0);
    gyre_stream_end_write(f->pair.end[0], write.send);
    settle(f);
    assert_int_equal(f->got[1], -ECANCELED);
    assert_int_equal(f->sent[1], 0);
    fixture_free(f);
    (void)state;
}

static void cancel_of_the_send(void **state)
{
    struct fixture *f = fixture_new(POSTS);
    post_send(f, 1, f->arena[0], LONG);
    post_recv(f, 1, f->arena[1], LONG);
    stream_pair_settle(&f->pair);
    assert_int_equal(gyre_stream_cancel(f->pair.end[0], 1), 0);
    settle(f);
    assert_int_equal(f->sent[1], -ECANCELED);
    assert_int_equal(f->got[1], -ECANCELED);
    assert_int_equal(f->written, 0);
    fixture_free(f);
    (void)state;
}

/* A goodbye follows what is being written. */
static void a_goodbye_waits_for_the_carrier(void **state)
{
    struct fixture *f = fixture_new(POSTS);
    post_send(f, 1, f->arena[0], LONG);
    post_recv(f, 1, f->arena[1], LONG);
    stream_pair_settle(&f->pair);
    gyre_stream_bye(f->pair.end[0]);
    gyre_stream_bye(f->pair.end[1]);
    stream_pair_settle(&f->pair);
    assert_false(gyre_stream_heard_bye(f->pair.end[1]));
    settle(f);
    assert_true(gyre_stream_heard_bye(f->pair.end[1]));
    assert_int_equal(f->sent[1] | f->got[1], 0);
    fixture_free(f);
    (void)state;
}

/* -- a peer that lies -------------------------------------------------------------------------- */

static void numbers_that_nobody_gave(void **state)
{
    for (uint32_t number = 0; number < 3; number++) {
        struct fixture *f = fixture_new(POSTS);
        post_recv(f, 1, f->arena[1], 8); /* record 0, not placed */
        settle(f);
        assert_int_equal(gyre_stream_arrived(f->pair.end[1], number == 2 ? 1u << 30 : number),
                         GYRE_CORRUPT);
        collect(f);
        assert_int_equal(f->got[1], GYRE_CORRUPT);
        fixture_free(f);
    }
    (void)state;
}

/* A receive that is withdrawn behind a goodbye ends at once, and its buffer is the caller's. */
static void nothing_arrives_behind_a_goodbye(void **state)
{
    struct fixture *f = fixture_new(8);
    struct gyre_stream_arrival arrival;
    post_recv(f, 0, f->arena[1], LONG);
    settle(f);
    assert_true(gyre_stream_arrival_of(f->pair.end[1], 0, &arrival));
    gyre_stream_bye(f->pair.end[0]);
    settle(f);
    assert_false(gyre_stream_arrival_of(f->pair.end[1], 0, &arrival));
    assert_int_equal(gyre_stream_arrived(f->pair.end[1], 0), GYRE_CORRUPT);
    fixture_free(f);
    (void)state;
}

/* The same number twice. */
static void an_arrival_comes_once(void **state)
{
    struct fixture *f = fixture_new(POSTS);
    struct gyre_stream_write write;
    post_send(f, 1, f->arena[0], LONG);
    post_recv(f, 1, f->arena[1], LONG);
    stream_pair_settle(&f->pair);
    assert_true(gyre_stream_take_write(f->pair.end[0], &write));
    assert_int_equal(gyre_stream_arrived(f->pair.end[1], write.number), 0);
    assert_int_equal(gyre_stream_arrived(f->pair.end[1], write.number), GYRE_CORRUPT);
    fixture_free(f);
    (void)state;
}

/* A place is no good to an end that has no carrier for it. */
static void a_place_without_a_carrier(void **state)
{
    struct gyre_stream_options options = {.epoch = 7, .posts = POSTS};
    struct gyre_stream *stream;
    uint8_t wire[GYRE_FRAME_BYTES + GYRE_FRAME_PLACE_BYTES] = {0};
    struct gyre_frame frame = {
        .kind = GYRE_FRAME_PLACE, .length = GYRE_FRAME_PLACE_BYTES, .epoch = 7, .match = name(1)};
    struct iovec to[2];
    assert_int_equal(gyre_stream_create(&options, &stream), 0);
    gyre_put64(wire + GYRE_FRAME_BYTES, LONG);
    gyre_frame_encode(&frame, wire);
    gyre_stream_target(stream, to);
    memcpy(to[0].iov_base, wire, sizeof wire);
    assert_int_equal(gyre_stream_read(stream, sizeof wire), GYRE_CORRUPT);
    gyre_stream_destroy(stream);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_messages_are_written),
                                       cmocka_unit_test(others_go_by_the_stream),
                                       cmocka_unit_test(places_are_counted),
                                       cmocka_unit_test(cancel_before_the_send),
                                       cmocka_unit_test(cancel_before_the_place),
                                       cmocka_unit_test(cancel_before_the_write),
                                       cmocka_unit_test(cancel_while_it_is_written),
                                       cmocka_unit_test(cancel_of_the_send),
                                       cmocka_unit_test(a_goodbye_waits_for_the_carrier),
                                       cmocka_unit_test(numbers_that_nobody_gave),
                                       cmocka_unit_test(nothing_arrives_behind_a_goodbye),
                                       cmocka_unit_test(an_arrival_comes_once),
                                       cmocka_unit_test(a_place_without_a_carrier)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
