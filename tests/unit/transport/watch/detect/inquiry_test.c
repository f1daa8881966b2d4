/* A mismatch that a link found, in virtual time: rank 0 asks both ranks what they called, and all
 * tell it, however late the watches of a busy machine are; nobody waits for a rank that does not
 * answer for longer than a part of the dead time, and nobody longer than before where all is
 * well. */
#include "unit/transport/watch/detect/audit_rig.h"
#include "unit/transport/watch/detect/detector_sim.h"

#include <stdio.h>
#include <string.h>

#define FOUND "fingerprints differ, says a link"

/* All ranks are in operation 4; one of them in another one than the others. */
static struct sim differing(uint32_t n, uint32_t per_node, uint32_t other, uint64_t seed)
{
    struct sim sim = {.n = n,
                      .ranks_per_node = per_node,
                      .seed = seed,
                      .dead_ns = 10 * GYRE_SECOND,
                      .timeout_ns = TIMEOUT};

    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    for (uint32_t rank = 0; rank < n; rank++)
        sim.rank[rank].state = doing(rank, 4, 3, rank == other ? 5 : 6);
    return sim;
}

static void find_at(struct sim *sim, uint32_t holder, uint32_t other)
{
    sim_report(sim, holder, GYRE_MISMATCH, other, true, FOUND);
}

static void assert_told(struct sim *sim, uint64_t limit, const char *one, const char *two)
{
    for (uint32_t rank = 0; rank < sim->n; rank++) {
        const struct gyre_detector_record *record = sim_failure(sim, rank);
        if (sim->rank[rank].dead || sim->rank[rank].paused_until > sim->now)
            continue;
        if (record == NULL || record->status != GYRE_MISMATCH || !strstr(record->text, one) ||
            !strstr(record->text, two) || sim->rank[rank].failed_at > limit)
            fail_msg("seed %lu, n %u: rank %u says \"%s\" at %.3f s, limit %.3f s", sim->seed,
                     sim->n, rank, record != NULL ? record->text : "nothing",
                     (double)sim->rank[rank].failed_at / 1e9, (double)limit / 1e9);
    }
}

/* Without a beat: one way to rank 0, its question, the answer, the verdict. */
static void test_both_calls_are_known_before_the_next_beat(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint32_t n = 2 + (uint32_t)(seed % 11), other = (uint32_t)(seed * 7 % n);
        uint32_t holder = (other + 1 + (uint32_t)(seed % (n - 1))) % n;
        char name[32];
        struct sim sim = differing(n, 1 + (uint32_t)(seed % 4), other, seed);
        snprintf(name, sizeof name, "rank %u called", other);
        find_at(&sim, seed % 2 ? holder : other, seed % 2 ? other : holder);
        uint64_t limit = sim.now + 20 * GYRE_MS;
        sim_run(&sim, GYRE_SECOND);
        assert_told(&sim, limit, name, "both as operation 4");
        sim_close(&sim);
    }
}

/* Messages take up to 600 ms and ticks come up to 300 ms late: no beat is there after two
 * intervals. */
static void test_late_watches_are_waited_for(void **state)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint32_t n = 2 + (uint32_t)(seed % 7), other = (uint32_t)(seed % n);
        struct sim sim = differing(n, 1 + (uint32_t)(seed % 3), other, seed);
        char name[32];
        snprintf(name, sizeof name, "rank %u called", other);
        sim.latency_max = 600 * GYRE_MS;
        sim.lateness_max = 300 * GYRE_MS;
        for (uint32_t rank = 0; rank < n; rank++) /* each that differs from somebody finds it */
            find_at(&sim, rank, rank == other ? (other + 1) % n : other);
        uint64_t limit = sim.now + 5 * GYRE_SECOND;
        sim_run(&sim, 8 * GYRE_SECOND);
        assert_told(&sim, limit, name, "both as operation 4");
        sim_close(&sim);
    }
}

/* Rank 0, or one that differs, is kept from running for four of the five seconds that it has. */
static void test_rank_that_stands_for_a_while_is_waited_for(void **state)
{
    for (uint32_t late = 0; late <= 3; late += 3) {
        struct sim sim = differing(4, 2, 3, late + 1);
        sim_pause(&sim, late, 4 * GYRE_SECOND);
        find_at(&sim, 2, 3);
        uint64_t limit = sim.now + 4 * GYRE_SECOND + 50 * GYRE_MS;
        sim_run(&sim, 3 * GYRE_SECOND);
        assert_null(sim_failure(&sim, 2));
        sim_run(&sim, 3 * GYRE_SECOND);
        assert_told(&sim, limit, "rank 3 called", "both as operation 4");
        sim_close(&sim);
    }
}

/* Rank 3 stands for ever, or rank 0 does: the link's own words, in half of the dead time. */
static void test_rank_that_never_answers_is_not_waited_for(void **state)
{
    for (uint32_t mute = 0; mute <= 3; mute += 3) {
        struct sim sim = differing(4, 2, 3, mute + 1);
        sim_pause(&sim, mute, SIM_FOREVER);
        find_at(&sim, 2, 3);
        uint64_t limit = sim.now + sim.dead_ns / 2 + 500 * GYRE_MS;
        sim_run(&sim, 4 * GYRE_SECOND);
        assert_null(sim_failure(&sim, 2));
        sim_run(&sim, 3 * GYRE_SECOND);
        assert_non_null(sim_failure(&sim, 2));
        assert_string_equal(sim_failure(&sim, 2)->text, FOUND);
        assert_true(sim.rank[2].failed_at <= limit);
        if (mute != 0)
            assert_told(&sim, limit, FOUND, FOUND);
        sim_close(&sim);
    }
}

/* Whom it differs from has ended: that is the story, and at once. */
static void test_rank_that_ends_is_the_cause(void **state)
{
    struct sim sim = differing(4, 2, 3, 5);

    sim_pause(&sim, 3, SIM_FOREVER);
    find_at(&sim, 2, 3);
    sim_run(&sim, 100 * GYRE_MS);
    sim_kill(&sim, 3);
    sim_run(&sim, 300 * GYRE_MS);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(sim_failure(&sim, rank)->status, GYRE_PEER_LOST);
    sim_close(&sim);
}

/* Both agree about all that they remember: the link's own words, after the time of two beats and
 * not after half of the dead time. */
static void test_nothing_to_tell_is_told_soon(void **state)
{
    for (uint32_t holder = 0; holder < 3; holder++) {
        struct sim sim = differing(4, 2, 99, holder + 1);
        find_at(&sim, holder, 3);
        uint64_t limit = sim.now + 700 * GYRE_MS;
        sim_run(&sim, 400 * GYRE_MS);
        assert_null(sim_failure(&sim, holder));
        sim_run(&sim, GYRE_SECOND);
        assert_told(&sim, limit, FOUND, FOUND);
        sim_close(&sim);
    }
}

/* Rank 0 has lost its channel to one of the two, which nobody else has seen end. */
static void test_rank_that_cannot_be_asked_is_not_waited_for(void **state)
{
    struct sim sim = differing(4, 2, 3, 11);

    sim_pause(&sim, 3, SIM_FOREVER);
    find_at(&sim, 0, 3);
    sim_eof(&sim, 0, 3);
    uint64_t limit = sim.now + 900 * GYRE_MS; /* looked at once a beat */
    sim_run(&sim, 2 * GYRE_SECOND);
    assert_told(&sim, limit, FOUND, FOUND);
    sim_close(&sim);
}

/* Rank 0 is gone, as far as the holder can see, before it has found the mismatch or after: it does
 * not wait for a question. What else it holds has the time of any echo. */
static void test_nobody_is_left_to_ask(void **state)
{
    for (int before = 0; before < 2; before++) {
        struct sim sim = differing(4, 2, 3, 11);
        sim_pause(&sim, 0, SIM_FOREVER);
        sim_report(&sim, 1, GYRE_PEER_LOST, 3, true, "lost");
        if (before)
            sim_eof(&sim, 2, 0);
        find_at(&sim, 2, 3);
        if (!before)
            sim_eof(&sim, 2, 0);
        sim_eof(&sim, 1, 0);
        uint64_t at = sim.now;
        sim_run(&sim, GYRE_SECOND);
        assert_true(sim.rank[1].failed_at >= at + 200 * GYRE_MS);
        if (before) { /* it held the end of the channel first */
            assert_int_equal(sim_failure(&sim, 2)->status, GYRE_PEER_LOST);
        } else {
            assert_string_equal(sim_failure(&sim, 2)->text, FOUND);
            assert_true(sim.rank[2].failed_at <= at + 700 * GYRE_MS);
        }
        sim_close(&sim);
    }
}

/* Without a dead time as well; and a rank that is nobody's is not asked. */
static void test_limits_hold_without_a_dead_time(void **state)
{
    struct sim sim = (struct sim){.n = 4, .ranks_per_node = 2, .seed = 7, .timeout_ns = TIMEOUT};
    sim_open(&sim);
    sim_pause(&sim, 3, SIM_FOREVER);
    find_at(&sim, 1, 3);
    uint64_t limit = sim.now + 5500 * GYRE_MS;
    sim_run(&sim, 8 * GYRE_SECOND);
    assert_told(&sim, limit, FOUND, FOUND);
    sim_close(&sim);
    sim = (struct sim){.n = 4, .ranks_per_node = 2, .seed = 8, .timeout_ns = TIMEOUT};
    sim_open(&sim);
    find_at(&sim, 1, 77);
    limit = sim.now + 700 * GYRE_MS;
    sim_run(&sim, GYRE_SECOND);
    assert_told(&sim, limit, FOUND, FOUND);
    sim_close(&sim);
}

/* Two operations are under way, so nobody waits in the one that differs, and one of the two is a
 * call ahead: what both remember is compared. */
static void test_calls_that_nobody_waits_in_yet_are_compared(void **state)
{
    for (uint32_t holder = 1; holder < 3; holder++) {
        struct sim sim = differing(3, 3, 99, 9);
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct gyre_watch_state *does = &sim.rank[rank].state;
            *does = doing(rank, rank == 2 ? 6 : 5, 3, 6);
            does->calls = 2;
            for (int i = 0; i < 2; i++)
                does->call[i] =
                    (struct gyre_watch_call){does->signature, rank == 2 && i == 0 ? 5 : 6};
        }
        find_at(&sim, holder, 3 - holder);
        uint64_t limit = sim.now + 20 * GYRE_MS;
        sim_run(&sim, GYRE_SECOND);
        assert_told(&sim, limit, "rank 2 called", "both as operation 5");
        sim_close(&sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_calls_are_known_before_the_next_beat),
        cmocka_unit_test(test_late_watches_are_waited_for),
        cmocka_unit_test(test_rank_that_stands_for_a_while_is_waited_for),
        cmocka_unit_test(test_rank_that_never_answers_is_not_waited_for),
        cmocka_unit_test(test_rank_that_ends_is_the_cause),
        cmocka_unit_test(test_nothing_to_tell_is_told_soon),
        cmocka_unit_test(test_rank_that_cannot_be_asked_is_not_waited_for),
        cmocka_unit_test(test_nobody_is_left_to_ask),
        cmocka_unit_test(test_limits_hold_without_a_dead_time),
        cmocka_unit_test(test_calls_that_nobody_waits_in_yet_are_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
