/* The watch's mind against itself: 2 to 4,096 vigils in virtual time, seeded faults.
 *
 * What must hold: every survivor ends with the same failure, it names a rank that really failed,
 * and it comes within the dead time and a bound; nobody is accused for being slow, late or
 * suspended. A failing case prints its seed. In haste an eighth of the seeds, under sanitizers a
 * sixteenth, and instead of 1024 ranks 128, of which one stops, and 512, of which one dies. */
#include "unit/transport/watch/detect/detector_story.h"

#include <string.h>

/* -- death ------------------------------------------------------------------------------------- */

static void test_one_fault_of_any_kind_is_agreed_on(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct gyre_rng dice;
        gyre_rng_seed(&dice, seed * 7919);
        uint32_t any = 2 + (uint32_t)gyre_rng_below(&dice, 40),
                 n = seed <= 3 ? 1 + (uint32_t)seed : any;
        struct sim sim = sim_of(n, 1 + (uint32_t)gyre_rng_below(&dice, 9), seed);
        sim.lateness_max = gyre_rng_below(&dice, 40) * GYRE_MS;
        sim_open(&sim);
        sim_run(&sim, gyre_rng_below(&dice, 2 * GYRE_SECOND) + 50 * GYRE_MS);
        uint32_t culprit = (uint32_t)gyre_rng_below(&dice, n);
        uint64_t at = sim.now;
        switch (gyre_rng_below(&dice, 3)) {
        case 0:
            sim_kill(&sim, culprit);
            break;
        case 1:
            sim_kill_open(&sim, culprit);
            break;
        default:
            sim_pause(&sim, culprit, SIM_FOREVER);
            break;
        }
        sim_run(&sim, 4 * GYRE_SECOND);
        assert_agreed(&sim, culprit, at + DEAD + BOUND);
        sim_close(&sim);
    }
}

static void test_killed_rank_of_a_node_is_known_long_before_the_dead_time(void **state)
{
    for (uint32_t culprit = 0; culprit < 12; culprit++) {
        struct sim sim = sim_of(12, 4, culprit + 1);
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        sim_kill(&sim, culprit);
        uint64_t limit = sim.now + (culprit == 0 ? GRACE : 0) + 20 * GYRE_MS;
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, culprit, limit);
        sim_close(&sim);
    }
}

/* Two ranks die within the time that news needs. Unless rank 0 is among them, all must still choose
 * one of the two. */
static void test_two_deaths_make_one_story(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(100); seed++) {
        struct gyre_rng dice;
        gyre_rng_seed(&dice, seed);
        struct sim sim = sim_of(16, 4, seed);
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        uint32_t first = 1 + (uint32_t)gyre_rng_below(&dice, 15);
        uint32_t second = 1 + (uint32_t)gyre_rng_below(&dice, 15);
        sim_kill(&sim, first);
        sim_run(&sim, gyre_rng_below(&dice, 2 * GYRE_MS));
        if (second != first)
            sim_kill(&sim, second);
        sim_run(&sim, 2 * GYRE_SECOND);
        const struct gyre_detector_record *record = sim_failure(&sim, 0);
        assert_non_null(record);
        assert_true(record->rank == first || record->rank == second);
        assert_agreed(&sim, record->rank, sim.now);
        sim_close(&sim);
    }
}

static void test_partition_is_seen_on_both_sides(void **state)
{
    struct sim sim = sim_of(24, 8, 5);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    uint64_t limit = sim.now + DEAD + BOUND;
    sim_cut_node(&sim, 1);
    sim_run(&sim, 3 * GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++) {
        const struct gyre_detector_record *record = sim_failure(&sim, rank);
        assert_non_null(record);
        assert_int_equal(record->rank, sim.member[rank].node == 1 ? 0 : 8);
        assert_true(sim.rank[rank].failed_at <= limit);
    }
    sim_close(&sim);
}

static void run_large(uint32_t n, uint32_t ranks_per_node, bool kill)
{
    struct sim sim = sim_of(n, ranks_per_node, n);
    uint32_t culprit = n - ranks_per_node; /* the leader of the last node */

    sim.dead_ns = 4 * GYRE_SECOND;
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    uint64_t at = sim.now;
    if (kill)
        sim_kill(&sim, culprit);
    else
        sim_pause(&sim, culprit, SIM_FOREVER);
    sim_run(&sim, kill ? GYRE_SECOND : 6 * GYRE_SECOND);
    assert_agreed(&sim, culprit, at + (kill ? BOUND : sim.dead_ns + BOUND));
    sim_close(&sim);
}

static void test_thousands_of_ranks_agree(void **state)
{
    run_large(in_haste() ? 128 : 1024, 8, false);
    run_large(in_haste() ? 512 : 1024, 1, true);
    run_large(4096, 64, true);
}

static void test_revived_rank_learns_that_it_was_evicted(void **state)
{
    for (uint32_t culprit = 0; culprit < 6; culprit++) {
        struct sim sim = sim_of(6, 3, culprit + 1);
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        uint64_t limit = sim.now + DEAD + BOUND;
        sim_pause(&sim, culprit, 10 * GYRE_SECOND);
        sim_run(&sim, 9 * GYRE_SECOND);
        assert_null(sim_failure(&sim, culprit));
        sim_run(&sim, 2 * GYRE_SECOND);
        assert_non_null(sim_failure(&sim, culprit));
        assert_int_equal(sim_failure(&sim, culprit)->rank, culprit);
        sim.rank[culprit].dead = true; /* it learned late, of course */
        assert_agreed(&sim, culprit, limit);
        sim_close(&sim);
    }
}

/* -- no false alarm ---------------------------------------------------------------------------- */

static void test_late_ticks_are_no_deaths(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        struct sim sim = sim_of(2 + seed % 20, 1 + seed % 7, seed);
        sim.lateness_max = DEAD / 2;
        sim_open(&sim);
        sim_run(&sim, 20 * GYRE_SECOND);
        assert_calm(&sim);
        sim_close(&sim);
    }
}

static void test_pause_shorter_than_the_dead_time_is_no_death(void **state)
{
    struct sim sim = sim_of(9, 3, 3);
    sim_open(&sim);
    for (uint32_t turn = 0; turn < 40; turn++) {
        sim_pause(&sim, turn % sim.n, DEAD * 8 / 10);
        sim_run(&sim, GYRE_SECOND);
    }
    assert_calm(&sim);
    sim_close(&sim);
}

static void test_suspended_machine_is_no_death(void **state)
{
    struct sim sim = sim_of(8, 4, 11);
    sim_open(&sim);
    for (int turn = 0; turn < 10; turn++) {
        sim_run(&sim, 3 * GYRE_SECOND);
        for (uint32_t rank = 0; rank < sim.n; rank++) /* they wake one after the other */
            sim_pause(&sim, rank, HOUR + gyre_rng_below(&sim.rng, DEAD / 2));
        sim_run(&sim, HOUR + GYRE_SECOND);
    }
    assert_calm(&sim);
    sim_close(&sim);
}

static void test_dead_time_zero_forgives_silence_but_not_death(void **state)
{
    struct sim sim = sim_of(4, 2, 13);
    sim.dead_ns = 0;
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_pause(&sim, 3, 600 * GYRE_SECOND);
    sim_run(&sim, 700 * GYRE_SECOND);
    assert_calm(&sim);
    sim_kill(&sim, 3);
    uint64_t limit = sim.now + GYRE_SECOND;
    sim_run(&sim, 2 * GYRE_SECOND);
    assert_agreed(&sim, 3, limit);
    sim_close(&sim);
}

/* -- echoes and reports ------------------------------------------------------------------------ */

static void test_echo_waits_for_its_cause(void **state)
{
    struct sim sim = sim_of(6, 3, 17);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_report(&sim, 1, GYRE_PEER_LOST, 4, true, "rank 1 lost its connection to rank 4");
    sim_run(&sim, 150 * GYRE_MS);
    assert_calm(&sim);
    sim_report(&sim, 5, GYRE_ABORTED, 5, false, "rank 5 gave up");
    sim_run(&sim, GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        assert_string_equal(sim_failure(&sim, rank)->text, "rank 5 gave up");
    sim_close(&sim);
}

static void test_echo_without_a_cause_counts_after_200_ms(void **state)
{
    struct sim sim = sim_of(6, 3, 19);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    uint64_t at = sim.now;
    sim_report(&sim, 1, GYRE_PEER_LOST, 4, true, "rank 1 lost its connection to rank 4");
    sim_run(&sim, GYRE_SECOND);
    assert_true(sim.rank[1].failed_at >= at + GRACE);
    assert_agreed(&sim, 4, at + GRACE + 10 * GYRE_MS);
    sim_close(&sim);
}

/* A child may keep the socket of a rank of this node, and its last words may be unread. */
static void test_end_of_a_node_channel_yields_to_the_pidfd(void **state)
{
    struct sim sim = sim_of(6, 3, 23);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_eof(&sim, 1, 2);
    sim_run(&sim, 100 * GYRE_MS);
    assert_calm(&sim);
    uint64_t at = sim.now;
    sim_kill_open(&sim, 5);
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 5, at + 10 * GYRE_MS);
    sim_close(&sim);
}

/* All ranks of its node see the channels of a rank end. */
static void close_channels(struct sim *sim, uint32_t rank)
{
    for (uint32_t at = 0; at < sim->n; at++)
        if (at != rank)
            sim_eof(sim, at, rank);
}

/* The driver of its device has seconds to do while a process ends, between the end of its sockets
 * and its own. */
static void test_end_of_a_rank_with_a_device_may_be_slow(void **state)
{
    for (uint32_t culprit = 0; culprit < 4; culprit++) {
        struct sim sim = sim_of(4, 4, 29 + culprit);
        sim.devices = true;
        sim.dead_ns = 10 * GYRE_SECOND;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        close_channels(&sim, culprit);
        sim_run(&sim, 4 * GYRE_SECOND);
        assert_null(sim_failure(&sim, (culprit + 1) % 4));
        uint64_t at = sim.now;
        sim_kill_open(&sim, culprit);
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, culprit, at + (culprit == 0 ? GRACE : 0) + 20 * GYRE_MS);
        sim_close(&sim);
    }
}

/* Where it never ends, all are told within the dead time. */
static void test_end_of_a_rank_with_a_device_is_not_awaited_for_ever(void **state)
{
    for (uint32_t culprit = 0; culprit < 4; culprit++) {
        struct sim sim = sim_of(4, 4, 41 + culprit);
        sim.devices = true;
        sim.dead_ns = 10 * GYRE_SECOND;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        uint64_t at = sim.now;
        close_channels(&sim, culprit);
        sim_run(&sim, 10 * GYRE_SECOND);
        for (uint32_t rank = 0; rank < 4; rank++) {
            const struct gyre_detector_record *record = sim_failure(&sim, rank);
            if (rank == culprit)
                continue;
            assert_non_null(record);
            assert_int_equal(record->rank, culprit);
            assert_true(sim.rank[rank].failed_at >= at + 5 * GYRE_SECOND);
        }
        sim_close(&sim);
    }
}

/* A link of rank 0 breaks first. The end of the control channel tells who died, and nobody waits
 * for a better cause. */
static void test_end_of_a_control_channel_is_a_cause(void **state)
{
    struct sim sim = sim_of(6, 1, 24);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    uint64_t at = sim.now;
    sim_report(&sim, 0, GYRE_PEER_LOST, 4, true, "rank 4: its connection was lost");
    sim_kill(&sim, 4);
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 4, at + 20 * GYRE_MS);
    assert_non_null(strstr(sim_failure(&sim, 5)->text, "ended without a goodbye"));
    sim_close(&sim);
}

/* Ranks of two nodes learn the end of rank 0 by different ways, and have nobody to choose. */
static void test_the_end_of_rank_0_has_one_story(void **state)
{
    struct sim sim = sim_of(6, 3, 25);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    uint64_t at = sim.now;
    sim_kill(&sim, 0);
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 0, at + 20 * GYRE_MS);
    for (uint32_t rank = 2; rank < sim.n; rank++)
        assert_string_equal(sim_failure(&sim, rank)->text, sim_failure(&sim, 1)->text);
    sim_close(&sim);
}

/* Ranks 1 and 2 have proposed that rank 3 died when rank 0 dies: nobody is left to wait for. */
static void test_a_proposal_does_not_wait_for_a_dead_rank_0(void **state)
{
    struct sim sim = sim_of(4, 4, 26);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    uint64_t at = sim.now;
    sim_pause(&sim, 0, SIM_FOREVER);
    sim_kill(&sim, 3);
    sim_run(&sim, 20 * GYRE_MS);
    sim_kill(&sim, 0);
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 3, at + 50 * GYRE_MS);
    sim_close(&sim);
}

/* Two ranks see the echo of one break, each in words of its own. Rank 0 comes late, and its words
 * are everybody's all the same. */
static void test_echoes_wait_for_rank_0s_story(void **state)
{
    struct sim sim = sim_of(6, 3, 27);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_pause(&sim, 0, 150 * GYRE_MS);
    sim_report(&sim, 1, GYRE_PEER_LOST, 4, true, "rank 4: lost, says rank 1");
    sim_report(&sim, 4, GYRE_PEER_LOST, 1, true, "rank 1: lost, says rank 4");
    sim_run(&sim, 2 * GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        assert_string_equal(sim_failure(&sim, rank)->text, sim_failure(&sim, 0)->text);
    sim_close(&sim);
}

static void test_own_report_is_decided_at_once(void **state)
{
    struct sim sim = sim_of(8, 4, 29);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_report(&sim, 6, GYRE_ABORTED, 6, false, "stop");
    assert_non_null(sim_failure(&sim, 6));
    uint64_t at = sim.now;
    sim_report(&sim, 6, GYRE_ABORTED, 6, false, "stop again");
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 6, at + 10 * GYRE_MS);
    assert_string_equal(sim_failure(&sim, 0)->text, "stop");
    sim_close(&sim);
}

static void test_report_spreads_although_rank_0_is_stopped(void **state)
{
    struct sim sim = sim_of(8, 4, 31);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_pause(&sim, 0, SIM_FOREVER);
    sim_report(&sim, 2, GYRE_ABORTED, 2, false, "stop");
    sim_run(&sim, 2 * GYRE_SECOND);
    for (uint32_t rank = 1; rank < sim.n; rank++) {
        assert_non_null(sim_failure(&sim, rank));
        assert_int_equal(sim_failure(&sim, rank)->rank, rank < 4 ? 2 : 0);
    }
    sim_close(&sim);
}

/* Neither reporter can wait; everybody else must still agree. */
static void test_two_reports_at_once_make_one_story_for_the_rest(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        struct sim sim = sim_of(12, 4, seed);
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        sim_report(&sim, 5, GYRE_ABORTED, 5, false, "five");
        sim_report(&sim, 9, GYRE_ABORTED, 9, false, "nine");
        sim_run(&sim, GYRE_SECOND);
        for (uint32_t rank = 1; rank < sim.n; rank++)
            if (rank != 5 && rank != 9)
                assert_string_equal(sim_failure(&sim, rank)->text, sim_failure(&sim, 0)->text);
        sim_close(&sim);
    }
}

static void test_lost_launcher_is_told_everywhere(void **state)
{
    struct sim sim = sim_of(6, 3, 37);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    gyre_detector_launcher_gone(sim.rank[4].detector, sim.now);
    sim_run(&sim, GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++) {
        assert_int_equal(sim_failure(&sim, rank)->status, GYRE_LAUNCHER_GONE);
        assert_non_null(strstr(sim_failure(&sim, rank)->text, "rank 4 (host1, pid 1004)"));
    }
    sim_close(&sim);
}

/* -- one detector, messages by hand ------------------------------------------------------------ */

static struct gyre_failure_detector *detector_of_rank_1(uint16_t epoch)
{
    static const struct gyre_member member[3] = {{.node = 0}, {.node = 0}, {.node = 0}};
    struct gyre_detector_options options = {
        .rank = 1, .n = 3, .epoch = epoch, .member = member, .dead_ns = GYRE_SECOND};
    struct gyre_failure_detector *detector;
    assert_int_equal(gyre_detector_create(&options, GYRE_SECOND, &detector), 0);
    return detector;
}

static void receive(struct gyre_failure_detector *detector, uint32_t peer, uint16_t epoch,
                    enum gyre_watch_kind kind)
{
    struct gyre_watch_message message = {.kind = kind, .epoch = epoch, .rank = peer};
    gyre_detector_receive(detector, GYRE_SECOND, (uint32_t)gyre_detector_channel(detector, peer),
                          &message);
}

static void test_only_rank_0_ends_the_wait_for_all(void **state)
{
    struct gyre_failure_detector *detector = detector_of_rank_1(3);
    (void)state;
    receive(detector, 2, 3, GYRE_WATCH_ALL_BYE);
    assert_false(gyre_detector_all_left(detector));
    receive(detector, 0, 3, GYRE_WATCH_ALL_BYE);
    assert_true(gyre_detector_all_left(detector));
    gyre_detector_destroy(detector);
}

static void test_another_epoch_is_not_heard(void **state)
{
    struct gyre_failure_detector *detector = detector_of_rank_1(3);
    (void)state;
    receive(detector, 0, 2, GYRE_WATCH_ALL_BYE);
    assert_false(gyre_detector_all_left(detector));
    gyre_detector_destroy(detector);
}

/* Ticks for so long without a word of anybody. */
static bool fails_within(struct gyre_failure_detector *detector, uint64_t time)
{
    struct gyre_watch_state mine = {.rank = 1};
    for (uint64_t now = GYRE_SECOND; now <= GYRE_SECOND + time; now += 10 * GYRE_MS)
        gyre_detector_tick(detector, now, &mine);
    return gyre_detector_failure(detector) != NULL;
}

/* Until its first word a peer has five seconds more than the dead time of one. */
static void test_a_peer_that_starts_has_time(void **state)
{
    (void)state;
    for (int heard = 0; heard < 2; heard++) {
        struct gyre_failure_detector *detector = detector_of_rank_1(3);
        if (heard)
            receive(detector, 0, 3, GYRE_WATCH_BEAT);
        assert_int_equal(fails_within(detector, 5 * GYRE_SECOND), heard);
        gyre_detector_destroy(detector);
        detector = detector_of_rank_1(3);
        assert_true(fails_within(detector, 7 * GYRE_SECOND));
        gyre_detector_destroy(detector);
    }
}

/* The rank that found it says so on the same channel, whose other direction may be whole. The end
 * of the channel, which follows, tells nothing new. */
static void test_an_altered_channel_is_a_cause(void **state)
{
    struct gyre_failure_detector *detector = detector_of_rank_1(3);
    uint32_t channel = (uint32_t)gyre_detector_channel(detector, 0);
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    struct gyre_watch_message message;
    (void)state;
    gyre_detector_corrupt(detector, GYRE_SECOND, channel);
    const struct gyre_detector_record *failure = gyre_detector_failure(detector);
    assert_non_null(failure); /* rank 0 cannot be waited for */
    assert_int_equal(failure->status, GYRE_CORRUPT);
    assert_non_null(strstr(failure->text, "to rank 1 that are not what it sent"));
    size_t length = gyre_detector_next_message(detector, channel, bytes);
    assert_int_equal(gyre_watch_decode(bytes, length, &message), 0);
    assert_int_equal(message.kind, GYRE_WATCH_FAILURE);
    assert_int_equal(message.status, GYRE_CORRUPT);
    gyre_detector_eof(detector, GYRE_SECOND, channel, NULL);
    assert_int_equal(gyre_detector_failure(detector)->status, GYRE_CORRUPT);
    gyre_detector_destroy(detector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_fault_of_any_kind_is_agreed_on),
        cmocka_unit_test(test_killed_rank_of_a_node_is_known_long_before_the_dead_time),
        cmocka_unit_test(test_two_deaths_make_one_story),
        cmocka_unit_test(test_partition_is_seen_on_both_sides),
        cmocka_unit_test(test_thousands_of_ranks_agree),
        cmocka_unit_test(test_revived_rank_learns_that_it_was_evicted),
        cmocka_unit_test(test_late_ticks_are_no_deaths),
        cmocka_unit_test(test_pause_shorter_than_the_dead_time_is_no_death),
        cmocka_unit_test(test_suspended_machine_is_no_death),
        cmocka_unit_test(test_dead_time_zero_forgives_silence_but_not_death),
        cmocka_unit_test(test_echo_waits_for_its_cause),
        cmocka_unit_test(test_echo_without_a_cause_counts_after_200_ms),
        cmocka_unit_test(test_end_of_a_node_channel_yields_to_the_pidfd),
        cmocka_unit_test(test_end_of_a_rank_with_a_device_may_be_slow),
        cmocka_unit_test(test_end_of_a_rank_with_a_device_is_not_awaited_for_ever),
        cmocka_unit_test(test_end_of_a_control_channel_is_a_cause),
        cmocka_unit_test(test_the_end_of_rank_0_has_one_story),
        cmocka_unit_test(test_a_proposal_does_not_wait_for_a_dead_rank_0),
        cmocka_unit_test(test_echoes_wait_for_rank_0s_story),
        cmocka_unit_test(test_own_report_is_decided_at_once),
        cmocka_unit_test(test_report_spreads_although_rank_0_is_stopped),
        cmocka_unit_test(test_two_reports_at_once_make_one_story_for_the_rest),
        cmocka_unit_test(test_lost_launcher_is_told_everywhere),
        cmocka_unit_test(test_only_rank_0_ends_the_wait_for_all),
        cmocka_unit_test(test_another_epoch_is_not_heard),
        cmocka_unit_test(test_a_peer_that_starts_has_time),
        cmocka_unit_test(test_an_altered_channel_is_a_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
