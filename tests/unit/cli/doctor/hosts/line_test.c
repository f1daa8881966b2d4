/* Lines between the coordinator of a check-up and its agents: what is said is heard, however the
 * stream is cut, and nothing else. */
#include "rig/test.h"

#include "base/clock.h"
#include "cli/doctor/hosts/line.h"

#include <gyre/gyre.h>

#include <string.h>
#include <unistd.h>

static struct gyre_doctor_line here;
static int far[2]; /* what the other side reads, and writes */

static int open_lines(void **state)
{
    int out[2], in[2];
    (void)state;
    if (pipe(out) || pipe(in))
        return -1;
    gyre_doctor_line_open(&here, in[0], out[1]);
    far[0] = out[0];
    far[1] = in[1];
    return 0;
}

static int close_lines(void **state)
{
    (void)state;
    gyre_doctor_line_close(&here);
    close(far[0]);
    return close(far[1]);
}

static void assert_told(const char *text)
{
    char got[2 * GYRE_DOCTOR_LINE_MAX];
    ssize_t length = read(far[0], got, sizeof got);
    assert_int_equal(length, strlen(text));
    assert_memory_equal(got, text, strlen(text));
}

static void assert_heard(const char *text)
{
    char got[GYRE_DOCTOR_LINE_MAX];
    assert_int_equal(gyre_doctor_hear(&here, got, gyre_now_ns() + 60 * GYRE_SECOND), 0);
    assert_string_equal(got, text);
}

static void a_line_is_said_whole(void **state)
{
    char many[GYRE_DOCTOR_LINE_MAX + 100];
    (void)state;
    assert_true(gyre_doctor_say(&here, "rank %d is %s", 3, "here"));
    assert_told("rank 3 is here\n");
    assert_true(gyre_doctor_say(&here, "two\nlines"));
    assert_told("two lines\n");
    memset(many, 'm', sizeof many);
    many[sizeof many - 1] = '\0';
    assert_true(gyre_doctor_say(&here, "%s", many));
    many[GYRE_DOCTOR_LINE_MAX - 2] = '\n';
    many[GYRE_DOCTOR_LINE_MAX - 1] = '\0';
    assert_told(many);
}

static void lines_are_heard_one_by_one(void **state)
{
    char got[GYRE_DOCTOR_LINE_MAX];
    (void)state;
    assert_int_equal(write(far[1], "one\ntwo\nth", 10), 10);
    assert_heard("one");
    assert_true(gyre_doctor_has_line(&here));
    assert_heard("two");
    assert_false(gyre_doctor_has_line(&here));
    assert_int_equal(gyre_doctor_hear(&here, got, gyre_now_ns()), GYRE_TIMED_OUT);
    assert_int_equal(write(far[1], "ree\nno end", 10), 10);
    assert_heard("three");
    close(far[1]);
    far[1] = dup(far[0]); /* closed by close_lines() */
    assert_int_equal(gyre_doctor_hear(&here, got, gyre_now_ns() + 60 * GYRE_SECOND),
                     GYRE_PEER_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_is_said_whole, open_lines, close_lines),
        cmocka_unit_test_setup_teardown(lines_are_heard_one_by_one, open_lines, close_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
