/* Regions between real processes: offered, mapped, refused, withdrawn, and what happens when the
 * taker is gone. */
#include "program/watch/rig.h"

#include "base/clock.h"
#include "rig/beside.h"
#include "rig/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define LENGTH (64u * 1024)

enum { SHARES = 9, SHARED = 10, SEEN = 11, GONE = 12 };
enum { GO_LOOK = 100, GO_WITHDRAW = 101, GO_END = 102 };

static struct rig node_of(uint32_t n, void (*play)(struct rig_rank *me))
{
    return (struct rig){.n = n, .dead_time_ms = 1500, .timeout_ms = 60000, .play = play};
}

static struct gyre_region region_of(uint64_t length, enum gyre_share share)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};

    if (gyre_device_of(GYRE_MEMORY_HOST)->alloc(0, length, share, &region, &trouble) != 0) {
        fprintf(stderr, "%s\n", trouble.text);
        _exit(99);
    }
    return region;
}

static void put_value(struct rig_rank *me, int64_t value)
{
    me->board->seat[me->rank].value = value;
}

static void put_text(struct rig_rank *me, const struct gyre_trouble *trouble)
{
    memcpy(me->board->seat[me->rank].text, trouble->text, sizeof trouble->text);
}

/* -- shared and seen --------------------------------------------------------------------------- */

static void give(struct rig_rank *me)
{
    struct gyre_trouble trouble = {0};
    struct gyre_region open = region_of(LENGTH, GYRE_SHARE_OPEN);
    struct gyre_region sealed = region_of(LENGTH, GYRE_SHARE_SEALED);

    memset(open.base, 7, LENGTH);
    memset(sealed.base, 9, LENGTH);
    int status = gyre_watch_share(me->watch, 1, &open, GYRE_SHARE_OPEN, &trouble);
    if (status == 0)
        status = gyre_watch_share(me->watch, 2, &sealed, GYRE_SHARE_SEALED, &trouble);
    put_value(me, status);
    put_text(me, &trouble);
    rig_tell(me, SHARED);
    rig_await_go(me, GO_WITHDRAW);
    put_value(me, ((uint8_t *)open.base)[me->rank + 1]); /* what the peer wrote */
    gyre_watch_unshare(me->watch, 1);
    gyre_watch_unshare(me->watch, 2);
    rig_await_go(me, GO_END);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&open);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&sealed);
}

static void take(struct rig_rank *me)
{
    rig_await_go(me, GO_LOOK);
    uint8_t *open = gyre_watch_view(me->watch, 0, 1, GYRE_MEMORY_HOST, LENGTH);
    uint8_t *sealed = gyre_watch_view(me->watch, 0, 2, GYRE_MEMORY_HOST, LENGTH);
    bool longer = gyre_watch_view(me->watch, 0, 1, GYRE_MEMORY_HOST, LENGTH + 1) != NULL;
    bool other = gyre_watch_view(me->watch, 0, 3, GYRE_MEMORY_HOST, 1) ||
                 gyre_watch_view(me->watch, 1, 1, GYRE_MEMORY_HOST, 1);
    bool right = open && sealed && open[LENGTH - 1] == 7 && sealed[LENGTH - 1] == 9;

    if (right)
        open[1] = 42;
    put_value(me, right && !longer && !other);
    rig_tell(me, SEEN);
    while (gyre_watch_view(me->watch, 0, 1, GYRE_MEMORY_HOST, 1) ||
           gyre_watch_view(me->watch, 0, 2, GYRE_MEMORY_HOST, 1))
        rig_pause();
    rig_tell(me, GONE);
    rig_await_go(me, GO_END);
}

static void play_give_and_take(struct rig_rank *me)
{
    if (me->rank == 0)
        give(me);
    else
        take(me);
}

static void test_region_is_seen_and_withdrawn(void **state)
{
    struct rig rig = node_of(3, play_give_and_take);
    rig_start(&rig);
    rig_await_phase(&rig, 0, SHARED);
    assert_string_equal(rig.board->seat[0].text, "");
    assert_int_equal(rig.board->seat[0].value, 0);
    atomic_store(&rig.board->go, GO_LOOK);
    for (uint32_t rank = 1; rank < 3; rank++) {
        rig_await_phase(&rig, rank, SEEN);
        assert_int_equal(rig.board->seat[rank].value, 1);
    }
    atomic_store(&rig.board->go, GO_WITHDRAW);
    for (uint32_t rank = 1; rank < 3; rank++)
        rig_await_phase(&rig, rank, GONE);
    assert_int_equal(rig.board->seat[0].value, 42);
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    rig_finish(&rig);
}

/* -- refused ----------------------------------------------------------------------------------- */

/* Claims more than the descriptor holds: no peer can map that, and none may keep it. */
static void play_lie(struct rig_rank *me)
{
    struct gyre_region region = region_of(LENGTH, GYRE_SHARE_OPEN), lie = region;
    struct gyre_trouble trouble = {0};

    if (me->rank == 1) {
        lie.length = 2 * LENGTH;
        put_value(me, gyre_watch_share(me->watch, 1, &lie, GYRE_SHARE_OPEN, &trouble));
        put_text(me, &trouble);
        if (gyre_watch_share(me->watch, 1, &region, GYRE_SHARE_OPEN, NULL) != 0)
            put_value(me, 1); /* the id is free again, and the truth is accepted */
        rig_tell(me, SHARED);
    }
    rig_await_go(me, GO_END);
    if (me->rank != 1)
        put_value(me, gyre_watch_view(me->watch, 1, 1, GYRE_MEMORY_HOST, 1) != NULL);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&region);
}

static void test_region_that_cannot_be_mapped_is_refused(void **state)
{
    struct rig rig = node_of(3, play_lie);
    rig_start(&rig);
    rig_await_phase(&rig, 1, SHARED);
    assert_int_equal(rig.board->seat[1].value, GYRE_UNSUPPORTED);
    assert_non_null(strstr(rig.board->seat[1].text, "cannot map region 1 of 131072 bytes"));
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    assert_int_equal(rig.board->seat[0].value, 1);
    assert_int_equal(rig.board->seat[2].value, 1);
    rig_finish(&rig);
}

static void take_all_descriptors(void)
{
    int lowest = dup(0);
    close(lowest);
    if (lowest < 0 || setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)lowest, (rlim_t)lowest}))
        _exit(98);
}

/* Rank 2 has no free descriptor, so it refuses both regions. Rank 1 maps the queues, hears what
 * rank 0 says about the refusal, and then answers the offer of the doorbell. */
static void play_join_with_a_rank_that_refuses(struct rig_rank *me)
{
    struct gyre_region region = region_of(LENGTH, GYRE_SHARE_SEALED);

    if (me->rank == 2)
        take_all_descriptors();
    rig_tell(me, SHARES);
    rig_await_go(me, GO_LOOK);
    if (me->rank == 0) {
        static const uint32_t ids[] = {GYRE_REGION_QUEUES, GYRE_REGION_BELL};
        for (int i = 0; i < 2; i++)
            me->board->seat[0].value +=
                gyre_watch_share(me->watch, ids[i], &region, GYRE_SHARE_SEALED, NULL) ==
                GYRE_UNSUPPORTED;
        rig_tell(me, SHARED);
    }
    rig_await_go(me, GO_END);
    if (me->rank == 1)
        put_value(me, gyre_watch_view(me->watch, 0, GYRE_REGION_QUEUES, GYRE_MEMORY_HOST, LENGTH) !=
                          NULL);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&region);
}

static void test_queues_stay_mapped_where_another_rank_refuses_them(void **state)
{
    struct rig rig = node_of(3, play_join_with_a_rank_that_refuses);
    rig_start(&rig);
    for (uint32_t rank = 0; rank < 3; rank++)
        rig_await_phase(&rig, rank, SHARES);
    atomic_store(&rig.board->go, GO_LOOK);
    rig_await_phase(&rig, 0, SHARED);
    assert_int_equal(rig.board->seat[0].value, 2);
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    assert_int_equal(rig.board->seat[1].value, 1);
    rig_finish(&rig);
}

static void play_wrong_arguments(struct rig_rank *me)
{
    struct gyre_region region = region_of(LENGTH, GYRE_SHARE_OPEN), closed = region;
    int wrong = 0;

    closed.fd = -1;
    wrong += gyre_watch_share(me->watch, 1, &closed, GYRE_SHARE_OPEN, NULL) != GYRE_UNSUPPORTED;
    wrong += gyre_watch_share(me->watch, 1, &region, GYRE_SHARE_OPEN, NULL) != 0;
    wrong += gyre_watch_share(me->watch, 1, &region, GYRE_SHARE_OPEN, NULL) != GYRE_INVALID;
    gyre_watch_unshare(me->watch, 77);
    put_value(me, wrong);
    rig_tell(me, SHARED);
    rig_await_go(me, GO_END);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&region);
}

static void test_wrong_arguments_are_told_apart(void **state)
{
    for (uint32_t n = 1; n <= 2; n++) {
        struct rig rig = node_of(n, play_wrong_arguments);
        rig_start(&rig);
        for (uint32_t rank = 0; rank < n; rank++) {
            rig_await_phase(&rig, rank, SHARED);
            assert_int_equal(rig.board->seat[rank].value, 0);
        }
        atomic_store(&rig.board->go, GO_END);
        for (uint32_t rank = 0; rank < n; rank++)
            assert_int_equal(rig_exit_code(&rig, rank), 0);
        rig_finish(&rig);
    }
}

/* -- the taker is gone ------------------------------------------------------------------------- */

static void play_share_when_told(struct rig_rank *me)
{
    struct gyre_region region = region_of(LENGTH, GYRE_SHARE_OPEN);
    struct gyre_trouble trouble = {0};

    rig_await_go(me, GO_LOOK);
    rig_tell(me, SHARES);
    put_value(me, gyre_watch_share(me->watch, 1, &region, GYRE_SHARE_OPEN, &trouble));
    put_text(me, &trouble);
    rig_tell(me, SHARED);
    rig_await_go(me, GO_END);
}

static void test_share_with_a_stopped_rank_fails_with_the_job(void **state)
{
    struct rig rig = node_of(3, play_share_when_told);
    rig_start(&rig);
    rig_kill(&rig, 2, SIGSTOP);
    atomic_store(&rig.board->go, GO_LOOK);
    for (uint32_t rank = 0; rank < 2; rank++) {
        rig_await_phase(&rig, rank, SHARED);
        assert_int_equal(rig.board->seat[rank].value, GYRE_PEER_LOST);
        assert_non_null(strstr(rig.board->seat[rank].text, "rank 2 (host0"));
    }
    rig_finish(&rig);
}

/* Rank 0 looks when rank 1 has said all that it had to say. */
static void play_look_after_the_failure(struct rig_rank *me)
{
    play_share_when_told(me);
    if (me->rank != 0)
        return;
    while (!gyre_watch_peer_ended(me->watch, 1))
        rig_pause();
    const uint8_t *view = gyre_watch_view(me->watch, 1, 1, GYRE_MEMORY_HOST, LENGTH);
    put_value(me, view != NULL && view[LENGTH - 1] == 0);
    rig_tell(me, SEEN);
}

/* Rank 1's share fails with the job, but rank 0 has mapped the region, and may be reading it. */
static void test_what_a_peer_has_mapped_stays_where_the_job_has_failed(void **state)
{
    struct rig rig = node_of(3, play_look_after_the_failure);
    rig_start(&rig);
    rig_kill(&rig, 2, SIGSTOP);
    atomic_store(&rig.board->go, GO_LOOK);
    for (uint32_t rank = 0; rank < 2; rank++)
        rig_await_phase(&rig, rank, SHARED);
    atomic_store(&rig.board->go, GO_END);
    rig_await_phase(&rig, 0, SEEN);
    assert_int_equal(rig.board->seat[0].value, 1);
    rig_finish(&rig);
}

/* Stopped in the middle of it, for longer than an answer may take, and continued: as Ctrl-Z and a
 * suspended machine do. Rank 2 is the first, so it cannot have answered. */
static void test_share_outlives_a_stop_of_the_whole_job(void **state)
{
    struct rig rig = node_of(3, play_share_when_told);
    rig_start(&rig);
    rig_kill(&rig, 2, SIGSTOP);
    atomic_store(&rig.board->go, GO_LOOK);
    for (uint32_t rank = 0; rank < 2; rank++)
        rig_await_phase(&rig, rank, SHARES);
    for (uint32_t rank = 0; rank < 2; rank++)
        rig_kill(&rig, rank, SIGSTOP);
    uint64_t until = gyre_now_ns() + 6 * GYRE_SECOND;
    while (gyre_now_ns() < until)
        rig_pause();
    for (uint32_t rank = 0; rank < 3; rank++)
        rig_kill(&rig, rank, SIGCONT);
    for (uint32_t rank = 0; rank < 3; rank++) {
        rig_await_phase(&rig, rank, SHARED);
        assert_string_equal(rig.board->seat[rank].text, "");
        assert_int_equal(rig.board->seat[rank].value, 0);
    }
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    rig_finish(&rig);
}

/* Every other region is withdrawn at once; the peers must end with exactly the rest. */
static void play_many(struct rig_rank *me)
{
    struct gyre_region region = region_of(4096, GYRE_SHARE_OPEN);
    uint32_t turns = 3000;

    rig_await_go(me, GO_LOOK);
    for (uint32_t id = 10; me->rank == 0 && id < 10 + turns; id++) {
        if (gyre_watch_share(me->watch, id, &region, GYRE_SHARE_OPEN, NULL) != 0)
            put_value(me, id);
        if (id % 2 == 0)
            gyre_watch_unshare(me->watch, id);
    }
    if (me->rank == 0)
        rig_tell(me, SHARED);
    rig_await_go(me, GO_WITHDRAW);
    int64_t wrong = 0;
    for (uint32_t id = 10; me->rank != 0 && id < 10 + turns; id++)
        wrong +=
            (gyre_watch_view(me->watch, 0, id, GYRE_MEMORY_HOST, 4096) != NULL) != (id % 2 == 1);
    if (me->rank != 0)
        put_value(me, wrong);
    rig_tell(me, SEEN);
    rig_await_go(me, GO_END);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&region);
}

static void test_thousands_of_regions_come_and_go(void **state)
{
    struct rig rig = node_of(3, play_many);
    rig_start(&rig);
    atomic_store(&rig.board->go, GO_LOOK);
    rig_await_phase(&rig, 0, SHARED);
    atomic_store(&rig.board->go, GO_WITHDRAW);
    for (uint32_t rank = 0; rank < 3; rank++) {
        rig_await_phase(&rig, rank, SEEN);
        assert_int_equal(rig.board->seat[rank].value, 0);
    }
    atomic_store(&rig.board->go, GO_END);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(rig_exit_code(&rig, rank), 0);
    rig_finish(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_region_is_seen_and_withdrawn),
        cmocka_unit_test(test_region_that_cannot_be_mapped_is_refused),
        cmocka_unit_test(test_queues_stay_mapped_where_another_rank_refuses_them),
        cmocka_unit_test(test_wrong_arguments_are_told_apart),
        cmocka_unit_test(test_share_with_a_stopped_rank_fails_with_the_job),
        cmocka_unit_test(test_what_a_peer_has_mapped_stays_where_the_job_has_failed),
        cmocka_unit_test(test_share_outlives_a_stop_of_the_whole_job),
        cmocka_unit_test(test_thousands_of_regions_come_and_go),
    };

    return run_beside(tests, sizeof tests / sizeof *tests, NULL);
}
