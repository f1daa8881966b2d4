/* `gyre run` on one machine: real processes, real signals. Ranks are lines of shell. */
#include "rig/launch_rig.h"

#include "base/clock.h"
#include "base/log.h"
#include "rig/sanitized.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rig rig;

/* --- places ----------------------------------------------------------------------------------- */

static void ranks_find_their_place(void **state)
{
    (void)state;
    rig_run(
        &rig, NULL,
        WORDS(
            "-n", "3",
            SHELL("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR")));
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "[0] 0/3 0/3 0 127.0.0.1"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[1] 1/3 1/3 0 127.0.0.1"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[2] 2/3 2/3 0 127.0.0.1"), 1);
    assert_string_equal(rig.err_text, "");
    rig_end(&rig);
}

static void simulated_nodes_may_differ_in_size(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            WORDS("--simulate_nodes=4+2", "--no-prefix",
                  SHELL("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                        "$NODE_RANK=$GYRE_SIMULATED_NODE")));
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "0/6 0/4 0=0"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "3/6 3/4 0=0"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "4/6 0/2 1=1"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "5/6 1/2 1=1"), 1);
    rig_end(&rig);
}

/* All ranks hold the same 32 bytes, each through a descriptor of its own, and nothing readable
 * shows them. */
static void the_key_is_shared_and_hidden(void **state)
{
    char first[128];
    (void)state;
    for (int run = 0; run < 2; run++) {
        rig_run(
            &rig, NULL,
            WORDS("-n", "2", "--no-prefix",
                  SHELL("k=$(od -An -v -tx1 /proc/self/fd/$GYRE_KEY_FD | tr -d ' \\n'); echo $k;"
                        "env | grep -c $k; tr '\\0' ' ' </proc/$PPID/cmdline | grep -c $k; true")));
        assert_int_equal(rig_count_lines(rig.out_text, "0"), 4);
        assert_int_equal(strspn(rig_last_line(rig.out_text), "0"), 1);
        char *key = strtok(rig.out_text, "\n");
        while (key && strlen(key) != 64)
            key = strtok(NULL, "\n");
        assert_non_null(key);
        if (run)
            assert_string_not_equal(first, key);
        snprintf(first, sizeof first, "%s", key);
        for (char *other = strtok(NULL, "\n"); other; other = strtok(NULL, "\n"))
            if (strlen(other) == 64)
                assert_string_equal(other, key);
        rig_end(&rig);
    }
}

/* From 32768 on the kernel gives ports to anybody who connects, also between the launcher's choice
 * and rank 0's listen(). */
static void the_port_is_none_that_the_kernel_gives_away(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            WORDS("-n", "2", "--no-prefix",
                  SHELL("[ $MASTER_PORT -ge 20000 ] && [ $MASTER_PORT -lt 32000 ] && echo below")));
    assert_int_equal(rig_count_lines(rig.out_text, "below"), 2);
    rig_end(&rig);
}

static void threads_are_shared_out_unless_given(void **state)
{
    (void)state;
    unsetenv("OMP_NUM_THREADS");
    setenv("MKL_NUM_THREADS", "7", 1);
    rig_run(&rig, NULL,
            WORDS("-n", "64", "--no-prefix", SHELL("echo $OMP_NUM_THREADS $MKL_NUM_THREADS")));
    unsetenv("MKL_NUM_THREADS");
    if (sysconf(_SC_NPROCESSORS_ONLN) < 128)
        assert_int_equal(rig_count_lines(rig.out_text, "1 7"), 64);
    rig_end(&rig);
}

static void binding_gives_each_rank_cores_of_its_own(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            WORDS("-n", "2", "--bind", "--no-prefix",
                  SHELL("grep Cpus_allowed_list /proc/self/status")));
    assert_int_equal(rig.code, 0);
    char *one = strtok(rig.out_text, "\n"), *other = strtok(NULL, "\n");
    assert_non_null(other);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
        assert_string_not_equal(one, other);
    else
        assert_string_equal(one, other);
    rig_end(&rig);
}

/* --- output and input ------------------------------------------------------------------------- */

static void lines_stay_whole(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            WORDS("-n", "4",
                  SHELL("i=0; while [ $i -lt 200 ]; do printf 'a%s' $RANK; printf 'b%s\\n' $RANK; "
                        "i=$((i+1)); done")));
    assert_int_equal(rig.code, 0);
    for (int rank = 0; rank < 4; rank++) {
        char line[32];
        snprintf(line, sizeof line, "[%d] a%db%d", rank, rank, rank);
        assert_int_equal(rig_count_lines(rig.out_text, line), 200);
    }
    assert_int_equal(rig.out_length, 4 * 200 * strlen("[0] a0b0\n"));
    rig_end(&rig);
}

static void a_last_line_without_newline_is_not_lost(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("-n", "2", SHELL("printf end >&2; printf end")));
    assert_int_equal(rig_count_lines(rig.out_text, "[0] end"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[1] end"), 1);
    assert_int_equal(rig_count_lines(rig.err_text, "[1] end"), 1);
    rig_end(&rig);
}

static void input_goes_to_rank_0(void **state)
{
    (void)state;
    rig_run(&rig, "hello\n",
            WORDS("-n", "3", SHELL("if [ $RANK = 0 ]; then cat; else readlink /proc/$$/fd/0; fi")));
    assert_int_equal(rig_count_lines(rig.out_text, "[0] hello"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[1] /dev/null"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[2] /dev/null"), 1);
    rig_end(&rig);
}

static void logs_hold_what_each_rank_wrote(void **state)
{
    char folder[128], command[512];
    (void)state;
    snprintf(folder, sizeof folder, "%s/logs/deep", rig_folder());
    rig_run(&rig, NULL,
            WORDS("-n", "2", "--log-dir", folder, SHELL("printf out$RANK; printf err$RANK >&2")));
    assert_int_equal(rig.code, 0);
    snprintf(command, sizeof command, "test $(cat %s/rank-1.out)$(cat %s/rank-0.err) = out1err0",
             folder, folder);
    assert_int_equal(system(command), 0);
    rig_end(&rig);
}

/* Ranks that write faster than anybody reads must not make the launcher forget its signals. */
static void a_stuck_reader_does_not_block_signals(void **state)
{
    (void)state;
    rig_start_endless(&rig, WORDS("-n", "2", SHELL("echo ready >&2; exec yes")));
    rig_wait_for(&rig, "[0] ready");
    int kept = rig.out, held = 0;
    rig.out = -1; /* not read any more */
    while (held < 64 * 1024 - 4096)
        assert_int_equal(ioctl(kept, FIONREAD, &held), 0);
    rig_signal(&rig, SIGTERM);
    rig_wait_for(&rig, "ended by signal 15");
    rig_signal(&rig, SIGINT); /* nor do we want the rest */
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 128 + SIGTERM);
    rig_wait_lifeless(&rig);
    close(kept);
    rig_end(&rig);
}

static void a_reader_that_leaves_ends_the_job(void **state)
{
    (void)state;
    rig_start(&rig, WORDS("-n", "2", SHELL("[ $RANK = 0 ] && exec sleep 1000; exec yes")));
    rig_wait_for(&rig, "[1] y");
    close(rig.out);
    rig.out = -1;
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGPIPE, "nobody reads the output any more");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* The launcher raises its own limit only: 30 ranks are over 90 descriptors. A build that counts
 * lines opens its counters before a rank starts, at the lower limit, and complains of each. */
static void many_ranks_need_no_higher_limit(void **state)
{
    struct rlimit limit;
    (void)state;
#ifdef SANITIZED
    skip();
#endif
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, limit.rlim_max}), 0);
    rig_run(&rig, NULL, WORDS("-n", "30", SHELL("ulimit -n")));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "[29] 64"), 1);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* --- failures --------------------------------------------------------------------------------- */

static void the_first_failure_is_named(void **state)
{
    char expected[256];
    (void)state;
    rig_run(&rig, NULL,
            WORDS("-n", "3",
                  SHELL("[ $RANK = 1 ] && { echo disk full >&2; exit 7; }; exec sleep 1000")));
    snprintf(expected, sizeof expected, "gyre run: rank 1 on %s failed first: exit code 7\n",
             gyre_host_name());
    rig_expect(&rig, 7, "failed first");
    assert_true(rig_has(rig.err_text, "[1] disk full\n"));
    assert_true(rig_has(rig.err_text, expected));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* Whole, however long, where other lines came after it; not again where it still stands there. Rank
 * 0 writes when it is asked to end, so behind rank 1's message. */
static void the_last_message_is_told_once(void **state)
{
    static const struct {
        const char *others, *ends;
    } scenes[] = {{"0", "exit code 7\n"}, {"5", "exit code 7\n"}, {"40", "word 99 END\n"}};
    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        rig_run(&rig, NULL,
                WORDS("-n", "2",
                      SHELL("if [ $RANK = 1 ]; then for w in $(seq 99); do m=\"$m word $w\"; done;"
                            "echo $m END >&2; exit 7; fi;"
                            "trap 'for i in $(seq $0); do echo $i >&2; done; exit' TERM;"
                            "sleep 1000 & wait"),
                      scenes[i].others));
        assert_int_equal(rig.code, 7);
        const char *report = strstr(rig.err_text, "gyre run: rank 1 on ");
        assert_non_null(report);
        assert_string_equal(report + strlen(report) - strlen(scenes[i].ends), scenes[i].ends);
        assert_int_equal(strstr(report, "message: word 1 word 2 word 3 ") != NULL, i == 2);
        rig_end(&rig);
    }
}

/* Equal failures of the tool's own ranks are one line; of many different ones the first are shown
 * and the others counted. */
static void failures_of_the_tool_are_no_wall(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("-n", "4", SHELL("echo gyre train: no such file >&2; exit 1")));
    rig_expect(&rig, 1, " failed alike: exit code 1");
    assert_ptr_equal(strstr(strstr(rig.err_text, "no such file") + 1, "no such file"), NULL);
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("-n", "12", SHELL("echo gyre train: no file $RANK >&2; exit 1")));
    rig_expect(&rig, 1, " (4 more failures are not shown; --log-dir FOLDER keeps all)");
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("-n", "4", SHELL("echo mine: no such file >&2; exit 1")));
    for (int rank = 0; rank < 4; rank++) {
        char line[64];
        snprintf(line, sizeof line, "[%d] mine: no such file", rank);
        assert_int_equal(rig_count_lines(rig.err_text, line), 1);
    }
    rig_end(&rig);
}

/* The launcher hears of some end first, which says nothing where all refuse the same thing. */
static void what_all_ranks_refuse_is_told_as_theirs(void **state)
{
    char expected[256];
    (void)state;
    rig_run(&rig, NULL, WORDS("-n", "3", SHELL("[ $RANK = 0 ] && echo no such word >&2; exit 2")));
    snprintf(expected, sizeof expected,
             "[0] no such word\ngyre run: all 3 ranks on %s failed alike: exit code 2\n",
             gyre_host_name());
    assert_int_equal(rig.code, 2);
    assert_string_equal(rig.err_text, expected);
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("-n", "3", SHELL("echo $RANK >&2; exit 2")));
    rig_expect(&rig, 2, "failed first: exit code 2");
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("-n", "2", SHELL("exit $((RANK + 2))")));
    rig_expect(&rig, rig.code, "failed first: exit code ");
    rig_end(&rig);
}

static void a_signal_is_named(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("-n", "3", SHELL("[ $RANK = 2 ] && kill -SEGV $$; exec sleep 1000")));
    rig_expect(&rig, 128 + SIGSEGV, "failed first: killed by signal 11 (SIGSEGV)");
    rig_end(&rig);
}

/* The others get a moment to tell what they saw; what they exit with changes nothing. Rank 0 blocks
 * in opening a named pipe until rank 1 is about to die. */
static void an_echo_is_heard_but_not_blamed(void **state)
{
    char fifo[128];
    (void)state;
    snprintf(fifo, sizeof fifo, "%s/fifo", rig_folder());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    rig_run(&rig, NULL,
            WORDS("-n", "2",
                  SHELL("if [ $RANK = 1 ]; then exec 3>$0; kill -9 $$; fi;"
                        "exec 3<$0; cat <&3; echo rank 1 is lost >&2; exit 3"),
                  fifo));
    rig_expect(&rig, 128 + SIGKILL, "rank 1 on ");
    assert_int_equal(rig_count_lines(rig.err_text, "[0] rank 1 is lost"), 1);
    rig_end(&rig);
}

static void a_missing_program_is_reported_once(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("-n", "4", "./no-such-program"));
    rig_expect(&rig, 127, "cannot start './no-such-program'");
    assert_true(strchr(rig.err_text, '\n') == rig.err_text + rig.err_length - 1);
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("-n", "2", "no-such-program"));
    rig_expect(&rig, 127, "in PATH");
    rig_end(&rig);
    rig_run(&rig, NULL, WORDS("-n", "2", "/tmp"));
    rig_expect(&rig, 126, "cannot start '/tmp'");
    rig_end(&rig);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void a_signal_is_passed_on(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    static const char *const names[] = {"SIGTERM", "SIGINT", "SIGHUP"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        rig_start(&rig, WORDS("-n", "2",
                              SHELL("trap 'echo bye; exit 0' TERM INT HUP; echo ready;"
                                    "while :; do sleep 1 & wait; done")));
        rig_wait_for(&rig, "[0] ready");
        rig_wait_for(&rig, "[1] ready");
        rig_signal(&rig, numbers[i]);
        rig_wait_end(&rig);
        rig_expect(&rig, 128 + numbers[i], names[i]);
        assert_true(rig_has(rig.out_text, "[0] bye"));
        assert_true(rig_has(rig.out_text, "[1] bye"));
        rig_wait_lifeless(&rig);
        rig_end(&rig);
    }
}

/* A batch system's early warning: ranks may take their time. */
static void a_user_signal_is_only_passed_on(void **state)
{
    (void)state;
    rig_start(&rig, WORDS("-n", "2",
                          SHELL("trap 'echo heard; exit 0' USR1; echo ready;"
                                "while :; do sleep 1 & wait; done")));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[1] ready");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "[0] heard"));
    assert_true(rig_has(rig.out_text, "[1] heard"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_deaf_rank_is_killed_after_all(void **state)
{
    (void)state;
    rig_start(&rig, WORDS("-n", "2", SHELL("trap '' TERM; echo ready; while :; do sleep 1; done")));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[1] ready");
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 128 + SIGTERM);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* Interrupts twice. Returns how long the ranks outlived the second time. */
static uint64_t interrupt_twice(void)
{
    rig_start(
        &rig,
        WORDS("-n", "2",
              SHELL("trap 'echo got it' INT; echo ready; while :; do sleep 1000 & wait; done")));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[1] ready");
    rig_signal(&rig, SIGINT);
    rig_wait_for(&rig, "[1] got it");
    uint64_t before = gyre_now_ns();
    rig_signal(&rig, SIGINT);
    rig_wait_end(&rig);
    uint64_t took = gyre_now_ns() - before;
    assert_int_equal(rig.code, 128 + SIGINT);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    return took;
}

/* After 5 s they are killed anyway, so one trial has to be faster. A starved machine may take that
 * long for any one of them. */
static void a_second_interrupt_kills(void **state)
{
    int trials = 1;
    (void)state;
    while (interrupt_twice() > 4 * GYRE_SECOND)
        assert_in_range(++trials, 0, 6);
}

static void a_stop_stops_the_ranks_too(void **state)
{
    int status;
    char command[128];
    (void)state;
    rig_start(
        &rig,
        WORDS("-n", "1", "--no-prefix",
              SHELL("echo pid $$ ready; trap 'exit 5' TERM; while :; do sleep 1 & wait; done")));
    rig_wait_for(&rig, "ready");
    int pid = atoi(strstr(rig.out_text, "pid ") + 4);
    rig_signal(&rig, SIGTSTP);
    assert_int_equal(waitpid(rig.pid, &status, WUNTRACED), rig.pid);
    assert_true(WIFSTOPPED(status));
    snprintf(command, sizeof command, "until grep -q 'State:.T' /proc/%d/status; do :; done", pid);
    assert_int_equal(system(command), 0);
    rig_signal(&rig, SIGCONT);
    snprintf(command, sizeof command,
             "while grep -q 'State:.T' /proc/%d/status; do :; done; kill %d", pid, pid);
    assert_int_equal(system(command), 0);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 5);
    rig_end(&rig);
}

/* --- nothing is left behind ------------------------------------------------------------------- */

static void a_killed_launcher_leaves_no_orphan(void **state)
{
    (void)state;
    rig_start(
        &rig,
        WORDS("-n", "3",
              SHELL("trap '' TERM HUP; (trap '' TERM HUP; sleep 1000; :) & echo ready; wait")));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[1] ready");
    rig_wait_for(&rig, "[2] ready");
    rig_signal(&rig, SIGKILL);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* A grandchild that left the group survives, but the launcher's pipe tells it. */
static void a_killed_launcher_closes_its_pipe(void **state)
{
    (void)state;
    rig_start(
        &rig,
        WORDS("-n", "1",
              SHELL("setsid sh -c 'echo ready; cat /proc/self/fd/$GYRE_LAUNCHER_FD' & wait")));
    rig_wait_for(&rig, "[0] ready");
    rig_signal(&rig, SIGKILL);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void what_ranks_leave_running_is_ended(void **state)
{
    (void)state;
    rig_run(&rig, NULL, WORDS("-n", "2", SHELL("sleep 1000 & echo done")));
    assert_int_equal(rig.code, 0);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_find_their_place),
        cmocka_unit_test(simulated_nodes_may_differ_in_size),
        cmocka_unit_test(the_key_is_shared_and_hidden),
        cmocka_unit_test(the_port_is_none_that_the_kernel_gives_away),
        cmocka_unit_test(threads_are_shared_out_unless_given),
        cmocka_unit_test(binding_gives_each_rank_cores_of_its_own),
        cmocka_unit_test(lines_stay_whole),
        cmocka_unit_test(a_last_line_without_newline_is_not_lost),
        cmocka_unit_test(input_goes_to_rank_0),
        cmocka_unit_test(logs_hold_what_each_rank_wrote),
        cmocka_unit_test(a_stuck_reader_does_not_block_signals),
        cmocka_unit_test(a_reader_that_leaves_ends_the_job),
        cmocka_unit_test(many_ranks_need_no_higher_limit),
        cmocka_unit_test(the_first_failure_is_named),
        cmocka_unit_test(the_last_message_is_told_once),
        cmocka_unit_test(failures_of_the_tool_are_no_wall),
        cmocka_unit_test(what_all_ranks_refuse_is_told_as_theirs),
        cmocka_unit_test(a_signal_is_named),
        cmocka_unit_test(an_echo_is_heard_but_not_blamed),
        cmocka_unit_test(a_missing_program_is_reported_once),
        cmocka_unit_test(a_signal_is_passed_on),
        cmocka_unit_test(a_user_signal_is_only_passed_on),
        cmocka_unit_test(a_deaf_rank_is_killed_after_all),
        cmocka_unit_test(a_second_interrupt_kills),
        cmocka_unit_test(a_stop_stops_the_ranks_too),
        cmocka_unit_test(a_killed_launcher_leaves_no_orphan),
        cmocka_unit_test(a_killed_launcher_closes_its_pipe),
        cmocka_unit_test(what_ranks_leave_running_is_ended),
    };
    return cmocka_run_group_tests_name("gyre run", tests, NULL, NULL);
}
