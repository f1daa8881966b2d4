/* How the two ends of a verbs link part: each has said goodbye and heard the other's, what was sent
 * before has come, and an end that has heard only is not through. Two wires in this process, on the
 * stand-in for the library. */
#include "unit/transport/link/verbs/verbs_ends.h"
#include "rig/test.h"

static int part(struct ends *ends, int end)
{
    return gyre_driver_verbs.bye(ends->pipe[end]);
}

static void part_until(struct ends *ends, int end, int status)
{
    for (int turn = 0; turn < TURNS_MOST && part(ends, end) != status; turn++)
        ends_look(ends);
    assert_int_equal(part(ends, end), status);
}

static void both_ends_part(void **state)
{
    (void)state;
    ends_devices();
    struct ends *ends = ends_new("a", "a", "1", false);
    ends_carry(ends, 0, 100);
    assert_int_equal(part(ends, 0), GYRE_AGAIN);
    ends_look_often(ends);
    assert_int_equal(part(ends, 0), GYRE_AGAIN); /* the other has said nothing */
    part_until(ends, 1, 0);
    part_until(ends, 0, 0);
    ends_free(ends);
}

/* Sent before the goodbye, and posted for after it. */
static void what_was_sent_before_a_goodbye_comes(void **state)
{
    (void)state;
    ends_devices();
    struct ends *ends = ends_new("a+b", "a+b", "2", false);
    ends_send(ends, 0, 0, 1000);
    assert_int_equal(part(ends, 0), GYRE_AGAIN);
    ends_look_often(ends);
    ends_recv(ends, 1, 0, 1000);
    ends_until(ends, &ends->got[1][0]);
    assert_int_equal(ends->got[1][0], 0);
    ends_brought(1, 0, 1000);
    part_until(ends, 1, 0);
    part_until(ends, 0, 0);
    assert_int_equal(ends->sent[0][0], 0);
    ends_free(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_part),
        cmocka_unit_test(what_was_sent_before_a_goodbye_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
