/* gyre train stopped and gone on with by other ranks: at the end of an epoch and within one, with
 * the optimiser's state whole or in shards. Where ranks make one global batch together, every loss
 * is that of one rank that was never stopped. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MOST 40

static struct metrics alone, moved;

/* -- runs -------------------------------------------------------------------------------------- */

static void words_of(const char *word[WORDS_MOST], const char *ranks, const char *epochs,
                     const char *name, const char *const *task, const char *more)
{
    static char save[512], metrics[512];
    int n = 0;
    snprintf(save, sizeof save, "%s/%s", rig_folder(), name);
    snprintf(metrics, sizeof metrics, "%s/%s.metrics", rig_folder(), name);
    const char *own[] = {"train",   "--ranks",      ranks,   "--epochs", epochs,   "--save",
                         save,      "--metrics",    metrics, "--resume", "--tail", "once",
                         "--quiet", "--save-every", "1000",  NULL};
    for (int i = 0; own[i]; i++)
        word[n++] = own[i];
    for (int i = 0; task[i]; i++)
        word[n++] = task[i];
    word[n++] = more;
    word[n] = NULL;
}

static void train(const char *ranks, const char *epochs, const char *name, const char *const *task,
                  const char *more)
{
    const char *word[WORDS_MOST];
    words_of(word, ranks, epochs, name, task, more);
    expect_success(word);
}

/* Stops behind the ninth step or some later one. */
static void train_and_stop(const char *ranks, const char *epochs, const char *name,
                           const char *const *task, const char *more)
{
    const char *word[WORDS_MOST];
    words_of(word, ranks, epochs, name, task, more);
    const char *metrics = word[8];
    word[8] = in_folder("moved.pipe");
    int pipe = metrics_pipe(word[8]);
    rig_start(&rig, word);
    signal_behind(pipe, "\"step\":9,", SIGUSR1, metrics);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "stopped by a signal after step"));
    rig_end(&rig);
}

static void expect_one_ranks_losses(const char *what)
{
    char path[512];
    snprintf(path, sizeof path, "%s/moved.metrics", rig_folder());
    read_metrics(path, &moved);
    assert_int_equal(moved.steps, alone.steps);
    for (int s = 0; s < alone.steps; s++)
        if (!(fabs(moved.step[s] - alone.step[s]) <= 1e-6 * alone.step[s]))
            fail_msg("%s: step %d of %d has loss %.9g, alone %.9g", what, s + 1, alone.steps,
                     moved.step[s], alone.step[s]);
}

static void train_alone(const char *epochs, const char *const *task)
{
    char path[512];
    clean();
    train("1", epochs, "alone", task, NULL);
    snprintf(path, sizeof path, "%s/alone.metrics", rig_folder());
    read_metrics(path, &alone);
}

static void forget_moved(void)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf %s/moved*", rig_folder());
    assert_int_equal(system(command), 0);
}

/* -- at the end of an epoch -------------------------------------------------------------------- */

/* On 2 ranks, 3, 1 and 4; whole and in shards by turns. */
static void others_go_on_after_an_epoch(void **state)
{
    static const char *const task[] = {"--preset", "wine", "--global-batch", "32", NULL};
    (void)state;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    train_alone("4", task);
    for (int first = 0; first < 2; first++) {
        forget_moved();
        train("2", "1", "moved", task, first ? "--sharded" : NULL);
        train("3", "2", "moved", task, first ? NULL : "--sharded");
        train("1", "3", "moved", task, NULL);
        train("4", "4", "moved", task, "--sharded");
        expect_one_ranks_losses(first ? "sharded first" : "whole first");
    }
    unsetenv("GYRE_REPRODUCIBLE");
}

/* -- within one -------------------------------------------------------------------------------- */

static void others_go_on_within_an_epoch(void **state)
{
    static const char *const task[] = {"--data",
                                       "random:8000,13,3",
                                       "--layers",
                                       "13,512,512,3",
                                       "--global-batch",
                                       "32",
                                       "--lr",
                                       "0.01",
                                       "--momentum",
                                       "0.9",
                                       NULL};
    (void)state;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    train_alone("1", task);
    assert_int_equal(alone.steps, 250);
    for (int first = 0; first < 2; first++) {
        forget_moved();
        train_and_stop("2", "1", "moved", task, first ? "--sharded" : NULL);
        train("3", "1", "moved", task, first ? NULL : "--sharded");
        expect_one_ranks_losses(first ? "sharded first" : "whole first");
    }
    unsetenv("GYRE_REPRODUCIBLE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_go_on_after_an_epoch),
        cmocka_unit_test(others_go_on_within_an_epoch),
    };
    return cmocka_run_group_tests_name("gyre train, moved", tests, NULL, NULL);
}
