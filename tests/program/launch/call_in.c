/* `gyre run --join`: a launcher that is started by hand, whose ranks join a job that runs: where
 * the launchers of several nodes have met, on one machine, and over --hosts. A stand-in for ssh
 * runs what it is told on this machine, without the user's key. */
#include "base/port.h"
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOREVER "100000000" /* epochs */
#define TRAINING                                                                                   \
    rig_tool(), "train", "--preset", "wine", "--elastic", "1", "--epochs", FOREVER, "--test",      \
        "none", "--quiet"

static struct rig node[2], caller;
static char port[16];

static void start_nodes(void)
{
    for (int i = 0; i < 2; i++)
        rig_start(&node[i], WORDS("--nnodes", "2", "--node-rank", i ? "1" : "0", "--master-addr",
                                  "127.0.0.1", "--master-port", port, "--job", "night7", "-n", "1",
                                  "--elastic", "1:4", TRAINING));
}

/* Waits for a line that was not waited for before. */
static void wait_for_next(const char *line)
{
    rig_wait_for(&node[0], line);
    memset(strstr(node[0].out_text, line), 'X', strlen(line));
}

static void ranks_call_in_and_leave(void **state)
{
    char endpoint[32];
    (void)state;
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", port);
    start_nodes();
    rig_start(&caller, WORDS("--join", "--rdzv-endpoint", endpoint, "--rdzv-id", "night7", "-n",
                             "2", "--elastic", "1:4", TRAINING));
    wait_for_next("4 ranks go on from step");
    rig_signal(&caller, SIGHUP);
    rig_wait_end(&caller);
    assert_int_equal(caller.code, 0);
    wait_for_next("let go ");
    wait_for_next("2 ranks go on from step");
    for (int i = 0; i < 2; i++)
        rig_signal(&node[i], SIGTERM);
    for (int i = 0; i < 2; i++) {
        rig_wait_end(&node[i]);
        rig_wait_lifeless(&node[i]);
        assert_false(rig_has(node[i].err_text, "lost"));
        rig_end(&node[i]);
    }
    rig_wait_lifeless(&caller);
    rig_end(&caller);
}

/* Has two ranks call into a job that node[0] has started with so many, and leave it again. */
static void call_and_leave(const char *job, const char *more)
{
    rig_start(&caller, WORDS("--join", "--master-addr", "127.0.0.1", "--master-port", port, "--job",
                             job, "-n", "2", "--elastic", "1:4", TRAINING));
    wait_for_next(more);
    rig_signal(&caller, SIGHUP);
    rig_wait_end(&caller);
    assert_int_equal(caller.code, 0);
    wait_for_next("let go ");
    rig_signal(&node[0], SIGTERM);
    rig_wait_end(&node[0]);
    assert_false(rig_has(node[0].err_text, "lost"));
    rig_wait_lifeless(&caller);
    rig_wait_lifeless(&node[0]);
    rig_end(&caller);
    rig_end(&node[0]);
}

static void a_job_of_one_machine_takes_callers(void **state)
{
    (void)state;
    rig_start(&node[0], WORDS("--master-port", port, "--job", "solo", "-n", "1", "--elastic", "1:4",
                              TRAINING));
    call_and_leave("solo", "3 ranks go on from step");
}

static void a_job_over_hosts_takes_callers(void **state)
{
    (void)state;
    rig_start(&node[0], WORDS("--hosts", "a:1,b:1", "--master-addr", "127.0.0.1", "--master-port",
                              port, "--job", "far", "--elastic", "1:4", TRAINING));
    call_and_leave("far", "4 ranks go on from step");
}

/* Rank 0 is not where it was: the user says where else there are ranks. */
static void a_caller_finds_a_rank_0_that_has_moved(void **state)
{
    (void)state;
    setenv("GYRE_ROOT_HOSTS", "127.0.0.3,127.0.0.1", 1);
    rig_start(&node[0], WORDS("--master-port", port, "--job", "moved", "-n", "1", "--elastic",
                              "1:4", TRAINING));
    rig_start(&caller, WORDS("--join", "--master-addr", "127.0.0.2", "--master-port", port, "--job",
                             "moved", "-n", "1", "--elastic", "1:4", TRAINING));
    unsetenv("GYRE_ROOT_HOSTS");
    wait_for_next("2 ranks go on from step");
    for (int i = 0; i < 2; i++)
        rig_signal(i ? &caller : &node[0], SIGTERM);
    for (int i = 0; i < 2; i++) {
        struct rig *rig = i ? &caller : &node[0];
        rig_wait_end(rig);
        rig_wait_lifeless(rig);
        rig_end(rig);
    }
}

/* A rank prints the key that its launcher has given it, and the port. */
#define SHOWS                                                                                      \
    SHELL("od -v -An -tx1 /proc/self/fd/$GYRE_KEY_FD | tr -d ' \\n'; echo; echo at $MASTER_PORT")

static void a_job_that_nobody_may_join_has_a_key_of_its_own(void **state)
{
    const char *users = getenv("GYRE_KEY");
    (void)state;
    rig_run(&caller, NULL, WORDS("--elastic", "1:4", SHOWS)); /* without a name */
    assert_int_equal(caller.code, 0);
    assert_true(rig_has(caller.out_text, "at ") && !rig_has(caller.out_text, users));
    rig_end(&caller);
    rig_run(&caller, NULL, WORDS("--job", "solo", SHOWS)); /* not elastic */
    assert_true(rig_has(caller.out_text, "at ") && !rig_has(caller.out_text, users));
    rig_end(&caller);
    rig_run(&caller, NULL, WORDS("--job", "solo", "--elastic", "1:4", SHOWS));
    assert_true(rig_has(caller.out_text, users));
    assert_true(rig_has(caller.out_text, "at 29500"));
    rig_end(&caller);
}

static void a_call_that_cannot_be_made_is_refused(void **state)
{
    (void)state;
    rig_run(&caller, NULL, WORDS("--join", "--master-addr", "a", "true"));
    rig_expect(&caller, 2, "--join wants --job and --master-addr");
    rig_end(&caller);
    rig_run(&caller, NULL, WORDS("--join", "--hosts", "a:1", "true"));
    rig_expect(&caller, 2, "--join starts ranks on this machine");
    rig_end(&caller);
    rig_run(&caller, NULL, WORDS("--nnodes", "1:2", "true"));
    rig_expect(&caller, 2,
               "--nnodes is \"1:2\": expected the number of nodes that begin; others come");
    rig_end(&caller);
    rig_run(&caller, NULL, WORDS("--rdzv-endpoint", "a", "true"));
    rig_expect(&caller, 2, "--rdzv-endpoint is \"a\": expected HOST:PORT");
    rig_end(&caller);
}

/* The stand-in for ssh. Hosts get the key from the launcher, and have none of their own. */
static int write_ssh(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/ssh", rig_folder());
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fputs("#!/bin/sh\nunset GYRE_KEY\nexport GYRE_KEY_FILE=/nowhere/key\nexec sh -c \"$2\"\n",
          file);
    setenv("GYRE_SSH", path, 1);
    return fclose(file) || chmod(path, 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_call_in_and_leave),
        cmocka_unit_test(a_job_of_one_machine_takes_callers),
        cmocka_unit_test(a_job_over_hosts_takes_callers),
        cmocka_unit_test(a_caller_finds_a_rank_0_that_has_moved),
        cmocka_unit_test(a_job_that_nobody_may_join_has_a_key_of_its_own),
        cmocka_unit_test(a_call_that_cannot_be_made_is_refused),
    };
    uint16_t free_port = 0;
    int keeper = gyre_port_reserve(&free_port);
    if (keeper < 0 || write_ssh())
        return 1;
    snprintf(port, sizeof port, "%u", free_port);
    setenv("GYRE_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    return cmocka_run_group_tests_name("gyre run --join", tests, NULL, NULL);
}
