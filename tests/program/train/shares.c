/* gyre train --shares measured: the slower rank gets less, what was told gives the same bits again,
 * and a run that goes on keeps its shares.
 *
 * A rank is slowed down by far more than a busy machine could: it stands still for 400 of 410 ms,
 * which is longer than any window of the measurement. This program itself does that, as
 *
 *     program/train/shares --slowed RANK FILE gyre train …
 *
 * which is one of `gyre run`'s ranks: it becomes gyre, and in the rank named leaves a process
 * behind that stops and continues it until there is a FILE: the test makes it when the shares are
 * told. */
#include "rig/busy_loops.h"
#include "rig/train_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* -- a slow rank ------------------------------------------------------------------------------- */

static void hold_back(pid_t rank, const char *until)
{
    const struct timespec still = {0, 400000000}, moving = {0, 10000000};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == rank && access(until, F_OK) != 0) {
        kill(rank, SIGSTOP);
        nanosleep(&still, NULL);
        kill(rank, SIGCONT);
        nanosleep(&moving, NULL);
    }
    _exit(0);
}

static int be_slowed(char **words)
{
    const char *rank = getenv("RANK");
    pid_t self = getpid();
    if (rank && strcmp(rank, words[0]) == 0 && fork() == 0)
        hold_back(self, words[1]);
    execv(words[2], words + 2);
    perror(words[2]);
    return 99;
}

/* -- running ----------------------------------------------------------------------------------- */

/* Which rank is slowed down (NULL: none), with which shares, how many epochs; "save" and "metrics"
 * name where in the folder. */
struct asked {
    const char *ranks, *slowed, *shares, *epochs, *save, *metrics;
    const char *more[12];
};

/* The line about shares, or "". */
static const char *run(const struct asked *a)
{
    static char line[512], self[512];
    char save[512], metrics[512], told_file[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    snprintf(save, sizeof save, "%s", in_folder(a->save));
    snprintf(metrics, sizeof metrics, "%s", in_folder(a->metrics));
    snprintf(told_file, sizeof told_file, "%s", in_folder("told"));
    unlink(told_file);
    const char *words[48] = {"run",
                             "-n",
                             a->ranks,
                             "--no-prefix",
                             self,
                             "--slowed",
                             a->slowed ? a->slowed : "none",
                             told_file,
                             rig_tool(),
                             "train",
                             "--tail",
                             "once",
                             "--shares",
                             a->shares,
                             "--epochs",
                             a->epochs,
                             "--save",
                             save,
                             "--metrics",
                             metrics};
    memcpy(words + 20, a->more, sizeof a->more);
    rig_start(&rig, words);
    if (a->slowed) {
        rig_wait_for(&rig, "shares ");
        write_lines(told_file, "told\n");
    }
    rig_wait_end(&rig);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
    rig_wait_lifeless(&rig);
    const char *told =
        strncmp(rig.out_text, "shares ", 7) == 0 ? rig.out_text : strstr(rig.out_text, "\nshares ");
    told = told && *told == '\n' ? told + 1 : told;
    snprintf(line, sizeof line, "%.*s", told ? (int)strcspn(told, "\n") : 0, told ? told : "");
    rig_end(&rig);
    return line;
}

/* "shares 8,1 from …": the list as it is given again. */
static const char *list_of(const char *line)
{
    static char list[64];
    if (sscanf(line, "shares %63[0-9,] from ", list) != 1)
        fail_msg("no shares were told: \"%s\"", line);
    return list;
}

#define WINE "--preset", "wine", "--resume"
#define CONVNET                                                                                    \
    "--data", golden("convnet.data.safetensors"), "--model", "convnet", "--global-batch", "17",    \
        "--sync-batch-norm"

static void expect_same_run(const char *save_a, const char *metrics_a, const char *save_b,
                            const char *metrics_b)
{
    static struct metrics a, b;
    char model[1024];
    snprintf(model, sizeof model, "%s", saved_model(in_folder(save_a)));
    compare_files(model, saved_model(in_folder(save_b)));
    read_metrics(in_folder(metrics_a), &a);
    read_metrics(in_folder(metrics_b), &b);
    assert_int_equal(a.steps, b.steps);
    assert_memory_equal(a.step, b.step, (size_t)a.steps * sizeof *a.step);
}

/* -- tests ------------------------------------------------------------------------------------- */

static void the_slower_rank_gets_less(void **state)
{
    int first, second;
    double fast, slow;
    (void)state;
    clean();
    const char *line = run(&(struct asked){"2", "1", "measured", "2", "s", "m", {WINE}});
    if (sscanf(line, "shares %d,%d from %lf and %lf samples/s", &first, &second, &fast, &slow) != 4)
        fail_msg("\"%s\"", line);
    assert_true(first > second && fast > slow);
    clean();
    line = run(&(struct asked){"2", "0", "measured", "2", "s", "m", {WINE}});
    if (sscanf(line, "shares %d,%d from ", &first, &second) != 2)
        fail_msg("\"%s\"", line);
    assert_true(first < second);
}

/* Measuring leaves nothing behind, in running means neither, and asks no rank for its batch. */
static void what_was_told_gives_the_same_bits(void **state)
{
    char told[64];
    (void)state;
    clean();
    snprintf(told, sizeof told, "%s",
             list_of(run(&(struct asked){"2", "1", "measured", "2", "s1", "m1", {CONVNET}})));
    const char *line = run(&(struct asked){"2", NULL, told, "2", "s2", "m2", {CONVNET}});
    assert_string_equal(line, "");
    expect_same_run("s1", "m1", "s2", "m2");
}

/* The other rank is slow when it goes on; measured again, the shares would be the other way
 * round. */
static void going_on_keeps_the_shares(void **state)
{
    char told[64], expected[128];
    (void)state;
    clean();
    snprintf(told, sizeof told, "%s",
             list_of(run(&(struct asked){"2", "1", "measured", "2", "s1", "m1", {WINE}})));
    const char *line = run(&(struct asked){"2", "0", "measured", "4", "s1", "m1", {WINE}});
    snprintf(expected, sizeof expected, "shares %s, as in the checkpoint", told);
    assert_string_equal(line, expected);
    run(&(struct asked){"2", NULL, told, "4", "s2", "m2", {WINE}});
    expect_same_run("s1", "m1", "s2", "m2");
    line = run(&(struct asked){"2", NULL, "measured", "5", "s2", "m2", {WINE}});
    assert_string_equal(line, expected); /* those that were given are kept too */
}

/* Shares that are given count, whatever the checkpoint has; one without shares has none to keep. */
static void given_shares_come_first(void **state)
{
    (void)state;
    clean();
    run(&(struct asked){"2", NULL, "3,1", "1", "s1", "m1", {WINE}});
    run(&(struct asked){"2", NULL, "1,3", "2", "s1", "m1", {WINE}});
    const char *line = run(&(struct asked){"2", NULL, "measured", "3", "s1", "m1", {WINE}});
    assert_string_equal(line, "shares 1,3, as in the checkpoint");
}

static void a_checkpoint_without_shares_is_measured(void **state)
{
    char save[512];
    (void)state;
    clean();
    snprintf(save, sizeof save, "%s", in_folder("s"));
    const char *words[] = {"train", "--preset", "wine", "--ranks", "2",  "--tail",
                           "once",  "--epochs", "1",    "--save",  save, NULL};
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    rig_end(&rig);
    list_of(run(&(struct asked){"2", NULL, "measured", "2", "s", "m", {WINE}}));
}

static void other_ranks_are_measured_anew(void **state)
{
    int one, two, three;
    (void)state;
    clean();
    run(&(struct asked){"2", NULL, "3,1", "1", "s", "m", {WINE}});
    const char *line = run(&(struct asked){"3", "2", "measured", "2", "s", "m", {WINE}});
    if (sscanf(line, "shares %d,%d,%d from ", &one, &two, &three) != 3 ||
        !rig_has(line, " samples/s; the checkpoint has those of another number of ranks"))
        fail_msg("\"%s\"", line);
    assert_true(three < one && three < two);
}

static void a_loaded_machine_is_told(void **state)
{
    (void)state;
    clean();
    busy_loops_start();
    run(&(struct asked){"2", NULL, "measured", "1", "s", "m", {WINE}});
    busy_loops_end();
    if (!rig_has(rig.err_text, "warning: while speeds were measured, on ") ||
        !rig_has(rig.err_text, " other processes took "))
        fail_msg("%s", rig.err_text);
}

/* One rank has nobody to share with, and says nothing of it. */
static void alone_there_is_nothing_to_measure(void **state)
{
    (void)state;
    clean();
    const char *line = run(&(struct asked){"1", NULL, "measured", "1", "s", "m", {WINE}});
    assert_string_equal(line, "");
}

static void other_words_are_refused(void **state)
{
    const char *words[] = {"train",  "--preset", "wine",     "--ranks", "2",
                           "--tail", "once",     "--shares", "mesured", NULL};
    (void)state;
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "--shares mesured: 2 numbers are expected"));
    assert_true(rig_has(rig.err_text, "or the word measured"));
    rig_end(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slower_rank_gets_less),
        cmocka_unit_test(what_was_told_gives_the_same_bits),
        cmocka_unit_test(going_on_keeps_the_shares),
        cmocka_unit_test(given_shares_come_first),
        cmocka_unit_test(a_checkpoint_without_shares_is_measured),
        cmocka_unit_test(other_ranks_are_measured_anew),
        cmocka_unit_test(a_loaded_machine_is_told),
        cmocka_unit_test(alone_there_is_nothing_to_measure),
        cmocka_unit_test(other_words_are_refused),
    };
    if (argc > 4 && strcmp(argv[1], "--slowed") == 0)
        return be_slowed(argv + 2);
    return cmocka_run_group_tests_name("shares measured", tests, NULL, NULL);
}
