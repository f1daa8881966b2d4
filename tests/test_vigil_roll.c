/* Rank 0's roll call on its own, and at the end of the tree: mismatches, warnings and time limits
 * with the right names. */
#include "vigil_sim.h"

#include "base/clock.h"
#include "transport/signature.h"
#include "transport/vigil_roll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE (10 * GYRE_SECOND)
#define TIMEOUT  (60 * GYRE_SECOND)

/* A rank that has entered operation `sequence` and finished up to `finished`. */
static struct gyre_watch_state doing(uint32_t rank, uint64_t sequence, uint64_t finished,
                                     uint64_t count)
{
    return (struct gyre_watch_state){
        .rank = rank,
        .comm = 0,
        .sequence = sequence,
        .finished = finished,
        .fingerprint = count * 31 + 7,
        .signature = gyre_signature_pack(GYRE_SIGNATURE_ALL_REDUCE, GYRE_F32, GYRE_SUM, 0),
        .count = count,
    };
}

static struct gyre_roll *roll_of(uint32_t n)
{
    struct gyre_roll *roll;

    assert_int_equal(gyre_roll_create(n, PATIENCE, TIMEOUT, &roll), 0);
    return roll;
}

static void hear(struct gyre_roll *roll, uint64_t clock, struct gyre_watch_state state)
{
    gyre_roll_hear(roll, clock, &state);
}

static struct gyre_roll_finding call(struct gyre_roll *roll, uint64_t clock)
{
    struct gyre_roll_finding finding;

    gyre_roll_call(roll, clock, &finding);
    return finding;
}

static void test_equal_operations_are_fine(void **state)
{
    struct gyre_roll *roll = roll_of(5);

    for (uint32_t rank = 0; rank < 5; rank++)
        hear(roll, 1, doing(rank, 3, 2, 1000));
    assert_int_equal(call(roll, 2).verdict, GYRE_ROLL_FINE);
    gyre_roll_destroy(roll);
    gyre_roll_destroy(NULL);
}

static void test_mismatch_names_both_with_both_signatures(void **state)
{
    struct gyre_roll *roll = roll_of(5);

    hear(roll, 1, doing(1, 7, 6, 1000));
    hear(roll, 1, doing(3, 7, 6, 999));
    struct gyre_roll_finding finding = call(roll, 2);
    assert_int_equal(finding.verdict, GYRE_ROLL_MISMATCH);
    assert_string_equal(finding.text,
                        "rank 1 called all_reduce f32 sum, 1000 elements, but rank 3 called "
                        "all_reduce f32 sum, 999 elements, both as operation 7 of communicator 0: "
                        "every rank must call the same operations in the same order");
    gyre_roll_destroy(roll);
}

/* A rank that has finished is not waiting; other numbers and other communicators do not clash. */
static void test_only_waiting_ranks_under_one_number_clash(void **state)
{
    struct gyre_roll *roll = roll_of(5);
    struct gyre_watch_state other = doing(3, 7, 6, 999);

    hear(roll, 1, doing(0, 7, 6, 1000));
    hear(roll, 1, doing(1, 8, 6, 500));
    hear(roll, 1, doing(2, 7, 7, 999));
    other.comm = 1;
    hear(roll, 1, other);
    assert_int_equal(call(roll, 2).verdict, GYRE_ROLL_FINE);
    gyre_roll_destroy(roll);
}

static void test_every_pair_of_4096_is_found(void **state)
{
    struct gyre_roll *roll = roll_of(4096);

    for (uint32_t rank = 0; rank < 4096; rank++)
        hear(roll, 1, doing(rank, 1 + rank, 0, 10)); /* all under different numbers */
    assert_int_equal(call(roll, 2).verdict, GYRE_ROLL_FINE);
    for (uint32_t rank = 1; rank < 4096; rank += 97) {
        hear(roll, 3, doing(rank, rank, 0, 11)); /* as the rank before it, but other */
        assert_int_equal(call(roll, 4).verdict, GYRE_ROLL_MISMATCH);
        hear(roll, 5, doing(rank, 1 + rank, 0, 10));
    }
    gyre_roll_destroy(roll);
}

static void test_missing_ranks_are_listed_once(void **state)
{
    struct gyre_roll *roll = roll_of(9);

    for (uint32_t rank = 0; rank < 9; rank++)
        hear(roll, 0, doing(rank, 6, rank == 3 || (rank >= 5 && rank <= 7) ? 6 : 5, 4));
    for (uint32_t rank = 0; rank < 9; rank++)
        if (rank != 3 && (rank < 5 || rank > 7))
            hear(roll, 0, doing(rank, 7, 6, 1000));
    assert_int_equal(call(roll, PATIENCE - 1).verdict, GYRE_ROLL_FINE);
    struct gyre_roll_finding finding = call(roll, PATIENCE + GYRE_SECOND);
    assert_int_equal(finding.verdict, GYRE_ROLL_SLOW);
    assert_string_equal(finding.text, "operation 7 (all_reduce f32 sum, 1000 elements): rank 0 has "
                                      "waited 11.0 s; ranks 3, 5-7 have not joined");
    assert_true(gyre_roll_waits(roll, 0, 0, 7));
    assert_false(gyre_roll_waits(roll, 3, 0, 7));
    assert_int_equal(call(roll, PATIENCE + 2 * GYRE_SECOND).verdict, GYRE_ROLL_FINE);
    gyre_roll_destroy(roll);
}

static void test_time_limit_names_the_missing(void **state)
{
    struct gyre_roll *roll = roll_of(3);

    hear(roll, 0, doing(0, 1, 0, 8));
    hear(roll, 5, doing(2, 1, 0, 8));
    struct gyre_roll_finding finding = call(roll, TIMEOUT);
    assert_int_equal(finding.verdict, GYRE_ROLL_TIMED_OUT);
    assert_int_equal(finding.rank, 1);
    assert_non_null(strstr(finding.text, "its limit (GYRE_TIMEOUT); rank 1 has not joined"));
    gyre_roll_destroy(roll);
}

/* Moving on restarts the clock: a long chain of operations is no long wait. */
static void test_progress_restarts_the_clock(void **state)
{
    struct gyre_roll *roll = roll_of(2);

    for (uint64_t i = 1; i < 100; i++) {
        hear(roll, i * 5 * GYRE_SECOND, doing(0, i + 3, i, 8));
        assert_int_equal(call(roll, i * 5 * GYRE_SECOND + GYRE_SECOND).verdict, GYRE_ROLL_FINE);
    }
    gyre_roll_destroy(roll);
}

/* All have joined: the data is long, nobody is to blame before the time limit. */
static void test_long_transfer_is_no_warning(void **state)
{
    struct gyre_roll *roll = roll_of(2);

    hear(roll, 0, doing(0, 1, 0, 8));
    hear(roll, 0, doing(1, 1, 0, 8));
    assert_int_equal(call(roll, 2 * PATIENCE).verdict, GYRE_ROLL_FINE);
    struct gyre_roll_finding finding = call(roll, TIMEOUT);
    assert_int_equal(finding.verdict, GYRE_ROLL_TIMED_OUT);
    assert_non_null(strstr(finding.text, "all ranks have joined"));
    gyre_roll_destroy(roll);
}

static void test_long_lists_are_cut(void **state)
{
    struct gyre_roll *roll = roll_of(4096);

    for (uint32_t rank = 0; rank < 4096; rank += 2)
        hear(roll, 0, doing(rank, 1, 0, 8));
    struct gyre_roll_finding finding = call(roll, 2 * PATIENCE);
    assert_int_equal(finding.verdict, GYRE_ROLL_SLOW);
    assert_non_null(strstr(finding.text, ", … have not joined"));
    gyre_roll_destroy(roll);
}

static void test_unknown_ranks_are_ignored(void **state)
{
    struct gyre_roll *roll = roll_of(2);

    hear(roll, 0, doing(2, 1, 0, 8));
    hear(roll, 0, doing(UINT32_MAX, 1, 0, 8));
    assert_int_equal(call(roll, TIMEOUT).verdict, GYRE_ROLL_FINE);
    gyre_roll_destroy(roll);
}

/* -- at the end of the tree ---------------------------------------------------------------------
 */

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
        cmocka_unit_test(test_equal_operations_are_fine),
        cmocka_unit_test(test_mismatch_names_both_with_both_signatures),
        cmocka_unit_test(test_only_waiting_ranks_under_one_number_clash),
        cmocka_unit_test(test_every_pair_of_4096_is_found),
        cmocka_unit_test(test_missing_ranks_are_listed_once),
        cmocka_unit_test(test_time_limit_names_the_missing),
        cmocka_unit_test(test_progress_restarts_the_clock),
        cmocka_unit_test(test_long_transfer_is_no_warning),
        cmocka_unit_test(test_long_lists_are_cut),
        cmocka_unit_test(test_unknown_ranks_are_ignored),
        cmocka_unit_test(test_mismatch_deep_in_the_tree_ends_the_job),
        cmocka_unit_test(test_waiting_ranks_and_rank_0_are_warned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
