/* Names that nothing reads: each told once, with the knob that was meant. */
#include "knobs/knobs.h"
#include "knobs/strangers.h"

#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

static void expect_none(void)
{
    const char *told = gyre_stranger_next();
    if (told)
        fail_msg("told of a variable: %s", told);
}

static void expect_told(const char *text)
{
    const char *told = gyre_stranger_next();
    assert_non_null(told);
    assert_string_equal(told, text);
}

/* The environment is gone through once in a process, so all cases are one test. */
static void strangers_are_told_once(void **state)
{
    (void)state;
    clearenv();
    for (const struct gyre_knob *knob = gyre_knobs; knob->name; knob++)
        setenv(knob->name, "1", 1);
    setenv("GYRE_TEST_SLOW", "1", 1);
    setenv("GYRE_TEST_WHATEVER", "1", 1);
    setenv("GYRE_BENCH_PLANT", "element", 1);
    setenv("GYREX", "1", 1);
    setenv("gyre_algo", "1", 1);
    expect_none();
    setenv("GYRE_TRANSPRT", "tcp", 1);
    setenv("GYRE_KYE", "secret", 1);
    setenv("GYRE_UNHEARD_OF", "1", 1);
    expect_told("nothing reads GYRE_TRANSPRT (did you mean \"GYRE_TRANSPORT\"?)");
    expect_told("nothing reads GYRE_KYE (did you mean \"GYRE_KEY\"?)");
    expect_told("nothing reads GYRE_UNHEARD_OF; `gyre show env` lists what is read");
    expect_none();
    clearenv();
    expect_none();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_told_once),
    };
    return cmocka_run_group_tests_name("knobs/strangers", tests, NULL, NULL);
}
