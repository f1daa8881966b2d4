/* Connections between nodes that are reset, in virtual time: no job fails of it, and whatever was
 * to be told is told, although messages are lost with the connection. */
#include "unit/transport/watch/detect/detector_story.h"

#include <string.h>

static bool far(const struct sim *sim, uint32_t rank)
{
    return sim->member[rank].node != 0;
}

/* A rank that has a channel to rank 0 over the network. */
static uint32_t draw_far(const struct sim *sim, struct gyre_rng *dice)
{
    uint32_t rank;

    do
        rank = (uint32_t)gyre_rng_below(dice, sim->n);
    while (!far(sim, rank));
    return rank;
}

static struct sim draw_sim(struct gyre_rng *dice, uint64_t seed)
{
    gyre_rng_seed(dice, seed * 7907);
    uint32_t per_node = 1 + (uint32_t)gyre_rng_below(dice, 4);
    struct sim sim = sim_of(per_node + 1 + (uint32_t)gyre_rng_below(dice, 12), per_node, seed);
    sim_open(&sim);
    sim_run(&sim, gyre_rng_below(dice, GYRE_SECOND) + 50 * GYRE_MS);
    return sim;
}

/* Resets a connection; one of its ends, the other or both notice. */
static uint32_t reset_any(struct sim *sim, struct gyre_rng *dice)
{
    uint32_t rank = draw_far(sim, dice);
    uint32_t who = (uint32_t)gyre_rng_below(dice, 3);

    sim_reset(sim, 0, rank, who != 1, who != 0);
    return rank;
}

static void test_resets_fail_no_job(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct gyre_rng dice;
        struct sim sim = draw_sim(&dice, seed);
        for (int i = 0; i < 20; i++) {
            reset_any(&sim, &dice);
            sim_run(&sim, gyre_rng_below(&dice, 100 * GYRE_MS));
        }
        sim_run(&sim, 2 * GYRE_SECOND);
        assert_calm(&sim);
        sim_close(&sim);
    }
}

/* A failure that is found while the connection breaks is everybody's all the same. */
static void test_a_failure_is_told_after_a_reset(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct gyre_rng dice;
        struct sim sim = draw_sim(&dice, seed);
        uint32_t rank = draw_far(&sim, &dice);
        uint64_t at = sim.now;
        if (seed % 2)
            sim_report(&sim, rank, GYRE_ABORTED, rank, false, "aborted");
        sim_run(&sim, gyre_rng_below(&dice, GYRE_MS)); /* perhaps told, and not heard */
        sim_reset(&sim, 0, rank, true, true);
        if (seed % 2 == 0)
            sim_report(&sim, rank, GYRE_ABORTED, rank, false, "aborted");
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, rank, at + GRACE + 50 * GYRE_MS);
        sim_close(&sim);
    }
}

/* Goodbyes, and rank 0's word that all have left, are told again. The rank that waits for that word
 * notices, because its beats are reset. */
static void test_goodbyes_outlive_resets(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct gyre_rng dice;
        struct sim sim = draw_sim(&dice, seed);
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            sim_leave(&sim, rank);
            sim_run(&sim, gyre_rng_below(&dice, GYRE_MS));
            sim_reset(&sim, 0, draw_far(&sim, &dice), gyre_rng_below(&dice, 2) != 0, true);
        }
        sim_run(&sim, 2 * GYRE_SECOND);
        assert_calm(&sim);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            assert_true(gyre_detector_all_left(sim.rank[rank].detector));
        sim_close(&sim);
    }
}

/* The state that shows a mismatch is told once, and lost: rank 0 hears it again. */
static void test_a_lost_state_is_told_again(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(50); seed++) {
        struct sim sim = sim_of(4, 2, seed);
        sim_open(&sim);
        sim_run(&sim, 500 * GYRE_MS);
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            sim.rank[rank].state.sequence = 1;
            sim.rank[rank].state.fingerprint = rank == 3 ? 2 : 1;
        }
        sim_reset(&sim, 0, 2, false, false);
        sim_run(&sim, 30 * GYRE_MS); /* each end believes that it has told */
        sim_reset(&sim, 0, 2, true, true);
        sim_run(&sim, GYRE_SECOND);
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            assert_non_null(sim_failure(&sim, rank));
            assert_int_equal(sim_failure(&sim, rank)->status, GYRE_MISMATCH);
        }
        sim_close(&sim);
    }
}

static void test_a_death_is_known_at_once_also_after_a_reset(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct gyre_rng dice;
        struct sim sim = draw_sim(&dice, seed);
        uint32_t rank = reset_any(&sim, &dice);
        uint32_t culprit = seed % 3 ? rank : 0;
        uint64_t at = sim.now;
        sim_kill(&sim, culprit);
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, culprit, at + GRACE + 50 * GYRE_MS);
        assert_non_null(strstr(sim_failure(&sim, culprit == 0)->text, "ended without a goodbye"));
        sim_close(&sim);
    }
}

/* Rank 3 sends no beats to rank 0; only its broken channel tells that it cannot be reached. */
static void test_who_cannot_be_reached_is_lost_at_the_dead_time(void **state)
{
    for (uint32_t who = 2; who < 4; who++) {
        struct sim sim = sim_of(4, 2, who);
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        uint64_t at = sim.now;
        sim.rank[who].side = 1; /* from rank 0 only: the node's own channels are no wires */
        sim_reset(&sim, 0, who, true, false);
        sim_run(&sim, DEAD - 60 * GYRE_MS);
        if (who == 3)
            assert_null(sim_failure(&sim, 0));
        sim_run(&sim, GYRE_SECOND);
        assert_true(sim.rank[0].failed_at <= at + DEAD + BOUND);
        assert_int_equal(sim_failure(&sim, 0)->rank, who);
        assert_non_null(strstr(sim_failure(&sim, 0)->text, "could not be made anew"));
        sim_close(&sim);
    }
}

static void test_without_a_dead_time_a_break_has_a_limit(void **state)
{
    struct sim sim = sim_of(2, 1, 5);
    sim.dead_ns = 0;
    sim_open(&sim);
    sim_run(&sim, GYRE_SECOND);
    sim_kill_open(&sim, 1); /* a child keeps its listener, and nobody answers */
    sim_reset(&sim, 0, 1, true, false);
    sim_run(&sim, 9 * GYRE_SECOND);
    assert_null(sim_failure(&sim, 0));
    sim_run(&sim, 2 * GYRE_SECOND);
    assert_int_equal(sim_failure(&sim, 0)->rank, 1);
    sim_close(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resets_fail_no_job),
        cmocka_unit_test(test_a_failure_is_told_after_a_reset),
        cmocka_unit_test(test_goodbyes_outlive_resets),
        cmocka_unit_test(test_a_lost_state_is_told_again),
        cmocka_unit_test(test_a_death_is_known_at_once_also_after_a_reset),
        cmocka_unit_test(test_who_cannot_be_reached_is_lost_at_the_dead_time),
        cmocka_unit_test(test_without_a_dead_time_a_break_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
