/* The watch's mind against itself: 2 to 4,096 vigils in virtual time, seeded faults.
 *
 * What must hold: every survivor ends with the same failure, it names a rank that really failed,
 * and it comes within the dead time and a bound; nobody is accused for being slow, late or
 * suspended. A failing case prints its seed. In haste a quarter of the seeds, and of the thousands
 * that stop a rank 256. */
#include "haste.h"
#include "vigil_sim.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEAD  (400 * GYRE_MS)
#define GRACE (200 * GYRE_MS)
#define BOUND (GRACE + 150 * GYRE_MS) /* after the dead time: verdict, late tick, beat, delays */
#define HOUR  (3600 * GYRE_SECOND)

static uint64_t seeds(uint64_t all)
{
    return in_haste() ? (all + 3) / 4 : all;
}

static bool survives(const struct sim *sim, uint32_t rank)
{
    return !sim->rank[rank].dead && sim->rank[rank].paused_until != SIM_FOREVER;
}

/* All survivors tell one story that blames `culprit`, and knew it by `limit`. */
static void assert_agreed(struct sim *sim, uint32_t culprit, uint64_t limit)
{
    const struct gyre_vigil_record *story = NULL;

    for (uint32_t rank = 0; rank < sim->n; rank++) {
        const struct gyre_vigil_record *record = sim_failure(sim, rank);
        if (!survives(sim, rank))
            continue;
        if (record == NULL || record->rank != culprit || sim->rank[rank].failed_at > limit)
            fail_msg(
                "seed %lu, n %u: rank %u says \"%s\" at %.3f s, but rank %u failed, limit %.3f s",
                sim->seed, sim->n, rank, record != NULL ? record->text : "nothing",
                (double)sim->rank[rank].failed_at / 1e9, culprit, (double)limit / 1e9);
        if (story != NULL && culprit != 0)
            assert_string_equal(record->text, story->text);
        story = record;
    }
    assert_non_null(story);
}

static void assert_calm(struct sim *sim)
{
    for (uint32_t rank = 0; rank < sim->n; rank++)
        if (survives(sim, rank) && sim_failure(sim, rank) != NULL)
            fail_msg("seed %lu, n %u: rank %u falsely says \"%s\"", sim->seed, sim->n, rank,
                     sim_failure(sim, rank)->text);
}

static struct sim sim_of(uint32_t n, uint32_t ranks_per_node, uint64_t seed)
{
    return (struct sim){.n = n,
                        .ranks_per_node = ranks_per_node,
                        .seed = seed,
                        .dead_ns = DEAD,
                        .timeout_ns = HOUR};
}

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
        const struct gyre_vigil_record *record = sim_failure(&sim, 0);
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
        const struct gyre_vigil_record *record = sim_failure(&sim, rank);
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
    gyre_vigil_launcher_gone(sim.rank[4].vigil, sim.now);
    sim_run(&sim, GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++) {
        assert_int_equal(sim_failure(&sim, rank)->status, GYRE_LAUNCHER_GONE);
        assert_non_null(strstr(sim_failure(&sim, rank)->text, "rank 4 (host1, pid 1004)"));
    }
    sim_close(&sim);
}

/* -- goodbye ----------------------------------------------------------------------------------- */

static void test_all_leave_in_any_order(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        struct sim sim = sim_of(1 + seed % 13, 1 + seed % 4, seed);
        sim_open(&sim);
        for (uint32_t i = 0; i < sim.n; i++) {
            for (uint32_t rank = 0; rank < sim.n; rank++)
                assert_false(gyre_vigil_all_left(sim.rank[rank].vigil));
            sim_leave(&sim, (i * 5 + (uint32_t)seed) % sim.n);
            sim_run(&sim, gyre_rng_below(&sim.rng, 50 * GYRE_MS));
        }
        if (sim.n % 5 != 0) { /* otherwise the order above left some out */
            sim_run(&sim, 100 * GYRE_MS);
            for (uint32_t rank = 0; rank < sim.n; rank++)
                assert_true(gyre_vigil_all_left(sim.rank[rank].vigil));
        }
        assert_calm(&sim);
        sim_close(&sim);
    }
}

static struct gyre_watch_state at_operation(const struct sim *sim, uint32_t rank, uint64_t sequence,
                                            uint64_t finished)
{
    struct gyre_watch_state state = sim->rank[rank].state;
    state.sequence = sequence;
    state.finished = finished;
    state.fingerprint = sequence;
    return state;
}

/* One leaves after operation 2; the others enter the third before or after that. */
static void test_who_leaves_early_is_told_by_all(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        struct sim sim = sim_of(2 + seed % 17, 1 + seed % 5, seed);
        sim_open(&sim);
        uint32_t leaver = (uint32_t)gyre_rng_below(&sim.rng, sim.n);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            sim.rank[rank].state = at_operation(&sim, rank, 2, 2);
        sim_run(&sim, GYRE_SECOND);
        bool before = seed % 2;
        if (!before)
            sim_leave(&sim, leaver);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            if (rank != leaver)
                sim.rank[rank].state = at_operation(&sim, rank, 3, 2);
        sim_run(&sim, gyre_rng_below(&sim.rng, 300 * GYRE_MS));
        if (before)
            sim_leave(&sim, leaver);
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, leaver, sim.now);
        assert_non_null(strstr(sim_failure(&sim, leaver)->text,
                               "has left by gyre_finalize() after operation 2"));
        sim_close(&sim);
    }
}

/* All have finished as many operations, but not the same ones. */
static void test_different_ends_are_told_at_the_goodbye(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(20); seed++) {
        struct sim sim = sim_of(2 + seed % 9, 1 + seed % 4, seed);
        sim_open(&sim);
        uint32_t odd = (uint32_t)gyre_rng_below(&sim.rng, sim.n);
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            sim.rank[rank].state = at_operation(&sim, rank, 2, 2);
            sim.rank[rank].state.fingerprint += rank == odd;
        }
        sim_run(&sim, GYRE_SECOND);
        assert_calm(&sim);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            sim_leave(&sim, rank);
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, GYRE_NOBODY, sim.now);
        sim_close(&sim);
    }
}

/* One has called less than the others, or more, and says goodbye at any time: nobody ends well. */
static void test_different_numbers_are_told_to_all_at_the_goodbye(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct sim sim = sim_of(2 + seed % 9, 1 + seed % 4, seed);
        sim_open(&sim);
        uint32_t odd = (uint32_t)gyre_rng_below(&sim.rng, sim.n),
                 turn = (uint32_t)gyre_rng_below(&sim.rng, sim.n);
        uint64_t number = seed % 2 ? 1 : 3;
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            uint64_t own = rank == odd ? number : 2;
            sim.rank[rank].state = at_operation(&sim, rank, own, own);
        }
        sim_run(&sim, GYRE_SECOND);
        for (uint32_t i = 0; i < sim.n; i++) {
            uint32_t rank = (turn + i) % sim.n;
            sim_leave(&sim, rank);
            if (gyre_vigil_all_left(sim.rank[rank].vigil)) /* it waits for nobody, and ends */
                assert_non_null(sim_failure(&sim, rank));
            sim_run(&sim, gyre_rng_below(&sim.rng, 2 * GYRE_MS));
        }
        sim_run(&sim, DEAD);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            if (!sim_failure(&sim, rank) || sim_failure(&sim, rank)->status != GYRE_MISMATCH)
                fail_msg("seed %lu, n %u: rank %u ends well, but rank %u has called %lu", sim.seed,
                         sim.n, rank, odd, number);
        sim_close(&sim);
    }
}

/* The others made the call and are at their end; one refused it and computes. */
static void test_who_refused_a_call_and_is_late_is_told_within_the_dead_time(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        struct sim sim = sim_of(2 + seed % 17, 1 + seed % 5, seed);
        sim_open(&sim);
        uint32_t late = (uint32_t)gyre_rng_below(&sim.rng, sim.n);
        sim_run(&sim, GYRE_SECOND);
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            sim.rank[rank].state = at_operation(&sim, rank, 2, 2);
            sim.rank[rank].state.parting = 1;
        }
        sim.rank[late].state = at_operation(&sim, late, 1, 1);
        sim.rank[late].state.refused = (struct gyre_watch_refused){
            .stands = 1, .comm = 0, .sequence = 2, .why = "gyre_gather: type 99 is unknown"};
        uint64_t limit = sim.now + DEAD;
        sim_run(&sim, 2 * DEAD);
        assert_agreed(&sim, late, limit);
        assert_non_null(strstr(sim_failure(&sim, late)->text, "gyre_gather: type 99 is unknown"));
        sim_close(&sim);
    }
}

/* Rank 0 has left and ends before it answers what rank 1 found at the goodbyes. */
static void test_what_is_found_at_the_end_stands_without_rank_0(void **state)
{
    struct sim sim = sim_of(3, 3, 47);
    struct gyre_vigil *vigil;
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    vigil = sim.rank[1].vigil;
    for (uint32_t rank = 0; rank < 2; rank++)
        sim.rank[rank].state = at_operation(&sim, rank, 2, 2);
    sim_leave(&sim, 0);
    sim_leave(&sim, 1);
    sim_run(&sim, 10 * GYRE_MS);
    sim_pause(&sim, 0, SIM_FOREVER);
    sim_leave(&sim, 2); /* it has called nothing */
    sim_run(&sim, 10 * GYRE_MS);
    assert_null(gyre_vigil_failure(vigil));
    gyre_vigil_ended(vigil, sim.now, (uint32_t)gyre_vigil_channel(vigil, 0));
    assert_true(gyre_vigil_all_left(vigil));
    assert_non_null(gyre_vigil_failure(vigil));
    assert_int_equal(gyre_vigil_failure(vigil)->status, GYRE_MISMATCH);
    sim_close(&sim);
}

/* Whatever rank a goodbye names, it is the channel's. */
static void test_goodbye_speaks_for_its_sender_only(void **state)
{
    struct sim sim = sim_of(3, 3, 53);
    struct gyre_watch_state last = {.rank = UINT32_MAX};
    uint8_t payload[GYRE_WATCH_STATE_BYTES];
    sim_open(&sim);
    sim.rank[1].state = at_operation(&sim, 1, 2, 1);
    sim_run(&sim, GYRE_SECOND);
    gyre_watch_state_encode(&last, payload);
    const struct gyre_watch_message bye = {
        .kind = GYRE_WATCH_BYE, .epoch = 7, .payload = payload, .payload_bytes = sizeof payload};
    gyre_vigil_receive(sim.rank[1].vigil, sim.now,
                       (uint32_t)gyre_vigil_channel(sim.rank[1].vigil, 2), &bye);
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 2, sim.now);
    sim_close(&sim);
}

static void test_end_after_goodbye_is_no_failure(void **state)
{
    struct sim sim = sim_of(6, 3, 41);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    for (uint32_t rank = 3; rank < 6; rank++) {
        sim_leave(&sim, rank);
        sim_run(&sim, 10 * GYRE_MS);
        sim_kill(&sim, rank);
    }
    sim_run(&sim, 10 * GYRE_SECOND);
    assert_calm(&sim);
    sim_leave(&sim, 0);
    sim_run(&sim, 10 * GYRE_MS);
    sim_kill(&sim, 0);
    sim_leave(&sim, 1);
    sim_leave(&sim, 2);
    sim_run(&sim, 10 * GYRE_SECOND);
    assert_calm(&sim);
    assert_true(gyre_vigil_all_left(sim.rank[1].vigil)); /* rank 0 is not there to say so */
    sim_close(&sim);
}

static void test_death_of_a_rank_that_has_not_left_is_a_failure_for_those_who_have(void **state)
{
    struct sim sim = sim_of(6, 3, 43);
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    for (uint32_t rank = 0; rank < 5; rank++)
        sim_leave(&sim, rank);
    sim_run(&sim, 10 * GYRE_MS);
    sim_kill(&sim, 5);
    uint64_t limit = sim.now + 20 * GYRE_MS;
    sim_run(&sim, GYRE_SECOND);
    assert_agreed(&sim, 5, limit);
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
        cmocka_unit_test(test_all_leave_in_any_order),
        cmocka_unit_test(test_who_leaves_early_is_told_by_all),
        cmocka_unit_test(test_different_ends_are_told_at_the_goodbye),
        cmocka_unit_test(test_different_numbers_are_told_to_all_at_the_goodbye),
        cmocka_unit_test(test_who_refused_a_call_and_is_late_is_told_within_the_dead_time),
        cmocka_unit_test(test_what_is_found_at_the_end_stands_without_rank_0),
        cmocka_unit_test(test_goodbye_speaks_for_its_sender_only),
        cmocka_unit_test(test_end_after_goodbye_is_no_failure),
        cmocka_unit_test(test_death_of_a_rank_that_has_not_left_is_a_failure_for_those_who_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
