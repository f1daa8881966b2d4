/* The watch's mind at the end of a job: whoever leaves in peace is believed, who leaves while
 * others still wait is named to all of them, and so are ranks that have not done the same. In haste
 * an eighth of the seeds, under sanitizers a sixteenth. */
#include "unit/transport/watch/detect/detector_story.h"

#include <string.h>

static void test_all_leave_in_any_order(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        struct sim sim = sim_of(1 + seed % 13, 1 + seed % 4, seed);
        sim_open(&sim);
        for (uint32_t i = 0; i < sim.n; i++) {
            for (uint32_t rank = 0; rank < sim.n; rank++)
                assert_false(gyre_detector_all_left(sim.rank[rank].detector));
            sim_leave(&sim, (i * 5 + (uint32_t)seed) % sim.n);
            sim_run(&sim, gyre_rng_below(&sim.rng, 50 * GYRE_MS));
        }
        if (sim.n % 5 != 0) { /* otherwise the order above left some out */
            sim_run(&sim, 100 * GYRE_MS);
            for (uint32_t rank = 0; rank < sim.n; rank++)
                assert_true(gyre_detector_all_left(sim.rank[rank].detector));
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

/* What a rank that failed says to rank 0 is lost with its connection, and it leaves. Its state goes
 * to rank 0 through the lowest rank of its node, and so does its failure, in front of the state. */
static void test_who_leaves_because_it_failed_has_not_left_early(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        const uint32_t per_node = 2 + (uint32_t)seed % 4, last = 2 * per_node - 1;
        struct sim sim = sim_of(2 * per_node, per_node, seed);
        sim_open(&sim);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            sim.rank[rank].state = at_operation(&sim, rank, rank == last ? 2 : 3, 2);
        sim_run(&sim, GYRE_SECOND + gyre_rng_below(&sim.rng, 50 * GYRE_MS));
        sim_reset(&sim, 0, last, false, false);
        uint64_t limit = sim.now + 10 * GYRE_MS;
        sim_report(&sim, last, GYRE_CORRUPT, 1, false, "rank 1 sent altered bytes");
        sim.rank[last].state.parting = 1;
        sim_leave(&sim, last);
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, 1, limit);
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
            if (gyre_detector_all_left(sim.rank[rank].detector)) /* it waits for nobody, and ends */
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
    struct gyre_failure_detector *detector;
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    detector = sim.rank[1].detector;
    for (uint32_t rank = 0; rank < 2; rank++)
        sim.rank[rank].state = at_operation(&sim, rank, 2, 2);
    sim_leave(&sim, 0);
    sim_leave(&sim, 1);
    sim_run(&sim, 10 * GYRE_MS);
    sim_pause(&sim, 0, SIM_FOREVER);
    sim_leave(&sim, 2); /* it has called nothing */
    sim_run(&sim, 10 * GYRE_MS);
    assert_null(gyre_detector_failure(detector));
    gyre_detector_ended(detector, sim.now, (uint32_t)gyre_detector_channel(detector, 0));
    assert_true(gyre_detector_all_left(detector));
    assert_non_null(gyre_detector_failure(detector));
    assert_int_equal(gyre_detector_failure(detector)->status, GYRE_MISMATCH);
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
    gyre_detector_receive(sim.rank[1].detector, sim.now,
                          (uint32_t)gyre_detector_channel(sim.rank[1].detector, 2), &bye);
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
    assert_true(gyre_detector_all_left(sim.rank[1].detector)); /* rank 0 is not there to say so */
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
        cmocka_unit_test(test_all_leave_in_any_order),
        cmocka_unit_test(test_who_leaves_early_is_told_by_all),
        cmocka_unit_test(test_who_leaves_because_it_failed_has_not_left_early),
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
