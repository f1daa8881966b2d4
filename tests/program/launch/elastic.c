/* `gyre run --elastic` on one machine: which deaths a job survives, and what ranks and users are
 * told. (Launchers of several nodes: meet.c and hosts.c.) Ranks are lines of shell that end well on
 * SIGUSR1. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static struct rig rig;

#define WAITS "trap 'exit 0' USR1; echo ready; while :; do sleep 1 & wait; done"

static void start_three(const char *elastic)
{
    rig_start(&rig, WORDS("-n", "3", "--elastic", elastic, SHELL(WAITS)));
    for (int rank = 0; rank < 3; rank++) {
        char line[16];
        snprintf(line, sizeof line, "[%d] ready", rank);
        rig_wait_for(&rig, line);
    }
}

/* -- what is survived -------------------------------------------------------------------------- */

static void survivors_go_on(void **state)
{
    (void)state;
    start_three("1");
    rig_signal_rank(&rig, 1, SIGKILL);
    rig_wait_for(&rig, "gyre run: 2 of 3 ranks go on without rank 1 on ");
    rig_signal_rank(&rig, 0, SIGSEGV);
    rig_wait_for(&rig, "gyre run: 1 of 3 ranks go on without rank 0 on ");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    rig_expect(&rig, 0, "killed by signal 11 (SIGSEGV)");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void an_exit_code_is_a_loss_too(void **state)
{
    (void)state;
    rig_start(&rig, WORDS("-n", "2", "--elastic", "1",
                          SHELL("[ $RANK = 1 ] && { echo no disk >&2; exit 3; };" WAITS)));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "gyre run: 1 of 2 ranks go on without rank 1 on ");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    rig_expect(&rig, 0, ": exit code 3");
    assert_false(rig_has(rig_last_line(rig.err_text), "no disk")); /* it is the line above */
    rig_end(&rig);
}

/* Whoever has ended well is not missed. */
static void the_last_may_be_lost(void **state)
{
    (void)state;
    rig_start(&rig, WORDS("-n", "2", "--elastic", "1",
                          SHELL("[ $RANK = 0 ] && { echo ended; exit 0; };" WAITS)));
    rig_wait_for(&rig, "[0] ended");
    rig_wait_for(&rig, "[1] ready");
    rig_signal_rank(&rig, 1, SIGKILL);
    rig_wait_end(&rig);
    rig_expect(&rig, 0, "1 of 2 ranks go on without rank 1 on ");
    rig_end(&rig);
}

static void ranks_know_how_few_and_how_many(void **state)
{
    (void)state;
    setenv("GYRE_ELASTIC", "7:9", 1);
    rig_run(&rig, NULL, WORDS("-n", "2", "--elastic=2:5", SHELL("echo $GYRE_ELASTIC")));
    assert_int_equal(rig_count_lines(rig.out_text, "[1] 2:5"), 1);
    rig_end(&rig);
    rig_run(&rig, NULL,
            WORDS("--simulate-nodes", "2+1", "--elastic", "2", SHELL("echo $GYRE_ELASTIC")));
    assert_int_equal(rig_count_lines(rig.out_text, "[2] 2:3"), 1);
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("-n", "2", SHELL("echo ${GYRE_ELASTIC-none}")));
    unsetenv("GYRE_ELASTIC");
    assert_int_equal(rig_count_lines(rig.out_text, "[1] none"), 1);
    rig_end(&rig);
}

/* -- ranks that are started again -------------------------------------------------------------- */

/* A rank that can be told to end writes how often it was started; all starts but the first join. */
#define TELLS                                                                                      \
    "trap 'exit 0' USR1; echo start >>$0-$RANK; "                                                  \
    "echo \"ready ${GYRE_JOINING-first} $(wc -l <$0-$RANK)\";"

static const char *count_file(void)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/starts", rig_folder());
    return path;
}

static void forget_starts(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -f %s-*", count_file());
    assert_int_equal(system(command), 0);
}

static void start_replaced(const char *pause, const char *script)
{
    forget_starts();
    rig_start(&rig, WORDS("-n", "3", "--elastic", "2", "--restarts", "2", "--restart-pause", pause,
                          SHELL(script), count_file()));
}

static void a_lost_rank_is_started_again(void **state)
{
    (void)state;
    setenv("GYRE_JOINING", "1", 1); /* of a job around this one */
    start_replaced("10ms", TELLS WAITS);
    unsetenv("GYRE_JOINING");
    for (int rank = 0; rank < 3; rank++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] ready first 1", rank);
        rig_wait_for(&rig, line);
    }
    rig_signal_rank(&rig, 1, SIGKILL);
    rig_wait_for(&rig, "gyre run: 2 of 3 ranks go on without rank 1 on ");
    rig_wait_for(&rig, "killed by signal 9 (SIGKILL); restart 1 of 2 in 0.01 s");
    rig_wait_for(&rig, "is started again (restart 1 of 2); 3 of 3 ranks");
    rig_wait_for(&rig, "[1] ready 1 2");
    rig_signal_rank(&rig, 1, SIGKILL); /* the same place: a longer pause */
    rig_wait_for(&rig, "; restart 2 of 2 in 0.02 s");
    rig_wait_for(&rig, "[1] ready 1 3");
    rig_signal_rank(&rig, 0, SIGKILL); /* no restart is left, and two ranks are enough */
    rig_wait_for(&rig, "gyre run: 2 of 3 ranks go on without rank 0 on ");
    rig_signal_rank(&rig, 2, SIGKILL);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGKILL,
               "gyre run: 1 of 3 ranks is left, and --elastic needs 2, with no restart left; lost "
               "first: rank 1 on ");
    assert_int_equal(rig_count_lines(rig.out_text, "[0] ready 1 2"), 0);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* Fewer than MIN go on while one is to come, and all end well. */
static void too_few_wait_for_those_that_come(void **state)
{
    (void)state;
    start_replaced("2s", TELLS WAITS);
    for (int rank = 0; rank < 3; rank++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] ready first 1", rank);
        rig_wait_for(&rig, line);
    }
    rig_signal_rank(&rig, 0, SIGKILL);
    rig_signal_rank(&rig, 2, SIGKILL);
    rig_wait_for(&rig, "[0] ready 1 2");
    rig_wait_for(&rig, "[2] ready 1 2");
    rig_wait_for(&rig, "(restart 2 of 2); 3 of 3 ranks");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* A rank that was used wrongly is not started again, and one that nobody is left for neither. */
static void who_is_not_started_again(void **state)
{
    (void)state;
    start_replaced("0", TELLS "[ $RANK = 1 ] && exit 2;" WAITS);
    rig_wait_for(&rig, "gyre run: 2 of 3 ranks go on without rank 1 on ");
    assert_false(rig_has(rig.err_text, "restart"));
    rig_wait_for(&rig, "[0] ready first 1");
    rig_wait_for(&rig, "[2] ready first 1");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    rig_end(&rig);
    start_replaced("1h", TELLS "[ $RANK = 1 ] && exit 1;" WAITS);
    rig_wait_for(&rig, "; restart 1 of 2 in 3600 s");
    rig_wait_for(&rig, "[0] ready first 1");
    rig_wait_for(&rig, "[2] ready first 1");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0); /* at once: those that were left have ended well */
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* Nobody is left whom a newcomer could join: the job begins anew. */
static void a_job_without_ranks_begins_anew(void **state)
{
    (void)state;
    forget_starts();
    rig_run(&rig, NULL,
            WORDS("-n", "1", "--elastic", "1", "--restarts", "1", "--restart-pause", "0",
                  SHELL(TELLS "[ $GYRE_EPOCH = 1 ] || kill -9 $$"), count_file()));
    rig_expect(&rig, 0, "gyre run: restart 1 of 1: 0 of 1 ranks are left, and --elastic needs 1");
    assert_int_equal(rig_count_lines(rig.out_text, "[0] ready first 2"), 1);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* -- what is not ------------------------------------------------------------------------------- */

/* The first that was lost is named, and its exit code is the launcher's. */
static void too_few_are_ended(void **state)
{
    (void)state;
    start_three("2");
    rig_signal_rank(&rig, 2, SIGSEGV);
    rig_wait_for(&rig, "gyre run: 2 of 3 ranks go on without rank 2 on ");
    rig_signal_rank(&rig, 0, SIGKILL);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGSEGV,
               "gyre run: 1 of 3 ranks is left, and --elastic needs 2; lost first: rank 2 on ");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_signal_ends_it(void **state)
{
    (void)state;
    start_three("1");
    rig_signal_rank(&rig, 2, SIGKILL);
    rig_wait_for(&rig, "gyre run: 2 of 3 ranks go on without rank 2 on ");
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGTERM, "ended by signal 15 (SIGTERM)");
    assert_false(rig_has(rig.err_text, "1 of 3 ranks"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_missing_program_is_no_loss(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("-n", "3", "--elastic", "1", "./no-such-program"));
    rig_expect(&rig, 127, "cannot start './no-such-program'");
    assert_false(rig_has(rig.err_text, "go on without"));
    rig_end(&rig);
}

static void what_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *elastic, *told;
    } row[] = {{"0", "--elastic is \"0\": expected MIN or MIN:MAX, such as 2:4"},
               {"few", "--elastic is \"few\": expected MIN or MIN:MAX, such as 2:4"},
               {"2:", "--elastic is \"2:\": expected MIN or MIN:MAX, such as 2:4"},
               {"3", "--elastic 3:2 does not fit the job's 2 ranks"},
               {"1:1", "--elastic 1:1 does not fit the job's 2 ranks"}};
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        rig_run(&rig, NULL, WORDS("-n", "2", "--elastic", row[i].elastic, "true"));
        rig_expect(&rig, 2, row[i].told);
        rig_end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(an_exit_code_is_a_loss_too),
        cmocka_unit_test(the_last_may_be_lost),
        cmocka_unit_test(ranks_know_how_few_and_how_many),
        cmocka_unit_test(a_lost_rank_is_started_again),
        cmocka_unit_test(too_few_wait_for_those_that_come),
        cmocka_unit_test(who_is_not_started_again),
        cmocka_unit_test(a_job_without_ranks_begins_anew),
        cmocka_unit_test(too_few_are_ended),
        cmocka_unit_test(a_signal_ends_it),
        cmocka_unit_test(a_missing_program_is_no_loss),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("gyre run --elastic", tests, NULL, NULL);
}
