/* `gyre run --hosts`: a stand-in for ssh runs what it is told on this machine and notes what could
 * be seen of it. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rig rig;

/* Writes the stand-in and makes it GYRE_SSH. `body` sees the host as $1 and the command as $2. */
static void stand_in(const char *body)
{
    char path[128];
    snprintf(path, sizeof path, "%s/ssh", rig_folder());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nhere=%s\n%s\n", rig_folder(), body);
    assert_int_equal(fclose(file) | chmod(path, 0700), 0);
    setenv("GYRE_SSH", path, 1);
}

static const char honest[] = "echo \"$@\" >>$here/seen; exec sh -c \"$2\"";

static void ranks_are_counted_over_the_hosts(void **state)
{
    (void)state;
    stand_in(honest);
    rig_run(&rig, NULL,
            WORDS("--hosts", "me@a:4,b:2",
                  SHELL("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK "
                        "$MASTER_ADDR; test -z \"$GYRE_SIMULATED_NODE\"")));
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "[0] 0/6 0/4 0 a"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[3] 3/6 3/4 0 a"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[4] 4/6 0/2 1 a"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[5] 5/6 1/2 1 a"), 1);
    rig_end(&rig);
}

static void hosts_share_job_port_and_key(void **state)
{
    (void)state;
    stand_in(honest);
    rig_run(
        &rig, NULL,
        WORDS("--hosts", "a,b", "-n", "1", "--no-prefix",
              SHELL("echo $GYRE_JOB $MASTER_PORT $(od -An -v -tx1 /proc/self/fd/$GYRE_KEY_FD)")));
    assert_int_equal(rig.code, 0);
    char *one = strtok(rig.out_text, "\n"), *other = strtok(NULL, "\n");
    assert_non_null(other);
    assert_string_equal(one, other);
    assert_true(strlen(one) > 32 + 1 + 4 + 1 + 64);
    rig_end(&rig);
}

/* Everything ssh gets as arguments can be listed by other users of both machines. */
static void the_key_is_not_in_the_command(void **state)
{
    char command[512];
    (void)state;
    stand_in(honest);
    rig_run(&rig, NULL,
            WORDS("--hosts", "a:1", "--no-prefix",
                  SHELL("od -An -v -tx1 /proc/self/fd/$GYRE_KEY_FD | tr -d ' \\n'")));
    const char *key = rig_last_line(rig.out_text);
    assert_int_equal(strlen(key), 64);
    snprintf(command, sizeof command, "test -s %s/seen && ! grep -q %s %s/seen", rig_folder(), key,
             rig_folder());
    assert_int_equal(system(command), 0);
    rig_end(&rig);
}

static void words_travel_as_they_are(void **state)
{
    (void)state;
    stand_in(honest);
    setenv("GYRE_LOG", "it's $HOME", 1);
    setenv("GYRE_KEY", "secret", 1);
    rig_run(&rig, NULL,
            WORDS("--hosts", "a:1",
                  SHELL("pwd; echo \"$GYRE_LOG\" \"${GYRE_KEY-none}\"; printf '%s|' \"$@\""),
                  "zero", "a b", "it's", "$HOME", "", "*"));
    unsetenv("GYRE_LOG");
    unsetenv("GYRE_KEY");
    char place[4096], line[4096 + 8];
    assert_non_null(getcwd(place, sizeof place));
    snprintf(line, sizeof line, "[0] %s", place);
    assert_int_equal(rig_count_lines(rig.out_text, line), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[0] it's $HOME none"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[0] a b|it's|$HOME||*|"), 1);
    rig_end(&rig);
}

/* The far rank's story is our last line, once, and its exit code is ours. */
static void a_far_failure_is_told_here(void **state)
{
    (void)state;
    stand_in(honest);
    rig_run(&rig, NULL,
            WORDS("--hosts", "a:2,b:2",
                  SHELL("[ $RANK = 3 ] && { echo no space >&2; exit 9; }; sleep 1000")));
    rig_expect(&rig, 9, "failed first: exit code 9");
    assert_int_equal(rig_count_lines(rig.err_text, "[3] no space"), 1);
    assert_false(rig_has(rig_last_line(rig.err_text), "no space"));
    rig_expect(&rig, 9, "gyre run: rank 3 on ");
    assert_false(rig_has(strstr(rig.err_text, "gyre run:") + 1, "gyre run:"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* Each start has its own ssh, and the launchers behind them are told how many there were. */
static void a_far_failure_starts_all_again(void **state)
{
    (void)state;
    stand_in(honest);
    rig_run(&rig, NULL,
            WORDS("--hosts", "a:1,b:1", "--restarts", "3", "--restart-pause", "0",
                  SHELL("echo start $GYRE_EPOCH of $TORCHELASTIC_MAX_RESTARTS;"
                        "[ $GYRE_EPOCH = 1 ] && exit 0; [ $RANK = 1 ] && exit 9; sleep 1000")));
    rig_expect(&rig, 0, "gyre run: restart 1 of 3: rank 1 on ");
    for (int rank = 0; rank < 2; rank++)
        for (int start = 0; start < 2; start++) {
            char line[32];
            snprintf(line, sizeof line, "[%d] start %d of 3", rank, start);
            assert_int_equal(rig_count_lines(rig.out_text, line), 1);
        }
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* A host may come back: ssh's own failure is one like any other. */
static void a_host_that_was_lost_may_come_back(void **state)
{
    (void)state;
    stand_in("[ $1 = b ] && mkdir $here/lost 2>/dev/null && { echo no route >&2; exit 255; }\n"
             "exec sh -c \"$2\"");
    rig_run(&rig, NULL,
            WORDS("--hosts", "a:1,b:1", "--restarts", "1", "--restart-pause", "0",
                  SHELL("[ $GYRE_EPOCH = 1 ] && exit 0; sleep 1000")));
    rig_expect(&rig, 0, "gyre run: restart 1 of 1: ssh to b failed first: exit code 255");
    rig_end(&rig);
}

#define WAITS "trap 'exit 0' USR1; echo ready; while :; do sleep 1 & wait; done"

/* Behind ssh a launcher tells each loss, and this one counts. */
static void losses_are_counted_over_the_hosts(void **state)
{
    (void)state;
    stand_in(honest);
    rig_start(&rig, WORDS("--hosts", "a:2,b:2", "--elastic", "2",
                          SHELL("[ $RANK = 1 ] && { echo no disk >&2; exit 3; };"
                                "[ $RANK = 3 ] && kill -9 $$;" WAITS)));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[2] ready");
    rig_wait_for(&rig, "gyre run: 3 of 4 ranks go on without rank ");
    rig_wait_for(&rig, "gyre run: 2 of 4 ranks go on without rank ");
    assert_int_equal(rig_count_lines(rig.out_text, "[1] ready"), 0);
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    assert_false(rig_has(rig.err_text, "lost"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    rig_run(&rig, NULL,
            WORDS("--hosts", "a:2,b:2", "--elastic", "3",
                  SHELL("[ $RANK = 1 ] || [ $RANK = 3 ] && kill -9 $$; exec sleep 1000")));
    rig_expect(&rig, 128 + SIGKILL,
               "gyre run: 2 of 4 ranks are left, and --elastic needs 3; lost first: rank ");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_lost_host_is_a_loss(void **state)
{
    (void)state;
    stand_in("[ $1 = b ] && { echo no route to b >&2; exit 255; }; exec sh -c \"$2\"");
    rig_start(&rig, WORDS("--hosts", "a:1,b:2", "--elastic", "1", SHELL(WAITS)));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig,
                 "gyre run: 1 of 3 ranks go on without 2 ranks behind ssh to b: exit code 255");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    rig_end(&rig);
}

/* Sends SIGKILL to what stands for ssh to that host; the stand-in has written its number. */
static void kill_ssh_to(const char *host)
{
    char path[128];
    int pid;
    snprintf(path, sizeof path, "%s/pid-%s", rig_folder(), host);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%d", &pid), 1);
    fclose(file);
    assert_int_equal(kill(pid, SIGKILL), 0);
}

/* A host that goes takes only those ranks with it that it has not told of before. */
static void no_rank_is_lost_twice(void **state)
{
    (void)state;
    stand_in("echo $$ >$here/pid-$1; exec sh -c \"$2\"");
    rig_start(&rig, WORDS("--hosts", "a:1,b:2", "--elastic", "1",
                          SHELL("[ $RANK = 2 ] && kill -9 $$;" WAITS)));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "gyre run: 2 of 3 ranks go on without rank 2 on ");
    kill_ssh_to("b");
    rig_wait_for(&rig, "gyre run: 1 of 3 ranks go on without 1 rank behind ssh to b: killed by ");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* This launcher decides, and those behind ssh wait for its word: a rank comes back, the next one
 * does not, and a launcher whose ranks are all lost for good ends. */
static void far_ranks_are_started_again(void **state)
{
    (void)state;
    stand_in(honest);
    rig_start(&rig, WORDS("--hosts", "a:2,b:1", "--elastic", "1", "--restarts", "1",
                          "--restart-pause", "0",
                          SHELL("echo come ${GYRE_JOINING-first} $RANK;"
                                "[ $RANK = 2 ] && kill -9 $$;" WAITS)));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[1] ready");
    rig_wait_for(&rig, "; restart 1 of 1");
    rig_wait_for(&rig, "is started again (restart 1 of 1); 3 of 3 ranks");
    rig_wait_for(&rig, "[2] come 1 2");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "[2] come first 2"), 1);
    assert_int_equal(rig_count_lines(rig.out_text, "[2] come 1 2"), 1);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* With the same key, and all its ranks join. */
static void a_lost_host_is_started_again(void **state)
{
    (void)state;
    stand_in("echo $$ >$here/pid-$1; exec sh -c \"$2\"");
    rig_start(&rig, WORDS("--hosts", "a:1,b:2", "--elastic", "1", "--restarts", "3",
                          "--restart-pause", "0",
                          SHELL("echo come ${GYRE_JOINING-first} "
                                "$(od -An -v -tx1 /proc/self/fd/$GYRE_KEY_FD | cksum);" WAITS)));
    for (int rank = 0; rank < 3; rank++) {
        char line[16];
        snprintf(line, sizeof line, "[%d] ready", rank);
        rig_wait_for(&rig, line);
    }
    kill_ssh_to("b");
    rig_wait_for(&rig, "gyre run: 1 of 3 ranks go on without 2 ranks behind ssh to b: killed by ");
    rig_wait_for(&rig, "gyre run: ssh to b is started again (restart 1 of 3); 3 of 3 ranks");
    rig_wait_for(&rig, "[1] come 1 ");
    rig_wait_for(&rig, "[2] come 1 ");
    const char *key = strstr(rig.out_text, "come first ") + strlen("come first ");
    char again[64];
    snprintf(again, sizeof again, "[2] come 1 %.*s", (int)strcspn(key, "\n"), key);
    assert_int_equal(rig_count_lines(rig.out_text, again), 1);
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGTERM, "ended by signal 15");
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void a_host_that_cannot_be_reached_is_named(void **state)
{
    (void)state;
    stand_in("[ $1 = b ] && { echo ssh: no route to b >&2; exit 255; }; exec sh -c \"$2\"");
    rig_run(&rig, NULL, WORDS("--hosts", "a:1,b:1", "sleep", "1000"));
    rig_expect(&rig, 255, "ssh to b failed first: exit code 255");
    assert_int_equal(rig_count_lines(rig.err_text, "ssh: no route to b"), 1);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void signals_reach_far_ranks(void **state)
{
    (void)state;
    stand_in(honest);
    rig_start(
        &rig,
        WORDS("--hosts", "a:1,b:1",
              SHELL("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 1 & wait; done")));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[1] ready");
    rig_signal(&rig, SIGTERM);
    rig_wait_end(&rig);
    rig_expect(&rig, 128 + SIGTERM, "ended by signal 15");
    assert_true(rig_has(rig.out_text, "[0] bye") && rig_has(rig.out_text, "[1] bye"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* The far launcher only sees its standard input end. */
static void far_ranks_end_with_this_launcher(void **state)
{
    (void)state;
    stand_in(honest);
    rig_start(&rig, WORDS("--hosts", "a:1,b:1", SHELL("echo ready; sleep 1000; :")));
    rig_wait_for(&rig, "[0] ready");
    rig_wait_for(&rig, "[1] ready");
    rig_signal(&rig, SIGKILL);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

static void this_machine_needs_no_ssh(void **state)
{
    (void)state;
    stand_in("exit 255");
    rig_run(&rig, NULL, WORDS("--hosts", "localhost:2", SHELL("echo $RANK/$WORLD_SIZE")));
    assert_int_equal(rig.code, 0);
    assert_int_equal(rig_count_lines(rig.out_text, "[1] 1/2"), 1);
    rig_end(&rig);
}

static void many_words(char *text, int words)
{
    int length = sprintf(text, "%s/ssh", rig_folder());
    for (int i = 1; i < words; i++)
        length += sprintf(text + length, " -o");
}

/* What is too much for GYRE_SSH is not cut: the rest of a command is another command. */
static void a_long_ssh_is_refused(void **state)
{
    char text[700];
    (void)state;
    stand_in("for at; do last=$at; done; exec sh -c \"$last\"");
    many_words(text, 16);
    setenv("GYRE_SSH", text, 1);
    rig_run(&rig, NULL, WORDS("--hosts", "a:1", SHELL("echo $RANK")));
    assert_int_equal(rig.code, 0);
    rig_end(&rig);
    many_words(text, 17);
    setenv("GYRE_SSH", text, 1);
    rig_run(&rig, NULL, WORDS("--hosts", "a:1", SHELL("echo $RANK")));
    rig_expect(&rig, 2, "GYRE_SSH has more than 16 words");
    rig_end(&rig);
    snprintf(text, sizeof text, "%s/ssh%500s", rig_folder(), "-v");
    setenv("GYRE_SSH", text, 1);
    rig_run(&rig, NULL, WORDS("--hosts", "a:1", SHELL("echo $RANK")));
    rig_expect(&rig, 2, "characters, at most 511 are allowed");
    rig_end(&rig);
    setenv("GYRE_SSH", " ", 1);
    rig_run(&rig, NULL, WORDS("--hosts", "a:1", SHELL("echo $RANK")));
    rig_expect(&rig, 2, "GYRE_SSH has blanks only");
    rig_end(&rig);
}

/* env(1) takes its words with '=' for variables. */
static void the_tool_may_lie_at_an_equals_sign(void **state)
{
    char place[512], copy[4096], out[512];
    (void)state;
    stand_in("unset GYRE_TERMINAL; exec sh -c \"$2\""); /* ssh carries no variables */
    snprintf(place, sizeof place, "%s/v=1", rig_folder());
    snprintf(out, sizeof out, "%s/out", rig_folder());
    snprintf(copy, sizeof copy,
             "mkdir '%s' && cp '%s' '%s/gyre' && GYRE_TERMINAL=/x '%s/gyre' run --hosts a:1 sh -c "
             "'echo it runs ${GYRE_TERMINAL-nowhere}' >'%s'",
             place, rig_tool(), place, place, out);
    assert_int_equal(system(copy), 0);
    snprintf(copy, sizeof copy, "grep -qx '\\[0\\] it runs nowhere' '%s'", out);
    assert_int_equal(system(copy), 0);
}

static void a_far_launcher_wants_its_key(void **state)
{
    (void)state;
    rig_run(&rig, "nonsense\n", WORDS("--node", "0", "-n", "1", "true"));
    rig_expect(&rig, 2, "--node expects the job's key on standard input");
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_counted_over_the_hosts),
        cmocka_unit_test(hosts_share_job_port_and_key),
        cmocka_unit_test(the_key_is_not_in_the_command),
        cmocka_unit_test(words_travel_as_they_are),
        cmocka_unit_test(a_far_failure_is_told_here),
        cmocka_unit_test(a_far_failure_starts_all_again),
        cmocka_unit_test(a_host_that_was_lost_may_come_back),
        cmocka_unit_test(losses_are_counted_over_the_hosts),
        cmocka_unit_test(a_lost_host_is_a_loss),
        cmocka_unit_test(no_rank_is_lost_twice),
        cmocka_unit_test(far_ranks_are_started_again),
        cmocka_unit_test(a_lost_host_is_started_again),
        cmocka_unit_test(a_host_that_cannot_be_reached_is_named),
        cmocka_unit_test(signals_reach_far_ranks),
        cmocka_unit_test(far_ranks_end_with_this_launcher),
        cmocka_unit_test(this_machine_needs_no_ssh),
        cmocka_unit_test(a_long_ssh_is_refused),
        cmocka_unit_test(the_tool_may_lie_at_an_equals_sign),
        cmocka_unit_test(a_far_launcher_wants_its_key),
    };
    return cmocka_run_group_tests_name("gyre run --hosts", tests, NULL, NULL);
}
