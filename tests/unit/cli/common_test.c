/* What every command asks of the environment: the job around it. The rest of common.c is tested by
 * tests/program/cli/cli.c. */
#include "cli/common.h"
#include "rig/test.h"

#include <stdlib.h>

static const char *const words[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

static int job_around(const char *const value[4], char launcher[32])
{
    clearenv();
    for (int i = 0; i < 4; i++)
        if (value[i])
            setenv(words[i], value[i], 1);
    launcher[0] = 0;
    return gyre_cli_job_around(launcher);
}

/* Nobody's job, and words that tell none, are no job. */
static void a_launcher_is_known_by_its_words(void **state)
{
    char launcher[32];
    (void)state;
    assert_int_equal(job_around((const char *const[4]){"1", "3", "127.0.0.1", "9"}, launcher), 3);
    assert_string_not_equal(launcher, "");
    assert_int_equal(job_around((const char *const[4]){NULL}, launcher), 0);
    assert_string_equal(launcher, "");
    assert_int_equal(job_around((const char *const[4]){"4", "3", "127.0.0.1", "9"}, launcher), 0);
    assert_string_equal(launcher, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launcher_is_known_by_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
