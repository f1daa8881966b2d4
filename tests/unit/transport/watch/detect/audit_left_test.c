/* Rank 0's call audit on its own: a call that one rank refused, and ends that come too early, are
 * told to whoever waits, with the right names and not before their time. */
#include "unit/transport/watch/detect/audit_rig.h"

#include <string.h>

#define PATIENT (DEAD / 2)
#define ROOT    "gyre_broadcast: root 7 is not a rank of 0 … 2"

/* What it has not called since then. */
static struct gyre_watch_state refusing(struct gyre_watch_state state, uint32_t comm,
                                        uint64_t sequence, const char *why)
{
    state.refused = (struct gyre_watch_refused){.stands = 1, .comm = comm, .sequence = sequence};
    strcpy(state.refused.why, why);
    return state;
}

static struct gyre_watch_state parting(struct gyre_watch_state state)
{
    state.parting = 1;
    return state;
}

static void test_refused_call_that_others_wait_in_is_told(void **state)
{
    struct gyre_call_audit *audit = audit_of(3);

    hear(audit, 0, doing(0, 2, 1, 8));
    hear(audit, GYRE_SECOND, refusing(doing(1, 1, 1, 8), 0, 2, ROOT));
    hear(audit, 0, doing(2, 1, 1, 8));
    assert_int_equal(call(audit, GYRE_SECOND + PATIENT - 1).outcome, GYRE_AUDIT_FINE);
    struct gyre_audit_finding finding = call(audit, GYRE_SECOND + PATIENT + GYRE_SECOND / 2);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_int_equal(finding.rank, 1);
    assert_string_equal(finding.text,
                        "rank 1 refused " ROOT ", and has not called it again for 4.5 s, while "
                        "rank 0 waits in operation 2 (all_reduce f32 sum, 8 elements): every rank "
                        "must call the same operations in the same order");
    gyre_audit_destroy(audit);
}

/* Its answer, where it has one, is that it has made the call meanwhile. Nobody else is asked. */
static void test_refused_call_is_told_when_both_have_answered(void **state)
{
    for (int again = 0; again < 2; again++) {
        struct gyre_call_audit *audit = audit_of(3);
        const struct gyre_watch_state called = doing(1, 2, 1, 8);

        hear(audit, 0, doing(0, 2, 1, 8));
        hear(audit, 0, refusing(doing(1, 1, 1, 8), 0, 2, ROOT));
        hear(audit, 0, doing(2, 1, 1, 8));
        assert_int_equal(look(audit, PATIENT).outcome, GYRE_AUDIT_FINE);
        assert_true(gyre_audit_doubts(audit, 0) && gyre_audit_doubts(audit, 1));
        assert_false(gyre_audit_doubts(audit, 2));
        gyre_audit_answer(audit, PATIENT, &said[0]);
        assert_int_equal(look(audit, PATIENT).outcome, GYRE_AUDIT_FINE);
        gyre_audit_answer(audit, PATIENT, again ? &called : &said[1]);
        assert_int_equal(look(audit, PATIENT).outcome,
                         again ? GYRE_AUDIT_FINE : GYRE_AUDIT_MISMATCH);
        gyre_audit_destroy(audit);
    }
}

/* Nobody waits long enough for the rank; or it has called again; or all were wrong alike. */
static void test_refused_call_that_harms_nobody_is_fine(void **state)
{
    struct gyre_watch_state again = refusing(doing(1, 2, 1, 8), 0, 2, ROOT), alike;
    struct gyre_call_audit *audit = audit_of(2);

    hear(audit, 0, doing(0, 1, 1, 8));
    hear(audit, 0, refusing(doing(1, 1, 1, 8), 0, 2, ROOT));
    assert_int_equal(call(audit, 2 * DEAD).outcome, GYRE_AUDIT_FINE);
    hear(audit, 2 * DEAD, doing(0, 2, 1, 8));
    assert_int_equal(call(audit, 2 * DEAD + PATIENT - 1).outcome, GYRE_AUDIT_FINE);
    again.refused.stands = 0;
    hear(audit, 2 * DEAD + PATIENT - 1, again);
    assert_int_equal(call(audit, 3 * DEAD).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);

    audit = audit_of(2);
    alike = refusing(doing(0, 2, 1, 8), 0, 2, ROOT);
    alike.refused.stands = 0;
    hear(audit, 0, alike);
    hear(audit, 0, refusing(doing(1, 1, 1, 8), 0, 2, ROOT));
    assert_int_not_equal(call(audit, 2 * DEAD).outcome, GYRE_AUDIT_MISMATCH);
    alike.refused.why[0] = '?';
    hear(audit, 2 * DEAD, alike);
    assert_int_equal(call(audit, 2 * DEAD).outcome, GYRE_AUDIT_MISMATCH);
    gyre_audit_destroy(audit);
}

/* A rank that has gone on, and refuses another call, is waited for anew. */
static void test_another_refusal_has_a_time_of_its_own(void **state)
{
    struct gyre_call_audit *audit = audit_of(2);

    hear(audit, 0, doing(0, 3, 2, 8));
    hear(audit, 0, refusing(doing(1, 1, 1, 8), 0, 2, ROOT));
    hear(audit, GYRE_SECOND, refusing(doing(1, 2, 2, 8), 0, 3, ROOT));
    assert_int_equal(call(audit, GYRE_SECOND + PATIENT - 1).outcome, GYRE_AUDIT_FINE);
    struct gyre_audit_finding finding = call(audit, GYRE_SECOND + PATIENT + GYRE_SECOND / 2);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_non_null(strstr(finding.text, "has not called it again for 4.5 s"));
    gyre_audit_destroy(audit);
}

/* A root has got away with the call, and waits in the end of all calls. */
static void test_refused_call_that_others_have_left_is_told_at_the_end(void **state)
{
    struct gyre_call_audit *audit = audit_of(3);

    hear(audit, 0, parting(in_child(doing(1, 4, 4, 8), 8)));
    hear(audit, 0, refusing(also_in_child(doing(2, 8, 8, 8), 3), CHILD, 4, "no memory"));
    assert_int_equal(call(audit, PATIENT - 1).outcome, GYRE_AUDIT_FINE);
    struct gyre_audit_finding finding = call(audit, PATIENT + LOOK_AGAIN);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_non_null(strstr(finding.text,
                           "rank 2 could not call: no memory, and has not called it again for 4.1 "
                           "s, while rank 1 has called operation 4 of communicator 5 and waits in "
                           "gyre_finalize()"));
    hear(audit, DEAD, refusing(also_in_child(doing(2, 8, 8, 8), 4), CHILD, 5, "no memory"));
    assert_int_equal(call(audit, 3 * DEAD).outcome, GYRE_AUDIT_FINE);
    gyre_audit_destroy(audit);
}

/* Without a word about why, and at once; not for those who wait in what it called itself. */
static void test_rank_at_its_end_that_others_wait_for_is_told(void **state)
{
    struct gyre_call_audit *audit = audit_of(4);

    hear(audit, 0, in_child(doing(1, 4, 3, 1000), 8));
    hear(audit, 0, parting(also_in_child(doing(2, 9, 9, 1), 4)));
    hear(audit, 0, parting(doing(3, 9, 9, 1)));
    hear(audit, 0, doing(0, 9, 8, 1));
    assert_int_equal(call(audit, 1).outcome, GYRE_AUDIT_FINE);
    hear(audit, 0, in_child(doing(1, 5, 3, 1000), 8)); /* and still in 4 */
    struct gyre_audit_finding finding = call(audit, 1);
    assert_int_equal(finding.outcome, GYRE_AUDIT_LEFT);
    assert_int_equal(finding.rank, 2);
    assert_string_equal(finding.text,
                        "has left by gyre_finalize() after operation 4 of communicator 5, but rank "
                        "1 waits in operation 5 (all_reduce f32 sum, 1000 "
                        "elements): every rank must call the same operations in the same order");
    gyre_audit_destroy(audit);
}

/* Messages have no numbers in common: the other end's rank is what counts. */
static void test_refused_message_is_told_to_its_other_end(void **state)
{
    struct gyre_watch_state waits = doing(0, 9, 8, 8), refuses = doing(1, 3, 3, 8);
    struct gyre_call_audit *audit = audit_of(3);

    waits.comm = refuses.comm = GYRE_WATCH_POINT_TO_POINT;
    waits.signature = gyre_signature_pack(GYRE_SIGNATURE_RECV, GYRE_F32, GYRE_SUM, 2);
    refuses =
        refusing(refuses, GYRE_WATCH_POINT_TO_POINT, 4, "gyre_send: peer 3 is not a rank of 0 … 2");
    hear(audit, 0, waits);
    hear(audit, 0, refuses);
    assert_int_not_equal(call(audit, 2 * DEAD).outcome, GYRE_AUDIT_MISMATCH);
    waits.signature = gyre_signature_pack(GYRE_SIGNATURE_RECV, GYRE_F32, GYRE_SUM, 1);
    hear(audit, 2 * DEAD, waits);
    struct gyre_audit_finding finding = call(audit, 2 * DEAD);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_non_null(strstr(finding.text, "rank 1 refused gyre_send: peer 3 is not a rank of 0 … 2, "
                                         "and has not called it again for "));
    assert_non_null(strstr(finding.text, "while rank 0 waits in recv f32 from rank 1, 8 elements"));
    gyre_audit_destroy(audit);
}

static struct gyre_watch_state waiting_for_any(uint32_t rank, uint32_t tag)
{
    struct gyre_watch_state state = doing(rank, 9, 8, 8);
    state.comm = GYRE_WATCH_POINT_TO_POINT;
    state.signature =
        gyre_signature_message(GYRE_SIGNATURE_RECV, GYRE_F32, tag, GYRE_SIGNATURE_ANYONE);
    return state;
}

/* A receive from any rank waits for nobody in particular: no refusal of one rank ends it, and none
 * who computes. If all wait, none will be served. */
static void test_all_that_wait_for_any_are_told(void **state)
{
    struct gyre_call_audit *audit = audit_of(3);

    for (uint32_t rank = 0; rank < 2; rank++)
        hear(audit, 0, waiting_for_any(rank, 70000));
    hear(audit, 0,
         refusing(doing(2, 3, 3, 8), GYRE_WATCH_POINT_TO_POINT, 4, "gyre_send: peer 3 is no rank"));
    assert_int_not_equal(call(audit, 2 * DEAD).outcome, GYRE_AUDIT_MISMATCH);
    hear(audit, 2 * DEAD, waiting_for_any(2, 5));
    assert_int_not_equal(call(audit, 2 * DEAD + 1).outcome, GYRE_AUDIT_MISMATCH);
    struct gyre_audit_finding finding = call(audit, 4 * DEAD);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_string_equal(finding.text,
                        "rank 0 waits in recv f32 from any rank with tag 65535 or more, at most 8 "
                        "elements; rank 1 waits in recv f32 from any rank with tag 65535 or more, "
                        "at most 8 elements: all ranks wait, and nothing moves any more");
    gyre_audit_destroy(audit);
}

/* Each waits for the rank before it. */
static void test_a_circle_of_messages_is_told(void **state)
{
    struct gyre_call_audit *audit = audit_of(3);

    for (uint32_t rank = 0; rank < 3; rank++) {
        struct gyre_watch_state waits = doing(rank, 9, 8, 8);
        waits.comm = GYRE_WATCH_POINT_TO_POINT;
        waits.signature = gyre_signature_message(GYRE_SIGNATURE_RECV, GYRE_F32, 0, (rank + 2) % 3);
        hear(audit, 0, waits);
    }
    assert_int_not_equal(call(audit, DEAD).outcome, GYRE_AUDIT_MISMATCH);
    struct gyre_audit_finding finding = call(audit, 2 * DEAD);
    assert_int_equal(finding.outcome, GYRE_AUDIT_MISMATCH);
    assert_string_equal(finding.text,
                        "rank 0 waits in recv f32 from rank 2, 8 elements; rank 2 waits in recv "
                        "f32 from rank 1, 8 elements: all ranks wait, and nothing moves any more");
    gyre_audit_destroy(audit);
}

/* A call looks at 16 of many, the next goes on behind them. 256 calls have seen all, and have asked
 * the one; the next 256 see it again. */
static void test_one_refused_call_behind_many_is_found(void **state)
{
    struct gyre_call_audit *audit = audit_of(4096);
    bool found = false;

    hear(audit, 0, doing(4095, 2, 1, 8));
    for (uint32_t rank = 0; rank < 4095; rank++)
        hear(audit, 0, refusing(doing(rank, 1, 1, 8), rank == 4090 ? 0 : 1, 2, ROOT));
    for (uint64_t look = 0; !found && look < 2 * 4096 / 16; look++)
        found = call(audit, PATIENT + look * LOOK_AGAIN).outcome == GYRE_AUDIT_MISMATCH;
    assert_true(found);
    gyre_audit_destroy(audit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_call_that_others_wait_in_is_told),
        cmocka_unit_test(test_refused_call_is_told_when_both_have_answered),
        cmocka_unit_test(test_refused_call_that_harms_nobody_is_fine),
        cmocka_unit_test(test_another_refusal_has_a_time_of_its_own),
        cmocka_unit_test(test_refused_call_that_others_have_left_is_told_at_the_end),
        cmocka_unit_test(test_rank_at_its_end_that_others_wait_for_is_told),
        cmocka_unit_test(test_refused_message_is_told_to_its_other_end),
        cmocka_unit_test(test_all_that_wait_for_any_are_told),
        cmocka_unit_test(test_a_circle_of_messages_is_told),
        cmocka_unit_test(test_one_refused_call_behind_many_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
