/* Two runs of --scaling, one behind the other: each begins with the signals that this process began
 * with, and so does what follows. The words, and what the ranks do: program/train/scaling.c. */
#include "cli/train/scaling_run.h"

#include "cli/common.h"
#include "cli/train/ranks.h"
#include "rig/test.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* In place of the ranks, in their process: 3, where a signal that would end them does not come. */
int gyre_cli_train_ranks(const struct gyre_cli_train_start *start,
                         const struct gyre_train_options *options, char **argv,
                         struct gyre_trouble *trouble)
{
    sigset_t blocked;
    (void)start, (void)options, (void)argv, (void)trouble;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    return sigismember(&blocked, SIGTERM) || sigismember(&blocked, SIGUSR1) ? 3 : 0;
}

int gyre_cli_fail(const char *command, int status, const struct gyre_trouble *trouble)
{
    (void)command, (void)trouble;
    return status;
}

static void each_run_begins_with_the_same_signals(void **state)
{
    const struct gyre_train_options options = {.epochs = 0};
    static sigset_t before, after; /* the kernel fills in only a part */
    (void)state;
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &before), 0);
    for (int i = 0; i < 2; i++) {
        struct gyre_scaling_run run = {.ranks = 2};
        struct gyre_trouble trouble = {0};
        char load[512], *argv[] = {NULL};
        if (gyre_cli_scaling_run(&run, "", &options, argv, load, &trouble))
            fail_msg("run %d: %s", i + 1, trouble.text);
    }
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_memory_equal(&after, &before, sizeof after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_run_begins_with_the_same_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
