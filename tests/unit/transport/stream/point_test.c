/* Messages that are read where they lie: two streams whose ends both see one arena. */
#include "rig/stream_pair.h"

#include "base/bytes.h"
#include "transport/stream/frame.h"
#include "rig/test.h"

#include <errno.h>
#include <stdlib.h>

#define POSTS  16u
#define REGION 5u
#define ARENA  ((size_t)2 << 20)
#define LONG   (GYRE_FRAME_PAYLOAD_MAX + 1000u)
#define NEVER  12345

struct fixture {
    struct stream_pair pair;
    struct gyre_memory_lookup lookup;
    struct gyre_region region; /* the arena */
    struct gyre_views *views;  /* of it, at each end */
    uint8_t *arena;
    uint8_t out[ARENA];          /* where messages arrive: seen by one end only */
    int sent[POSTS], got[POSTS]; /* status by token */
};

/* Whether the ends may look into the arena. */
static void map_arena(struct fixture *f, bool mapped)
{
    f->lookup.views = mapped ? f->views : NULL;
}

static void put_view(struct fixture *f, uint32_t peer)
{
    struct gyre_region view;
    assert_int_equal(gyre_device_of(GYRE_MEMORY_HOST)
                         ->import(0, f->region.fd, ARENA, GYRE_SHARE_OPEN, &view, NULL),
                     0);
    assert_int_equal(gyre_views_put(f->views, peer, REGION, &view), 0);
}

static struct fixture *fixture_new(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_int_equal(
        gyre_device_of(GYRE_MEMORY_HOST)->alloc(0, ARENA, GYRE_SHARE_OPEN, &f->region, NULL), 0);
    f->arena = f->region.base;
    assert_int_equal(gyre_lookup_init(&f->lookup, REGION), 0);
    assert_int_equal(gyre_lookup_add(&f->lookup, &f->region), REGION);
    gyre_lookup_mark_mapped(&f->lookup, REGION, false);
    assert_int_equal(gyre_views_create(&f->views), 0);
    map_arena(f, true);
    for (size_t i = 0; i < ARENA; i++)
        f->arena[i] = (uint8_t)gyre_mix64(i);
    for (uint32_t end = 0; end < 2; end++) {
        struct gyre_stream_options options = {
            .epoch = 7, .posts = POSTS, .peer = end + 1, .lookup = &f->lookup};
        put_view(f, end + 1);
        assert_int_equal(gyre_stream_create(&options, &f->pair.end[end]), 0);
    }
    for (uint32_t i = 0; i < POSTS; i++)
        f->sent[i] = f->got[i] = NEVER;
    return f;
}

static void fixture_free(struct fixture *f)
{
    gyre_stream_destroy(f->pair.end[0]);
    gyre_stream_destroy(f->pair.end[1]);
    gyre_lookup_deinit(&f->lookup);
    gyre_views_destroy(f->views);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&f->region);
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

/* Bytes that crossed until both ends had nothing more to say or to copy. */
static size_t settle(struct fixture *f)
{
    size_t total = 0, moved;
    do {
        moved = stream_pair_settle(&f->pair);
        total += moved;
        moved += gyre_stream_fetch(f->pair.end[0]);
        moved += gyre_stream_fetch(f->pair.end[1]);
    } while (moved);
    collect(f);
    return total;
}

static struct gyre_match name(uint64_t i)
{
    return (struct gyre_match){.comm = 1, .sequence = i, .fingerprint = 99};
}

static int post_send(struct fixture *f, uint64_t i, const void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_send(f->pair.end[0], &match, data, length, i);
}

static int post_recv(struct fixture *f, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    return gyre_stream_recv(f->pair.end[1], &match, data, length, POSTS + i);
}

/* -- messages ---------------------------------------------------------------------------------- */

static void long_messages_do_not_cross(void **state)
{
    static const uint64_t lengths[] = {GYRE_EAGER_MAX + 1, GYRE_FRAME_PAYLOAD_MAX, LONG, ARENA};
    for (uint64_t i = 0; i < 8; i++) {
        struct fixture *f = fixture_new();
        uint64_t length = lengths[i / 2], at = length < ARENA ? 3 : 0;
        assert_int_equal(i % 2 ? post_recv(f, 1, f->out, length) : 0, 0);
        assert_int_equal(post_send(f, 1, f->arena + at, length), 0);
        assert_int_equal(i % 2 ? 0 : post_recv(f, 1, f->out, length), 0);
        assert_in_range(settle(f), 1, 5 * GYRE_FRAME_BYTES);
        assert_int_equal(f->sent[1], 0);
        assert_int_equal(f->got[1], 0);
        assert_memory_equal(f->out, f->arena + at, length);
        fixture_free(f);
    }
    (void)state;
}

static void other_messages_do(void **state)
{
    struct fixture *f = fixture_new();
    uint8_t *own = calloc(1, LONG);
    assert_int_equal(post_recv(f, 1, f->out, LONG), 0);
    assert_int_equal(post_recv(f, 2, f->out + LONG, GYRE_EAGER_MAX), 0);
    assert_int_equal(post_send(f, 1, own, LONG), 0);
    assert_int_equal(post_send(f, 2, f->arena, GYRE_EAGER_MAX), 0);
    assert_in_range(settle(f), LONG + GYRE_EAGER_MAX, SIZE_MAX);
    assert_int_equal(f->got[1] | f->got[2] | f->sent[1] | f->sent[2], 0);
    assert_memory_equal(f->out, own, LONG);
    assert_memory_equal(f->out + LONG, f->arena, GYRE_EAGER_MAX);
    free(own);
    fixture_free(f);
    (void)state;
}

/* The buffer is the sender's again only when the last piece has been copied; small messages pass
 * meanwhile. */
static void the_send_ends_with_the_last_piece(void **state)
{
    struct fixture *f = fixture_new();
    map_arena(f, false);
    assert_int_equal(post_recv(f, 1, f->out, LONG), 0);
    assert_int_equal(post_send(f, 1, f->arena, LONG), 0);
    settle(f);
    assert_true(gyre_stream_pending(f->pair.end[1]));
    assert_int_equal(f->sent[1], NEVER);
    assert_int_equal(post_recv(f, 2, f->out + LONG, 8), 0);
    assert_int_equal(post_send(f, 2, f->arena, 8), 0);
    settle(f);
    assert_int_equal(f->got[2], 0);
    map_arena(f, true);
    assert_true(gyre_stream_fetch(f->pair.end[1]));
    stream_pair_settle(&f->pair);
    collect(f);
    assert_int_equal(f->sent[1], NEVER);
    assert_int_equal(f->got[1], NEVER);
    settle(f);
    assert_int_equal(f->sent[1], 0);
    assert_int_equal(f->got[1], 0);
    assert_memory_equal(f->out, f->arena, LONG);
    assert_false(gyre_stream_pending(f->pair.end[1]));
    fixture_free(f);
    (void)state;
}

/* -- endings ----------------------------------------------------------------------------------- */

static void a_goodbye_waits_for_the_reader(void **state)
{
    struct fixture *f = fixture_new();
    map_arena(f, false);
    assert_int_equal(post_recv(f, 1, f->out, LONG), 0);
    assert_int_equal(post_send(f, 1, f->arena, LONG), 0);
    settle(f);
    gyre_stream_bye(f->pair.end[0]);
    gyre_stream_bye(f->pair.end[1]);
    settle(f);
    assert_true(gyre_stream_heard_bye(f->pair.end[0]));
    assert_false(gyre_stream_heard_bye(f->pair.end[1]));
    map_arena(f, true);
    settle(f);
    assert_true(gyre_stream_heard_bye(f->pair.end[1]));
    assert_int_equal(f->sent[1] | f->got[1], 0);
    fixture_free(f);
    (void)state;
}

static void a_failure_ends_both_and_copies_nothing(void **state)
{
    struct fixture *f = fixture_new();
    map_arena(f, false);
    assert_int_equal(post_recv(f, 1, f->out, LONG), 0);
    assert_int_equal(post_send(f, 1, f->arena, LONG), 0);
    settle(f);
    gyre_stream_fail(f->pair.end[0], GYRE_PEER_LOST);
    gyre_stream_fail(f->pair.end[1], GYRE_PEER_LOST);
    map_arena(f, true);
    settle(f);
    assert_int_equal(f->sent[1], GYRE_PEER_LOST);
    assert_int_equal(f->got[1], GYRE_PEER_LOST);
    assert_int_equal(f->out[0] | f->out[1] | f->out[2], 0);
    fixture_free(f);
    (void)state;
}

/* A located send whose place has not been told is taken back; one that the peer reads is not. */
static void cancel_of_the_send(void **state)
{
    struct fixture *f = fixture_new();
    struct iovec iov[8];
    assert_int_equal(post_recv(f, 1, f->out, LONG), 0);
    assert_true(stream_pair_move(&f->pair, 1) > 0); /* the GRANT */
    assert_int_equal(post_send(f, 1, f->arena, LONG), 0);
    assert_int_equal(gyre_stream_cancel(f->pair.end[0], 1), 0);
    settle(f);
    assert_int_equal(f->sent[1], -ECANCELED);
    assert_int_equal(f->got[1], -ECANCELED);
    assert_int_equal(post_recv(f, 2, f->out, LONG), 0);
    assert_int_equal(post_send(f, 2, f->arena, LONG), 0);
    stream_pair_move(&f->pair, 1);
    assert_int_equal(gyre_stream_gather(f->pair.end[0], iov, 8), 1); /* the POINT is framed */
    assert_int_equal(gyre_stream_cancel(f->pair.end[0], 2), -ENOENT);
    settle(f);
    assert_int_equal(f->sent[2] | f->got[2], 0);
    assert_memory_equal(f->out, f->arena, LONG);
    fixture_free(f);
    (void)state;
}

static void cancel_of_the_receive(void **state)
{
    struct fixture *f = fixture_new();
    map_arena(f, false);
    assert_int_equal(post_recv(f, 1, f->out, LONG), 0);
    assert_int_equal(post_send(f, 1, f->arena, LONG), 0);
    settle(f);
    assert_int_equal(gyre_stream_cancel(f->pair.end[1], POSTS + 1), 0);
    map_arena(f, true);
    settle(f);
    assert_int_equal(f->got[1], -ECANCELED);
    assert_int_equal(f->sent[1], 0);
    assert_int_equal(f->out[0] | f->out[1] | f->out[2], 0);
    fixture_free(f);
    (void)state;
}

/* -- lies -------------------------------------------------------------------------------------- */

/* A frame from end 0, with a sum that is right. */
static int say(struct fixture *f, enum gyre_frame_kind kind, uint64_t region, uint64_t offset)
{
    uint8_t wire[GYRE_FRAME_BYTES + 16] = {0};
    struct gyre_frame frame = {
        .kind = kind, .length = kind == GYRE_FRAME_POINT ? 16 : 0, .epoch = 7, .match = name(1)};
    struct iovec to[2], from = {.iov_base = wire, .iov_len = GYRE_FRAME_BYTES + frame.length};
    gyre_put64(wire + GYRE_FRAME_BYTES, region);
    gyre_put64(wire + GYRE_FRAME_BYTES + 8, offset);
    gyre_frame_encode(&frame, wire);
    int count = gyre_stream_target(f->pair.end[1], to);
    return gyre_stream_read(f->pair.end[1], stream_copy(&from, 1, to, count, SIZE_MAX));
}

static void invite(struct fixture *f, uint64_t length)
{
    assert_int_equal(post_recv(f, 1, f->out, length), 0);
    settle(f);
}

static void lies_are_corrupt(void **state)
{
    for (int lie = 0; lie < 9; lie++) {
        struct fixture *f = fixture_new();
        enum gyre_frame_kind kind = lie == 6   ? GYRE_FRAME_TAKEN
                                    : lie == 7 ? GYRE_FRAME_VOID
                                               : GYRE_FRAME_POINT;
        if (lie == 1) /* not granted: it comes by itself */
            invite(f, 100);
        if (lie == 2) /* the GRANT is not out */
            assert_int_equal(post_recv(f, 1, f->out, LONG), 0);
        if (lie >= 3)
            invite(f, LONG);
        if (lie == 5 || lie == 7) /* once more; withdrawn after it was pointed at */
            assert_int_equal(say(f, GYRE_FRAME_POINT, REGION, 0), 0);
        if (lie == 8)
            assert_int_equal(say(f, GYRE_FRAME_BYE, 0, 0), 0);
        uint64_t region = lie == 3 ? 0 : lie == 4 ? UINT64_C(1) << 32 : REGION;
        assert_int_equal(say(f, kind, region, 0), GYRE_CORRUPT);
        fixture_free(f);
    }
    (void)state;
}

/* What is no place of the peer's is never read, however near the end of the numbers. */
static void places_elsewhere_are_not_read(void **state)
{
    static const uint64_t places[][2] = {
        {REGION + 1, 0}, {REGION, ARENA - LONG + 1}, {REGION, UINT64_MAX - 10}, {REGION, ARENA}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct fixture *f = fixture_new();
        invite(f, LONG);
        assert_int_equal(say(f, GYRE_FRAME_POINT, places[i][0], places[i][1]), 0);
        settle(f);
        assert_int_equal(f->got[1], NEVER);
        assert_true(gyre_stream_pending(f->pair.end[1]));
        fixture_free(f);
    }
    (void)state;
}

/* Where nothing is seen, nobody points. */
static void without_sight_it_is_corrupt(void **state)
{
    struct fixture *f = fixture_new();
    struct gyre_stream_options options = {.epoch = 7, .posts = POSTS};
    gyre_stream_destroy(f->pair.end[1]);
    assert_int_equal(gyre_stream_create(&options, &f->pair.end[1]), 0);
    invite(f, LONG);
    assert_int_equal(say(f, GYRE_FRAME_POINT, REGION, 0), GYRE_CORRUPT);
    fixture_free(f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_messages_do_not_cross),
                                       cmocka_unit_test(other_messages_do),
                                       cmocka_unit_test(the_send_ends_with_the_last_piece),
                                       cmocka_unit_test(a_goodbye_waits_for_the_reader),
                                       cmocka_unit_test(a_failure_ends_both_and_copies_nothing),
                                       cmocka_unit_test(cancel_of_the_send),
                                       cmocka_unit_test(cancel_of_the_receive),
                                       cmocka_unit_test(lies_are_corrupt),
                                       cmocka_unit_test(places_elsewhere_are_not_read),
                                       cmocka_unit_test(without_sight_it_is_corrupt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
