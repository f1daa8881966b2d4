/* Long messages of memory that the CPU cannot touch: two streams joined back to back, and a device
 * whose copies are made when the test says so.
 *
 *      away    memory of the device; the first half is a region that the peer maps
 *      host    memory of the host; the first half likewise */
#include "rig/stream_pair.h"

#include "base/bytes.h"
#include "transport/memory/copy_queue.h"
#include "transport/stream/frame.h"
#include "rig/test.h"

#include <errno.h>
#include <stdlib.h>

#define POSTS       16u
#define AWAY_REGION 5u
#define HOST_REGION 6u
#define HALF        ((size_t)4 << 20)
#define LONG        ((size_t)(3u << 20) + 1000u)
#define NEVER       12345

/* -- a device ---------------------------------------------------------------------------------- */

struct gyre_device_queue {
    int unused;
};

static struct gyre_device_queue the_queue;
static uint8_t away[2 * HALF], host[2 * HALF];

static struct copy {
    void *to;
    const void *from;
    uint64_t bytes, token;
} copies[64];
static uint32_t posted, made, told;         /* of copies */
static int refusal, verdict, queue_verdict; /* of the next post, of query(), of queue_create() */
static bool at_once;                        /* copies are made while they are posted */
static uint32_t looks;                      /* queries after which a copy is made; 0: by the test */

static bool is_away(const uint8_t *memory)
{
    return memory >= away && memory < away + sizeof(away);
}

static int queue_create(int device, struct gyre_device_queue **queue, struct gyre_trouble *trouble)
{
    assert_int_equal(device, 3);
    *queue = &the_queue;
    return queue_verdict ? gyre_trouble_set(trouble, queue_verdict, "no queue today") : 0;
}

static void queue_destroy(struct gyre_device_queue *queue)
{
    assert_ptr_equal(queue, &the_queue);
}

static int post_copy(struct gyre_device_queue *queue, void *to, const void *from, uint64_t bytes,
                     uint64_t token)
{
    assert_ptr_equal(queue, &the_queue);
    if (refusal)
        return refusal;
    if (at_once) {
        memcpy(to, from, bytes);
        return 1;
    }
    assert_in_range(posted, 0, 63);
    copies[posted++] = (struct copy){to, from, bytes, token};
    return 0;
}

static void make_copies(uint32_t most)
{
    for (; made < posted && most; made++, most--)
        memcpy(copies[made].to, copies[made].from, copies[made].bytes);
}

static int query(struct gyre_device_queue *queue, uint64_t *token, int max)
{
    static uint32_t count;
    assert_ptr_equal(queue, &the_queue);
    assert_true(max > 0);
    if (verdict)
        return verdict;
    if (looks && ++count % looks == 0)
        make_copies(1);
    if (told == made)
        return 0;
    *token = copies[told++].token;
    return 1;
}

static const struct gyre_device device = {.name = "toy",
                                          .kind = GYRE_MEMORY_CUDA,
                                          .queue_create = queue_create,
                                          .queue_destroy = queue_destroy,
                                          .copy = post_copy,
                                          .query = query};

/* -- two ends ---------------------------------------------------------------------------------- */

static struct fixture {
    struct stream_pair pair;
    struct gyre_memory_lookup lookup;
    int sent[POSTS], got[POSTS]; /* status by token */
    int fetched;                 /* the last failure that fetch() told */
} f;

/* Of all regions; of those that are left when the device's has gone. Both are kept to the end: the
 * memory is not theirs to unmap. */
static struct gyre_views *views, *views_left;

static const struct gyre_region regions[] = {
    {.base = away, .length = HALF, .kind = GYRE_MEMORY_CUDA, .fd = -1},
    {.base = host, .length = HALF, .kind = GYRE_MEMORY_HOST, .fd = -1}};

static int make_views(void **state)
{
    (void)state;
    assert_int_equal(gyre_views_create(&views) | gyre_views_create(&views_left), 0);
    for (uint32_t peer = 1; peer <= 2; peer++) {
        assert_int_equal(gyre_views_put(views, peer, AWAY_REGION, &regions[0]), 0);
        assert_int_equal(gyre_views_put(views, peer, HOST_REGION, &regions[1]), 0);
        assert_int_equal(gyre_views_put(views_left, peer, HOST_REGION, &regions[1]), 0);
    }
    return 0;
}

static void free_region(void)
{
    struct gyre_shared removed;
    assert_true(gyre_lookup_remove(&f.lookup, away, &removed));
    f.lookup.views = views_left;
}

static int set_up(void **state)
{
    (void)state;
    posted = made = told = looks = 0;
    refusal = verdict = queue_verdict = 0;
    at_once = false;
    memset(&f, 0, sizeof f);
    assert_int_equal(gyre_lookup_init(&f.lookup, AWAY_REGION), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(gyre_lookup_add(&f.lookup, &regions[i]), AWAY_REGION + i);
        gyre_lookup_mark_mapped(&f.lookup, AWAY_REGION + i, false);
    }
    f.lookup.views = views;
    f.lookup.copy_queue = gyre_copy_queue_create(&device, 3);
    for (size_t i = 0; i < 2 * HALF; i += 8) {
        gyre_put64(away + i, gyre_mix64(i));
        gyre_put64(host + i, gyre_mix64(i + 1));
    }
    for (uint32_t end = 0; end < 2; end++) {
        struct gyre_stream_options options = {
            .epoch = 7, .posts = POSTS, .peer = end + 1, .lookup = &f.lookup};
        assert_int_equal(gyre_stream_create(&options, &f.pair.end[end]), 0);
    }
    for (uint32_t i = 0; i < POSTS; i++)
        f.sent[i] = f.got[i] = NEVER;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    looks = looks ? looks : 1;
    gyre_stream_destroy(f.pair.end[0]);
    gyre_stream_destroy(f.pair.end[1]);
    gyre_copy_queue_destroy(f.lookup.copy_queue);
    gyre_lookup_deinit(&f.lookup);
    return 0;
}

static void collect(void)
{
    struct gyre_completion done[4];
    int count;
    for (int end = 0; end < 2; end++)
        while ((count = gyre_stream_complete(f.pair.end[end], done, 4)) > 0)
            for (int i = 0; i < count; i++) {
                uint64_t token = done[i].token;
                int *slot = token < POSTS ? &f.sent[token] : &f.got[token - POSTS];
                assert_int_equal(*slot, NEVER);
                *slot = done[i].status;
            }
}

static int fetch(int end)
{
    int moved = gyre_stream_fetch(f.pair.end[end]);
    if (moved < 0)
        f.fetched = moved;
    return moved > 0;
}

/* Bytes that crossed until both ends had nothing more to say, to copy or to have copied. */
static size_t settle(void)
{
    size_t total = 0, moved;
    do {
        moved = stream_pair_settle(&f.pair);
        total += moved;
        moved += (size_t)fetch(0) + (size_t)fetch(1);
    } while (moved);
    collect();
    return total;
}

/* And the device has made every copy that anybody wanted. */
static size_t run(void)
{
    size_t total = settle();
    while (made < posted) {
        make_copies(1);
        total += settle();
    }
    return total;
}

static struct gyre_match name(uint64_t i)
{
    return (struct gyre_match){.comm = 1, .sequence = i, .fingerprint = 99};
}

static int post_send(uint64_t i, const void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    match.on_device = is_away(data);
    return gyre_stream_send(f.pair.end[0], &match, data, length, i);
}

static int post_recv(uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    match.on_device = is_away(data);
    return gyre_stream_recv(f.pair.end[1], &match, data, length, POSTS + i);
}

static void begin(uint64_t i, const void *from, void *to, size_t length)
{
    assert_int_equal(post_recv(i, to, length), 0);
    assert_int_equal(post_send(i, from, length), 0);
    settle();
}

static void expect(uint64_t i, int sent, int got)
{
    assert_int_equal(f.sent[i], sent);
    assert_int_equal(f.got[i], got);
}

/* -- messages ---------------------------------------------------------------------------------- */

/* One copy and no bytes; neither end hears of it before it is made. */
static void from_device_to_device(void **state)
{
    (void)state;
    begin(1, away + 3, away + HALF, LONG);
    assert_int_equal(posted, 1);
    assert_int_equal(copies[0].bytes, LONG);
    assert_false(gyre_stream_pending(f.pair.end[1]));
    assert_true(gyre_copy_queue_busy(f.lookup.copy_queue));
    expect(1, NEVER, NEVER);
    assert_in_range(run(), 1, 5 * GYRE_FRAME_BYTES);
    expect(1, 0, 0);
    assert_memory_equal(away + HALF, away + 3, LONG);
    assert_false(gyre_copy_queue_busy(f.lookup.copy_queue));
}

static void from_device_to_host_and_back(void **state)
{
    (void)state;
    begin(1, away + 5, host + HALF, LONG);
    run();
    expect(1, 0, 0);
    assert_int_equal(posted, 4); /* 1 MiB each */
    assert_memory_equal(host + HALF, away + 5, LONG);
    begin(2, host + 7, away + HALF, LONG);
    run();
    expect(2, 0, 0);
    assert_int_equal(posted, 8);
    assert_memory_equal(away + HALF, host + 7, LONG);
}

/* From memory that only the sender sees: pieces land in the host's, which is kept until then. */
static void by_pieces_to_a_device(void **state)
{
    (void)state;
    begin(1, host + HALF, away + HALF, LONG);
    assert_int_equal(posted, 1);
    expect(1, 0, NEVER);
    run();
    expect(1, 0, 0);
    assert_int_equal(posted, 4);
    assert_memory_equal(away + HALF, host + HALF, LONG);
}

static void several_at_once(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        assert_int_equal(post_recv(i, away + HALF + i * 100000, 100000), 0);
        assert_int_equal(post_send(i, away + i * 90000, 100000), 0);
    }
    settle();
    assert_int_equal(posted, 8);
    make_copies(3);
    settle();
    for (uint64_t i = 0; i < 8; i++)
        expect(i, i < 3 ? 0 : NEVER, i < 3 ? 0 : NEVER);
    run();
    for (uint64_t i = 0; i < 8; i++) {
        expect(i, 0, 0);
        assert_memory_equal(away + HALF + i * 100000, away + i * 90000, 100000);
    }
}

static void a_queue_that_is_full(void **state)
{
    (void)state;
    refusal = -EAGAIN;
    begin(1, away, away + HALF, LONG);
    assert_true(gyre_stream_pending(f.pair.end[1]));
    expect(1, NEVER, NEVER);
    refusal = 0;
    run();
    expect(1, 0, 0);
    assert_memory_equal(away + HALF, away, LONG);
}

static void a_device_that_copies_at_once(void **state)
{
    (void)state;
    at_once = true;
    begin(1, away, away + HALF, LONG);
    expect(1, 0, 0);
    assert_memory_equal(away + HALF, away, LONG);
}

/* Links are given no other: short messages, and what the peer has not mapped. */
static void what_is_carried(void **state)
{
    const struct gyre_stream *stream = f.pair.end[0];
    struct gyre_stream_options options = {.epoch = 7, .posts = POSTS};
    struct gyre_stream *blind;
    (void)state;
    assert_true(gyre_stream_carries(stream, away, LONG, true));
    assert_true(gyre_stream_carries(stream, away + HALF, LONG, false));
    assert_false(gyre_stream_carries(stream, away + HALF, LONG, true));
    assert_false(gyre_stream_carries(stream, away, GYRE_EAGER_MAX, true));
    assert_false(gyre_stream_carries(stream, host, LONG, true));
    assert_int_equal(gyre_stream_create(&options, &blind), 0);
    assert_false(gyre_stream_carries(blind, away, LONG, false));
    gyre_stream_destroy(blind);
    assert_int_equal(post_send(1, away + HALF, LONG), GYRE_INVALID);
    begin(1, away, away + HALF, LONG);
    run();
    expect(1, 0, 0);
}

/* -- endings ----------------------------------------------------------------------------------- */

static void cancel_while_a_device_copies(void **state)
{
    (void)state;
    begin(1, away, away + HALF, LONG);
    assert_int_equal(gyre_stream_cancel(f.pair.end[1], POSTS + 1), -ENOENT);
    assert_int_equal(gyre_stream_cancel(f.pair.end[0], 1), -ENOENT);
    run();
    expect(1, 0, 0);
    begin(2, host + HALF, away + HALF, LONG); /* it has come, and is on its way from ashore */
    assert_int_equal(gyre_stream_cancel(f.pair.end[1], POSTS + 2), -ENOENT);
    run();
    expect(2, 0, 0);
    assert_memory_equal(away + HALF, host + HALF, LONG);
}

static void cancel_before_it_does(void **state)
{
    (void)state;
    refusal = -EAGAIN;
    begin(1, away, away + HALF, LONG);
    uint8_t first = away[HALF];
    assert_int_equal(gyre_stream_cancel(f.pair.end[1], POSTS + 1), 0);
    refusal = 0;
    run();
    expect(1, 0, -ECANCELED);
    assert_int_equal(posted, 0);
    assert_int_equal(away[HALF], first);
}

/* Half a message has come; what came is forgotten with it. */
static void cancel_between_pieces(void **state)
{
    (void)state;
    f.pair.piece = 100000;
    assert_int_equal(post_recv(1, away + HALF, LONG), 0);
    assert_int_equal(post_send(1, host + HALF, LONG), 0);
    for (int i = 0; i < 10; i++) {
        stream_pair_move(&f.pair, 1);
        stream_pair_move(&f.pair, 0);
    }
    assert_int_equal(gyre_stream_cancel(f.pair.end[1], POSTS + 1), 0);
    run();
    expect(1, 0, -ECANCELED);
    assert_int_equal(posted, 0);
    f.pair.piece = 0;
    begin(2, host + HALF, away + HALF, LONG);
    run();
    expect(2, 0, 0);
    assert_memory_equal(away + HALF, host + HALF, LONG);
}

/* The sender says goodbye when its last piece is out; what is on its way still arrives. */
static void a_goodbye_behind_the_last_piece(void **state)
{
    (void)state;
    begin(1, host + HALF, away + HALF, LONG);
    gyre_stream_bye(f.pair.end[0]);
    gyre_stream_bye(f.pair.end[1]);
    settle();
    assert_true(gyre_stream_heard_bye(f.pair.end[1]));
    expect(1, 0, NEVER);
    run();
    expect(1, 0, 0);
    assert_memory_equal(away + HALF, host + HALF, LONG);
}

/* No buffer is touched any more when a post has ended. */
static void a_failure_waits_for_the_device(void **state)
{
    (void)state;
    begin(1, away, away + HALF, LONG);
    assert_int_equal(made, 0);
    looks = 5;
    gyre_stream_fail(f.pair.end[1], GYRE_PEER_LOST);
    assert_int_equal(made, 1);
    collect();
    assert_int_equal(f.got[1], GYRE_PEER_LOST);
    settle();
    assert_int_equal(posted, 1);
}

static void an_end_waits_for_the_device(void **state)
{
    (void)state;
    begin(1, away, away + HALF, LONG);
    looks = 5;
    gyre_stream_destroy(f.pair.end[1]);
    f.pair.end[1] = NULL;
    assert_int_equal(made, 1);
}

/* halt() lets what was begun end, and is for the watch, which then takes memory away. */
static void memory_is_halted(void **state)
{
    (void)state;
    begin(1, away, away + HALF, LONG);
    looks = 3;
    gyre_copy_queue_halt(f.lookup.copy_queue);
    assert_int_equal(made, 1);
    free_region();
    gyre_copy_queue_resume(f.lookup.copy_queue);
    run();
    expect(1, 0, 0);
    gyre_copy_queue_halt(NULL);
    gyre_copy_queue_resume(NULL);
    gyre_copy_queue_settle(NULL);
    assert_false(gyre_copy_queue_busy(NULL));
}

static void a_region_that_was_freed(void **state)
{
    (void)state;
    assert_int_equal(post_send(1, away, LONG), 0);
    free_region();
    assert_int_equal(post_recv(1, away + HALF, LONG), 0);
    settle();
    assert_int_equal(f.fetched, -ENOENT);
    assert_int_equal(f.got[1], -ENOENT);
    assert_int_equal(posted, 0);
    assert_string_equal(gyre_copy_queue_message(f.lookup.copy_queue), "");
}

/* A device that is lost when it is asked for a queue, for a copy, or for news of one. */
static void a_device_that_is_lost(void **state)
{
    for (int when = 0; when < 3; when++) {
        if (when) {
            tear_down(state);
            set_up(state);
        }
        queue_verdict = when == 0 ? -EIO : 0;
        refusal = when == 1 ? -EIO : 0;
        begin(1, away, away + HALF, LONG);
        verdict = when == 2 ? -EIO : 0;
        settle();
        assert_int_equal(f.fetched, -EIO);
        assert_int_equal(f.got[1], -EIO);
        assert_non_null(strstr(gyre_copy_queue_message(f.lookup.copy_queue),
                               when ? "toy device 3" : "no queue"));
        queue_verdict = refusal = verdict = 0;
        uint64_t ticket;
        assert_int_equal(gyre_copy_queue_copy(f.lookup.copy_queue, away, host, 1, &ticket), -EIO);
        assert_int_equal(gyre_copy_queue_done(f.lookup.copy_queue, 0), -EIO);
        assert_false(gyre_copy_queue_busy(f.lookup.copy_queue));
    }
}

#define AWAY_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {AWAY_TEST(from_device_to_device),
                                       AWAY_TEST(from_device_to_host_and_back),
                                       AWAY_TEST(by_pieces_to_a_device),
                                       AWAY_TEST(several_at_once),
                                       AWAY_TEST(a_queue_that_is_full),
                                       AWAY_TEST(a_device_that_copies_at_once),
                                       AWAY_TEST(what_is_carried),
                                       AWAY_TEST(cancel_while_a_device_copies),
                                       AWAY_TEST(cancel_before_it_does),
                                       AWAY_TEST(cancel_between_pieces),
                                       AWAY_TEST(a_goodbye_behind_the_last_piece),
                                       AWAY_TEST(a_failure_waits_for_the_device),
                                       AWAY_TEST(an_end_waits_for_the_device),
                                       AWAY_TEST(memory_is_halted),
                                       AWAY_TEST(a_region_that_was_freed),
                                       AWAY_TEST(a_device_that_is_lost)};
    return cmocka_run_group_tests(tests, make_views, NULL);
}
