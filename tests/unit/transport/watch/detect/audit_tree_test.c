/* Rank 0's call audit at the end of the tree: what one rank of hundreds does is known to all. */
#include "unit/transport/watch/detect/audit_rig.h"
#include "unit/transport/watch/detect/detector_sim.h"

#include <string.h>

static struct sim busy_world(uint32_t n, uint32_t ranks_per_node)
{
    return (struct sim){.n = n,
                        .ranks_per_node = ranks_per_node,
                        .seed = 3,
                        .dead_ns = 2 * GYRE_SECOND,
                        .timeout_ns = TIMEOUT};
}

static void test_mismatch_deep_in_the_tree_ends_the_job(void **state)
{
    struct sim sim = busy_world(300, 150); /* more states than one beat holds */

    sim_open(&sim);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        sim.rank[rank].state = doing(rank, 4, 3, rank == 299 ? 5 : 6);
    uint64_t limit = sim.now + GYRE_SECOND;
    sim_run(&sim, 2 * GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++) {
        assert_non_null(sim_failure(&sim, rank));
        assert_int_equal(sim_failure(&sim, rank)->status, GYRE_MISMATCH);
        assert_non_null(strstr(sim_failure(&sim, rank)->text, "rank 299 called"));
        assert_true(sim.rank[rank].failed_at < limit);
    }
    sim_close(&sim);
}

/* States that change all the time at a node's first ranks do not keep its last ones from being
 * told. */
static void test_last_rank_of_a_busy_node_is_heard(void **state)
{
    struct sim sim = busy_world(300, 150);

    sim_open(&sim);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        sim.rank[rank].state = doing(rank, 4, 3, rank == 299 ? 5 : 6);
    for (uint64_t step = 0; step < 100; step++) {
        for (uint32_t rank = 0; rank < 280; rank++)
            sim.rank[rank].state.motion++;
        sim_run(&sim, 10 * GYRE_MS);
    }
    assert_non_null(sim_failure(&sim, 0));
    assert_int_equal(sim_failure(&sim, 0)->status, GYRE_MISMATCH);
    sim_close(&sim);
}

/* Rank 5 waits in operation 1 for ever; the others are in operation 20 and move until `still`. */
static void test_standstill_deep_in_the_tree_ends_the_job(void **state)
{
    struct sim sim = busy_world(12, 4);

    sim_open(&sim);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        sim.rank[rank].state = rank == 5 ? doing(5, 1, 0, 7) : doing(rank, 20, 19, 6);
    for (uint64_t step = 0; step < 10; step++) { /* one rank's bytes keep all from being blamed */
        sim.rank[11].state.motion++;
        sim_run(&sim, GYRE_SECOND);
        assert_null(sim_failure(&sim, 0));
    }
    uint64_t still = sim.now;
    sim_run(&sim, 2 * sim.dead_ns);
    for (uint32_t rank = 0; rank < sim.n; rank++) {
        assert_non_null(sim_failure(&sim, rank));
        assert_int_equal(sim_failure(&sim, rank)->status, GYRE_MISMATCH);
        assert_non_null(strstr(sim_failure(&sim, rank)->text, "rank 5 waits in operation 1 ("));
        assert_true(sim.rank[rank].failed_at > still + sim.dead_ns / 2);
        assert_true(sim.rank[rank].failed_at < still + sim.dead_ns + GYRE_SECOND);
    }
    sim_close(&sim);
}

/* Rank 5 goes on behind a cut. Its last word is of the operation that the others have left, and
 * they have stood still for longer than it has been silent: its silence is told. */
static void test_words_from_before_a_cut_are_no_standstill(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim sim = busy_world(12, 4);
        sim.seed = seed;
        sim_open(&sim);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            sim.rank[rank].state = rank == 5 ? doing(5, 1, 0, 7) : doing(rank, 20, 19, 6);
        sim_run(&sim, sim.dead_ns / 4 + seed * sim.dead_ns / 40);
        sim_cut_node(&sim, 1);
        sim.rank[5].state = doing(5, 20, 19, 6);
        sim_run(&sim, 2 * sim.dead_ns);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            assert_int_equal(sim_failure(&sim, rank)->status, GYRE_PEER_LOST);
        assert_int_equal(sim_failure(&sim, 0)->rank, 4);
        sim_close(&sim);
    }
}

/* One rank computes for a long time, another's operation is long: nobody is blamed. */
static void test_slow_ranks_are_not_blamed(void **state)
{
    struct sim sim = busy_world(12, 4);

    sim.lateness_max = 300 * GYRE_MS;
    sim_open(&sim);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        sim.rank[rank].state = rank == 5 ? doing(5, 1, 1, 7) : doing(rank, 20, 19, 6);
    sim_run(&sim, TIMEOUT - GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        assert_null(sim_failure(&sim, rank));
    sim_close(&sim);
}

static void test_waiting_ranks_and_rank_0_are_warned(void **state)
{
    struct sim sim = busy_world(8, 4);

    sim_open(&sim);
    for (uint32_t rank = 1; rank < 7; rank++)
        sim.rank[rank].state = doing(rank, 1, 0, 8);
    sim_run(&sim, PATIENCE + GYRE_SECOND);
    for (uint32_t rank = 0; rank < sim.n; rank++) {
        assert_int_equal(sim.rank[rank].warnings, rank < 7);
        if (rank < 7)
            assert_non_null(strstr(sim.rank[rank].warning, "ranks 0, 7 have not joined"));
        assert_null(sim_failure(&sim, rank));
    }
    sim_run(&sim, TIMEOUT);
    for (uint32_t rank = 0; rank < sim.n; rank++) {
        assert_int_equal(sim_failure(&sim, rank)->status, GYRE_TIMED_OUT);
        assert_non_null(strstr(sim_failure(&sim, rank)->text, "ranks 0, 7 have not joined"));
        assert_int_equal(sim.rank[rank].warnings, rank < 7);
    }
    sim_close(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch_deep_in_the_tree_ends_the_job),
        cmocka_unit_test(test_last_rank_of_a_busy_node_is_heard),
        cmocka_unit_test(test_standstill_deep_in_the_tree_ends_the_job),
        cmocka_unit_test(test_words_from_before_a_cut_are_no_standstill),
        cmocka_unit_test(test_slow_ranks_are_not_blamed),
        cmocka_unit_test(test_waiting_ranks_and_rank_0_are_warned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
