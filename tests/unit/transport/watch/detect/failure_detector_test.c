/* The watch's mind against itself: 2 to 4,096 vigils in virtual time, seeded faults.
 *
 * What must hold: every survivor ends with the same failure, it names a rank that really failed,
 * and it comes within the dead time and a bound; nobody is accused for being slow, late or
 * suspended. A failing case prints its seed. In haste a quarter of the seeds, and of the thousands
 * that stop a rank 256. */
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
    run_large(in_haste() ? 256 : 1024, 8, false);
    run_large(1024, 1, true);
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

/* Rank 0 sees a connection end whose process a forked child hides; the node that can see the pidfd
 * knows better. */
static void test_end_of_channel_yields_to_the_pidfd(void **state)
{
    struct sim sim = sim_of(6, 3, 23);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_eof(&sim, 0, 4);
    sim_run(&sim, 100 * GYRE_MS);
    assert_calm(&sim);
    uint64_t at = sim.now;
    sim_kill_open(&sim, 5);
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 5, at + 10 * GYRE_MS);
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
        cmocka_unit_test(test_end_of_channel_yields_to_the_pidfd),
        cmocka_unit_test(test_own_report_is_decided_at_once),
        cmocka_unit_test(test_report_spreads_although_rank_0_is_stopped),
        cmocka_unit_test(test_two_reports_at_once_make_one_story_for_the_rest),
        cmocka_unit_test(test_lost_launcher_is_told_everywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
