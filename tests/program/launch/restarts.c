/* `gyre run --restarts` on one machine: which ends are followed by another start, and what ranks
 * and users are told. (Launchers of several nodes: meet.c and hosts.c.) Ranks are lines of
 * shell. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rig rig;

#define AT_ONCE "--restart-pause", "0"

/* -- another start ----------------------------------------------------------------------------- */

static void the_whole_job_is_started_again(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            WORDS("-n", "3", "--restarts", "2", AT_ONCE,
                  SHELL("echo start $GYRE_EPOCH; [ $RANK = 1 ] && kill -9 $$; exec sleep 1000")));
    rig_expect(&rig, 128 + SIGKILL, "killed by signal 9 (SIGKILL) (after 2 restarts)");
    for (int start = 0; start < 3; start++)
        for (int rank = 0; rank < 3; rank++) {
            char line[32];
            snprintf(line, sizeof line, "[%d] start %d", rank, start);
            assert_int_equal(rig_count_lines(rig.out_text, line), 1);
        }
    assert_true(rig_has(rig.err_text, "gyre run: restart 1 of 2: rank 1 on "));
    assert_true(rig_has(rig.err_text, "gyre run: restart 2 of 2: rank 1 on "));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_start_that_ends_well_is_the_last(void **state)
{
    (void)state;
    rig_run(
        &rig, NULL,
        WORDS("-n", "2", "--restarts", "5", AT_ONCE,
              SHELL("[ $GYRE_EPOCH = 2 ] && exit 0; [ $RANK = 0 ] && exit 3; exec sleep 1000")));
    rig_expect(&rig, 0, "restart 2 of 5: rank 0 on ");
    rig_end(&rig);
}

static void ranks_know_how_often(void **state)
{
    (void)state;
    setenv("TORCHELASTIC_RESTART_COUNT", "7", 1);
    rig_run(&rig, NULL,
            WORDS("--simulate-nodes", "1+1", "--max-restarts=2", AT_ONCE, "--no-prefix",
                  SHELL("echo $GYRE_EPOCH $TORCHELASTIC_RESTART_COUNT of "
                        "$TORCHELASTIC_MAX_RESTARTS; [ $GYRE_EPOCH = 8 ] || exit 1")));
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "7 7 of 9"), 2);
    assert_int_equal(rig_count_lines(rig.out_text, "8 8 of 9"), 2);
    rig_end(&rig);
}

static void pauses_grow(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("--restarts", "3", "--restart-pause", "10ms", SHELL("exit 1")));
    assert_int_equal(rig.code, 1);
    assert_true(rig_has(rig.err_text, "restart 1 of 3 in 0.01 s: "));
    assert_true(rig_has(rig.err_text, "restart 2 of 3 in 0.02 s: "));
    assert_true(rig_has(rig.err_text, "restart 3 of 3 in 0.04 s: "));
    rig_end(&rig);
}

/* Key, port and processes of one start are not those of the next. */
static void each_start_has_its_own_key(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            WORDS("--restarts", "1", AT_ONCE, "--no-prefix",
                  SHELL("od -An -v -tx1 /proc/self/fd/$GYRE_KEY_FD | tr -d ' \\n'; echo; exit 1")));
    char *one = strtok(rig.out_text, "\n"), *other = strtok(NULL, "\n");
    assert_non_null(other);
    assert_int_equal(strlen(one), 64);
    assert_string_not_equal(one, other);
    rig_end(&rig);
}

static void logs_go_on(void **state)
{
    char folder[128], command[512];
    (void)state;
    snprintf(folder, sizeof folder, "%s/logs", rig_folder());
    rig_run(&rig, NULL,
            WORDS("--restarts", "1", AT_ONCE, "--log-dir", folder,
                  SHELL("echo start $GYRE_EPOCH; exit 1")));
    rig_end(&rig);
    snprintf(command, sizeof command,
             "test \"$(cat %s/rank-0.out)\" = \"$(printf 'start 0\\nstart 1')\"", folder);
    assert_int_equal(system(command), 0);
}

/* -- no other start ---------------------------------------------------------------------------- */

static void wrong_use_is_not_repeated(void **state)
{
    static const char *const script[] = {"exit 2", "exit 126", "exit 127"};
    static const int code[] = {2, 126, 127};
    (void)state;
    for (int i = 0; i < 3; i++) {
        rig_run(&rig, NULL, WORDS("--restarts", "3", AT_ONCE, SHELL(script[i])));
        rig_expect(&rig, code[i], "failed first: exit code ");
        assert_false(rig_has(rig.err_text, "restart"));
        rig_end(&rig);
    }
    rig_run(&rig, NULL, WORDS("-n", "2", "--restarts", "3", AT_ONCE, "./no-such-program"));
    rig_expect(&rig, 127, "cannot start './no-such-program'");
    assert_false(rig_has(rig.err_text, "restart"));
    rig_end(&rig);
}

/* Also where a rank that was told to end says that it failed. */
static void a_signal_ends_the_job_for_good(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_start(&rig, WORDS("-n", "2", "--restarts", "3", AT_ONCE,
                              SHELL("trap 'exit 1' TERM INT; echo ready;"
                                    "while :; do sleep 1 & wait; done")));
        rig_wait_for(&rig, "[0] ready");
        rig_wait_for(&rig, "[1] ready");
        rig_signal(&rig, numbers[i]);
        rig_wait_end(&rig);
        rig_expect(&rig, 128 + numbers[i], "ended by signal ");
        assert_false(rig_has(rig.err_text, "restart"));
        rig_wait_lifeless(&rig);
        rig_end(&rig);
    }
}

/* Rank 0 fails, and rank 1 tells that the launcher has asked it to end. False: five seconds, which
 * the launcher gives it, were over before the signal, and the pause of an hour had begun. */
static bool signal_between_failure_and_end(void)
{
    static const char late[] = "restart 1 of 3 in 3600 s: ";
    rig_start(&rig, WORDS("-n", "2", "--restarts", "3", "--restart-pause", "1h",
                          SHELL("trap 'echo told >&2' TERM; [ $RANK = 0 ] && exit 5;"
                                "echo ready; while :; do sleep 1 & wait; done")));
    rig_wait_for_one(&rig, "[1] told", late);
    rig_signal(&rig, SIGINT);
    rig_wait_end(&rig);
    bool in_time = !rig_has(rig.err_text, late);
    if (in_time)
        rig_expect(&rig, 5, "rank 0 on ");
    else
        rig_expect(&rig, 128 + SIGINT, "ended by signal 2 (SIGINT)");
    rig_end(&rig);
    return in_time;
}

/* A batch system signals all processes of a job, and a rank may end before the launcher hears of
 * it. A launcher that forgot such a signal would stay in its pause for an hour. */
static void a_signal_after_the_failure_counts_too(void **state)
{
    (void)state;
    while (!signal_between_failure_and_end())
        print_message("this process stood still for five seconds: once more\n");
}

static void a_signal_ends_a_later_start(void **state)
{
    (void)state;
    rig_start(&rig, WORDS("--restarts", "3", AT_ONCE,
                          SHELL("[ $GYRE_EPOCH = 0 ] && exit 1; echo again; exec sleep 1000")));
    rig_wait_for(&rig, "again");
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGTERM, "ended by signal 15 (SIGTERM) (after 1 restart)");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_signal_ends_the_pause(void **state)
{
    (void)state;
    rig_start(&rig, WORDS("--restarts", "3", "--restart-pause", "1h", SHELL("exit 1")));
    rig_wait_for(&rig, "restart 1 of 3 in 3600 s: ");
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGTERM, "gyre run: ended by signal 15 (SIGTERM)");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("--restarts", "often", "true"));
    rig_expect(&rig, 2, "--restarts is \"often\"");
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("--restarts", "1", "--max-restarts", "2", "true"));
    rig_expect(&rig, 2, "exclude each other");
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("--restarts", "1", "--restart-pause", "2h", "true"));
    rig_expect(&rig, 2, "--restart-pause is \"2h\": expected at most an hour");
    rig_end(&rig);
    setenv("GYRE_EPOCH", "first", 1);
    rig_run(&rig, NULL, WORDS("true"));
    unsetenv("GYRE_EPOCH");
    rig_expect(&rig, 2, "GYRE_EPOCH is \"first\"");
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_whole_job_is_started_again),
        cmocka_unit_test(a_start_that_ends_well_is_the_last),
        cmocka_unit_test(ranks_know_how_often),
        cmocka_unit_test(pauses_grow),
        cmocka_unit_test(each_start_has_its_own_key),
        cmocka_unit_test(logs_go_on),
        cmocka_unit_test(wrong_use_is_not_repeated),
        cmocka_unit_test(a_signal_ends_the_job_for_good),
        cmocka_unit_test(a_signal_after_the_failure_counts_too),
        cmocka_unit_test(a_signal_ends_a_later_start),
        cmocka_unit_test(a_signal_ends_the_pause),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("gyre run --restarts", tests, NULL, NULL);
}
