/* `gyre run --join`: a launcher that is started by hand, whose ranks join a job that runs, where
 * the launchers of several nodes have met. */
#include "base/port.h"
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void a_call_that_cannot_be_made_is_refused(void **state)
{
    (void)state;
    rig_run(&caller, NULL, WORDS("--join", "--master-addr", "a", "true"));
    rig_expect(&caller, 2, "--join wants --job and --master-addr");
    rig_end(&caller);
    rig_run(&caller, NULL, WORDS("--join", "--hosts", "a:1", "true"));
    rig_expect(&caller, 2, "--join starts ranks on this machine");
    rig_end(&caller);
    rig_run(&caller, NULL, WORDS("--rdzv-endpoint", "a", "true"));
    rig_expect(&caller, 2, "--rdzv-endpoint is \"a\": expected HOST:PORT");
    rig_end(&caller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_call_in_and_leave),
        cmocka_unit_test(a_call_that_cannot_be_made_is_refused),
    };
    uint16_t free_port = 0;
    int keeper = gyre_port_reserve(&free_port);
    if (keeper < 0)
        return 1;
    snprintf(port, sizeof port, "%u", free_port);
    setenv("GYRE_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 1);
    return cmocka_run_group_tests_name("gyre run --join", tests, NULL, NULL);
}
