/* Rank 0's call audit on its own: mismatches, warnings and time limits with the right names. */
#include "unit/transport/watch/detect/audit_rig.h"

#include <stdio.h>
#include <string.h>

static void test_equal_operations_are_fine(void **state)
{
    struct gyre_call_audit *audit = audit_of(5);

    for (uint32_t rank = 0; rank < 5; rank++)
        hear(audit, 1, doing(rank, 3, 2, 1000));
    assert_int_equal(call(audit, 2).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);
    gyre_audit_destroy(NULL);
}

static void test_mismatch_names_both_with_both_signatures(void **state)
{
    struct gyre_call_audit *audit = audit_of(5);

    hear(audit, 1, doing(1, 7, 6, 1000));
    hear(audit, 1, doing(3, 7, 6, 999));
    struct gyre_audit_finding finding = call(audit, 2);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_string_equal(finding.text,
                        "rank 1 called all_reduce f32 sum, 1000 elements, but rank 3 called "
                        "all_reduce f32 sum, 999 elements, both as operation 7 of communicator 0: "
                        "every rank must call the same operations in the same order");
    gyre_audit_destroy(audit);
}

/* Two calls whose texts are the same: what else is different is said. */
static void expect_same_texts(uint64_t signature, const char *text)
{
    struct gyre_watch_state one = doing(0, 7, 6, 4), other = doing(3, 7, 6, 4);
    struct gyre_call_audit *audit = audit_of(5);

    one.signature = other.signature = signature;
    other.fingerprint++;
    hear(audit, 1, one);
    hear(audit, 1, other);
    struct gyre_audit_finding finding = call(audit, 2);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_non_null(strstr(finding.text, text));
    gyre_audit_destroy(audit);
}

static void test_equal_texts_say_what_differs(void **state)
{
    expect_same_texts(gyre_signature_pack(GYRE_SIGNATURE_ALL_GATHER_V, GYRE_F32, GYRE_SUM, 0),
                      "rank 3 called all_gather_v f32, at most 4 elements, both as operation 7 of "
                      "communicator 0, and they differ in the lengths or places of the blocks: ");
    expect_same_texts(gyre_signature_pack(GYRE_SIGNATURE_ALL_REDUCE, GYRE_F32, GYRE_SUM, 0) |
                          gyre_signature_calls(2),
                      "rank 3 called group of 2 all_reduce f32 sum, 4 elements, both as operation "
                      "7 of communicator 0, and they differ in the calls of the group: ");
    expect_same_texts(gyre_signature_pack(GYRE_SIGNATURE_BROADCAST, GYRE_U8, GYRE_SUM, 1) |
                          gyre_signature_calls(1000),
                      "rank 3 called group of at least 255 broadcast from rank 1, 4 bytes, both as "
                      "operation 7 of communicator 0, and they differ in the calls of the group: ");
    expect_same_texts(
        gyre_signature_pack(GYRE_SIGNATURE_BARRIER, GYRE_U8, GYRE_MAX, 0) | gyre_signature_calls(3),
        "rank 3 called group of 3 barrier, both as operation 7 of communicator 0, and "
        "they differ in the calls of the group: ");
}

/* A call of a group was refused, and so the pack that it would have been in is another. */
static void test_refusal_behind_a_mismatch_is_told(void **state)
{
    struct gyre_watch_state other = doing(3, 7, 6, 4);
    struct gyre_call_audit *audit = audit_of(5);

    hear(audit, 1, doing(1, 7, 6, 8));
    other.refused = (struct gyre_watch_refused){.stands = true, .sequence = 8};
    snprintf(other.refused.why, sizeof other.refused.why, "gyre_all_reduce: type 99 is unknown");
    hear(audit, 1, other);
    struct gyre_audit_finding finding = call(audit, 2);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_non_null(strstr(finding.text, "but rank 3 called all_reduce f32 sum, 4 elements, "));
    assert_non_null(strstr(finding.text, "; rank 3 refused gyre_all_reduce: type 99 is unknown"));
    gyre_audit_destroy(audit);
}

/* Where nobody waits nothing is asked; other numbers and other communicators do not clash. */
static void test_only_what_a_rank_waits_in_clashes(void **state)
{
    struct gyre_call_audit *audit = audit_of(5);
    struct gyre_watch_state other = doing(3, 7, 6, 999);

    hear(audit, 1, doing(0, 7, 6, 1000));
    hear(audit, 1, doing(1, 8, 6, 500));
    hear(audit, 1, doing(2, 5, 5, 999));
    hear(audit, 1, doing(4, 5, 5, 998));
    other.comm = 1;
    hear(audit, 1, other);
    assert_int_equal(call(audit, 2).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);
}

/* -- ranks that have gone past ----------------------------------------------------------------- */

/* Adds the calls before the newest, latest first. */
static struct gyre_watch_state remembers(struct gyre_watch_state state, uint64_t calls,
                                         const uint64_t count[])
{
    state.calls = calls;
    for (uint64_t i = 0; i < calls; i++)
        state.call[i] = (struct gyre_watch_call){state.signature, count[i]};
    return state;
}

static void test_other_call_of_a_rank_that_has_left_is_told_at_once(void **state)
{
    const uint64_t theirs[] = {30, 20, 10};
    struct gyre_watch_state lazy = remembers(doing(2, 7, 7, 40), 3, theirs);
    struct gyre_call_audit *audit = audit_of(3);

    hear(audit, 1, doing(1, 5, 4, 21));
    hear(audit, 1, lazy); /* it waits in nothing now */
    struct gyre_audit_finding finding = call(audit, 2);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_string_equal(finding.text,
                        "rank 1 called all_reduce f32 sum, 21 elements, but rank 2 called "
                        "all_reduce f32 sum, 20 elements, both as operation 5 of communicator 0: "
                        "every rank must call the same operations in the same order");
    gyre_audit_destroy(audit);
}

/* With several operations started, it waits in the oldest, which is not its newest. */
static void test_oldest_of_several_is_compared(void **state)
{
    const uint64_t mine[] = {3, 2, 1}, theirs[] = {5, 4, 3, 7};
    struct gyre_call_audit *audit = audit_of(2);

    hear(audit, 1, remembers(doing(0, 4, 1, 4), 3, mine)); /* waits in 2, with 2 elements */
    hear(audit, 1, remembers(doing(1, 6, 6, 6), 4, theirs));
    struct gyre_audit_finding finding = call(audit, 2);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_int_equal(finding.sequence, 2);
    assert_non_null(strstr(finding.text, "2 elements, but rank 1 called all_reduce f32 sum, 7"));
    gyre_audit_destroy(audit);
}

static void test_equal_or_forgotten_calls_are_fine(void **state)
{
    const uint64_t same[] = {30, 20, 10};
    struct gyre_watch_state other = remembers(doing(3, 7, 7, 40), 3, same);
    struct gyre_call_audit *audit = audit_of(4);

    hear(audit, 1, doing(0, 5, 4, 20));
    hear(audit, 1, remembers(doing(1, 7, 7, 40), 3, same));
    hear(audit, 1, doing(2, 900, 900, 40));
    other.call[1].count = 21;
    /* some stand at one place of the table */
    for (other.comm = 1; other.comm < 100; other.comm++) {
        hear(audit, 1, other);
        assert_int_equal(call(audit, 2).outcome, GYRE_AUDIT_FINE);
    }
    gyre_audit_destroy(audit);
}

/* -- standstill -------------------------------------------------------------------------------- */

/* Ranks 0 and 2 wait in operation 2, rank 1 in operation 1, and no state tells of the past. */
static struct gyre_call_audit *audit_of_parted(void)
{
    struct gyre_call_audit *audit = audit_of(3);

    hear(audit, 0, doing(0, 2, 1, 1));
    hear(audit, 0, doing(1, 1, 0, 1000));
    hear(audit, 0, doing(2, 2, 1, 1));
    return audit;
}

/* Not at the dead time yet, when a rank that was stopped is told. */
static void test_standstill_names_who_is_behind_and_who_has_left(void **state)
{
    struct gyre_call_audit *audit = audit_of_parted();

    assert_int_equal(call(audit, STILL - 1).outcome, GYRE_AUDIT_FINE);
    struct gyre_audit_finding finding = call(audit, STILL + LOOK_AGAIN);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_string_equal(
        finding.text,
        "rank 1 waits in operation 1 (all_reduce f32 sum, 1000 elements), which rank 0 has left; "
        "rank 0 waits in operation 2 (all_reduce f32 sum, 1 elements): every rank must call the "
        "same operations in the same order");
    gyre_audit_destroy(audit);
}

/* What a rank said long ago is no proof that it stands there still. */
static void test_standstill_is_told_when_all_have_answered(void **state)
{
    struct gyre_call_audit *audit = audit_of_parted();

    assert_int_equal(look(audit, STILL - 1).outcome, GYRE_AUDIT_FINE);
    assert_int_equal(answer(audit, STILL - 1), 0);
    assert_int_not_equal(look(audit, STILL + LOOK_AGAIN).outcome, GYRE_AUDIT_MISMATCH);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_true(gyre_audit_doubts(audit, rank));
        assert_int_not_equal(look(audit, STILL + 2 * LOOK_AGAIN).outcome, GYRE_AUDIT_MISMATCH);
        gyre_audit_answer(audit, STILL + 2 * LOOK_AGAIN, &said[rank]);
    }
    assert_int_equal(look(audit, STILL + 2 * LOOK_AGAIN).outcome, GYRE_AUDIT_MISMATCH);
    assert_int_equal(answer(audit, STILL + 2 * LOOK_AGAIN), 0);
    gyre_audit_destroy(audit);
}

static void test_no_standstill_where_an_answer_tells_of_motion(void **state)
{
    struct gyre_call_audit *audit = audit_of_parted();
    struct gyre_watch_state gone_on = doing(1, 2, 1, 1);

    assert_int_not_equal(look(audit, STILL).outcome, GYRE_AUDIT_MISMATCH);
    gyre_audit_answer(audit, STILL, &said[0]);
    gyre_audit_answer(audit, STILL, &gone_on);
    gyre_audit_answer(audit, STILL, &said[2]);
    assert_int_not_equal(look(audit, 3 * STILL).outcome, GYRE_AUDIT_MISMATCH);
    gyre_audit_destroy(audit);
}

static void test_standstill_is_not_looked_for_without_a_dead_time(void **state)
{
    const struct gyre_audit_limits never = {.patience_ns = 2 * TIMEOUT};
    struct gyre_call_audit *audit;

    assert_int_equal(gyre_audit_create(2, &never, &audit), 0);
    hear(audit, 0, doing(0, 2, 1, 1));
    hear(audit, 0, doing(1, 1, 0, 1000));
    assert_int_equal(call(audit, TIMEOUT).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);
}

/* A rank that waits in nothing computes: it will come. */
static void test_nobody_stands_still_while_a_rank_computes(void **state)
{
    struct gyre_call_audit *audit = audit_of_parted();

    hear(audit, 0, doing(2, 1, 1, 1000));
    assert_int_not_equal(call(audit, 3 * DEAD).outcome, GYRE_AUDIT_MISMATCH);
    gyre_audit_destroy(audit);
}

/* Any rank's motion will do, however slow: the bytes may be those the others wait for. */
static void test_nobody_stands_still_while_a_rank_moves(void **state)
{
    struct gyre_call_audit *audit = audit_of_parted();
    struct gyre_watch_state slow = doing(1, 1, 0, 1000);
    uint64_t clock = 0;

    while (clock + DEAD < TIMEOUT) {
        clock += DEAD - GYRE_SECOND;
        slow.motion++;
        hear(audit, clock, slow);
        assert_int_not_equal(call(audit, clock + 2).outcome, GYRE_AUDIT_MISMATCH);
        assert_int_not_equal(call(audit, clock + DEAD - 1).outcome, GYRE_AUDIT_MISMATCH);
    }
    assert_int_equal(call(audit, clock + STILL).outcome, GYRE_AUDIT_MISMATCH);
    gyre_audit_destroy(audit);
}

/* In one operation all together: a matter for the time limit. */
static void test_waiting_together_is_no_standstill(void **state)
{
    struct gyre_call_audit *audit = audit_of(2);

    hear(audit, 0, doing(0, 2, 1, 9));
    hear(audit, 0, remembers(doing(1, 3, 1, 10), 1, (const uint64_t[]){9}));
    assert_int_not_equal(call(audit, 3 * DEAD).outcome, GYRE_AUDIT_MISMATCH);
    gyre_audit_destroy(audit);
}

/* -- many -------------------------------------------------------------------------------------- */

static void test_every_pair_of_4096_is_found(void **state)
{
    struct gyre_call_audit *audit = audit_of(4096);

    for (uint32_t rank = 0; rank < 4096; rank++)
        hear(audit, 1, doing(rank, 1 + rank, 0, 10)); /* all under different numbers */
    assert_int_equal(call(audit, 2).outcome, GYRE_AUDIT_FINE);
    for (uint32_t rank = 1; rank < 4096; rank += 97) {
        hear(audit, 3, doing(rank, rank, 0, 11)); /* as the rank before it, but other */
        assert_int_equal(call(audit, 4).outcome, GYRE_AUDIT_MISMATCH);
        hear(audit, 5, doing(rank, 1 + rank, 0, 10));
    }
    gyre_audit_destroy(audit);
}

/* -- several communicators --------------------------------------------------------------------- */

/* Rank 2 skipped operation 4 of the child and waits in the world; rank 1 waits in the child. */
static void test_skip_in_a_child_is_a_standstill(void **state)
{
    struct gyre_call_audit *audit = audit_of(3);

    hear(audit, 0, doing(0, 9, 8, 1));
    hear(audit, 0, in_child(doing(1, 4, 3, 1000), 8));
    hear(audit, 0, also_in_child(doing(2, 9, 8, 1), 3));
    assert_int_equal(call(audit, DEAD - 1).outcome, GYRE_AUDIT_FINE);
    struct gyre_audit_finding finding = call(audit, STILL);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_non_null(strstr(finding.text, "rank 0 waits in operation 9 (all_reduce f32 sum, 1 "
                                         "elements), which rank 1 has not called; rank 1 waits in "
                                         "operation 4 of communicator 5"));
    gyre_audit_destroy(audit);
}

/* Two groups, each together in an operation of its own, with nobody outside: they only take long.
 */
static void test_groups_that_are_complete_stand_in_no_way(void **state)
{
    struct gyre_call_audit *audit = audit_of(4);

    for (uint32_t rank = 0; rank < 4; rank++) {
        struct gyre_watch_state mine = in_child(doing(rank, 4 + rank / 2, 3 + rank / 2, 1), 8);
        mine.comm = rank < 2 ? 7 : 2u << 12 | 7;
        hear(audit, 0, mine);
    }
    assert_int_equal(call(audit, STILL).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);
}

static void test_only_members_are_missing_in_a_child(void **state)
{
    struct gyre_call_audit *audit = audit_of(4);

    hear(audit, 0, doing(0, 8, 8, 1));
    hear(audit, 0, in_child(doing(1, 4, 3, 1000), 8));
    hear(audit, 0, also_in_child(doing(2, 8, 8, 1), 3));
    hear(audit, 0, doing(3, 8, 8, 1));
    struct gyre_audit_finding finding = call(audit, PATIENCE + GYRE_SECOND);
    assert_int_equal(finding.outcome, GYRE_AUDIT_SLOW);
    assert_string_equal(finding.text,
                        "operation 4 of communicator 5 (all_reduce f32 sum, 1000 elements): rank 1 "
                        "has waited 11.0 s; rank 2 has not joined");
    gyre_audit_destroy(audit);
}

/* -- waiting for ranks that do not come -------------------------------------------------------- */

static void test_missing_ranks_are_listed_once(void **state)
{
    struct gyre_call_audit *audit = audit_of(9);

    for (uint32_t rank = 0; rank < 9; rank++)
        hear(audit, 0, doing(rank, 6, rank == 3 || (rank >= 5 && rank <= 7) ? 6 : 5, 4));
    for (uint32_t rank = 0; rank < 9; rank++)
        if (rank != 3 && (rank < 5 || rank > 7))
            hear(audit, 0, doing(rank, 7, 6, 1000));
    assert_int_equal(call(audit, PATIENCE - 1).outcome, GYRE_AUDIT_FINE);
    struct gyre_audit_finding finding = call(audit, PATIENCE + GYRE_SECOND);
    assert_int_equal(finding.outcome, GYRE_AUDIT_SLOW);
    assert_string_equal(finding.text, "operation 7 (all_reduce f32 sum, 1000 elements): rank 0 has "
                                      "waited 11.0 s; ranks 3, 5-7 have not joined");
    assert_true(gyre_audit_waits(audit, 0, 0, 7));
    assert_false(gyre_audit_waits(audit, 3, 0, 7));
    assert_int_equal(call(audit, PATIENCE + 2 * GYRE_SECOND).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);
}

static void test_time_limit_names_the_missing(void **state)
{
    struct gyre_call_audit *audit = audit_of(3);

    hear(audit, 0, doing(0, 1, 0, 8));
    hear(audit, 5, doing(2, 1, 0, 8));
    struct gyre_audit_finding finding = call(audit, TIMEOUT);
    assert_int_equal(finding.outcome, GYRE_AUDIT_TIMED_OUT);
    assert_int_equal(finding.rank, 1);
    assert_non_null(strstr(finding.text, "its limit (GYRE_TIMEOUT); rank 1 has not joined"));
    gyre_audit_destroy(audit);
}

/* Moving on restarts the clock: a long chain of operations is no long wait. */
static void test_progress_restarts_the_clock(void **state)
{
    struct gyre_call_audit *audit = audit_of(2);

    for (uint64_t i = 1; i < 100; i++) {
        hear(audit, i * 5 * GYRE_SECOND, doing(0, i + 3, i, 8));
        assert_int_equal(call(audit, i * 5 * GYRE_SECOND + GYRE_SECOND).outcome, GYRE_AUDIT_FINE);
    }
    gyre_audit_destroy(audit);
}

/* All have joined: the data is long, nobody is to blame before the time limit. */
static void test_long_transfer_is_no_warning(void **state)
{
    struct gyre_call_audit *audit = audit_of(2);

    hear(audit, 0, doing(0, 1, 0, 8));
    hear(audit, 0, doing(1, 1, 0, 8));
    assert_int_equal(call(audit, 2 * PATIENCE).outcome, GYRE_AUDIT_FINE);
    struct gyre_audit_finding finding = call(audit, TIMEOUT);
    assert_int_equal(finding.outcome, GYRE_AUDIT_TIMED_OUT);
    assert_non_null(strstr(finding.text, "all ranks have joined"));
    gyre_audit_destroy(audit);
}

static void test_long_lists_are_cut(void **state)
{
    struct gyre_call_audit *audit = audit_of(4096);

    for (uint32_t rank = 0; rank < 4096; rank += 2)
        hear(audit, 0, doing(rank, 1, 0, 8));
    struct gyre_audit_finding finding = call(audit, 2 * PATIENCE);
    assert_int_equal(finding.outcome, GYRE_AUDIT_SLOW);
    assert_non_null(strstr(finding.text, ", … have not joined"));
    gyre_audit_destroy(audit);
}

static void test_unknown_ranks_are_ignored(void **state)
{
    struct gyre_call_audit *audit = audit_of(2);

    hear(audit, 0, doing(2, 1, 0, 8));
    hear(audit, 0, doing(UINT32_MAX, 1, 0, 8));
    assert_int_equal(call(audit, TIMEOUT).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_operations_are_fine),
        cmocka_unit_test(test_mismatch_names_both_with_both_signatures),
        cmocka_unit_test(test_equal_texts_say_what_differs),
        cmocka_unit_test(test_refusal_behind_a_mismatch_is_told),
        cmocka_unit_test(test_only_what_a_rank_waits_in_clashes),
        cmocka_unit_test(test_other_call_of_a_rank_that_has_left_is_told_at_once),
        cmocka_unit_test(test_oldest_of_several_is_compared),
        cmocka_unit_test(test_equal_or_forgotten_calls_are_fine),
        cmocka_unit_test(test_standstill_names_who_is_behind_and_who_has_left),
        cmocka_unit_test(test_standstill_is_told_when_all_have_answered),
        cmocka_unit_test(test_no_standstill_where_an_answer_tells_of_motion),
        cmocka_unit_test(test_standstill_is_not_looked_for_without_a_dead_time),
        cmocka_unit_test(test_nobody_stands_still_while_a_rank_computes),
        cmocka_unit_test(test_nobody_stands_still_while_a_rank_moves),
        cmocka_unit_test(test_waiting_together_is_no_standstill),
        cmocka_unit_test(test_every_pair_of_4096_is_found),
        cmocka_unit_test(test_missing_ranks_are_listed_once),
        cmocka_unit_test(test_time_limit_names_the_missing),
        cmocka_unit_test(test_progress_restarts_the_clock),
        cmocka_unit_test(test_long_transfer_is_no_warning),
        cmocka_unit_test(test_long_lists_are_cut),
        cmocka_unit_test(test_unknown_ranks_are_ignored),
        cmocka_unit_test(test_skip_in_a_child_is_a_standstill),
        cmocka_unit_test(test_groups_that_are_complete_stand_in_no_way),
        cmocka_unit_test(test_only_members_are_missing_in_a_child),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
