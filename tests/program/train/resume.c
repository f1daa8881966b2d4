/* gyre train stopped and resumed: wherever it was stopped, the bits are those of a run in one
 * go. In haste f16 on the wire is left out, and of f16 products what is stopped before their scale
 * is doubled. */
#include "rig/haste.h"
#include "rig/train_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A machine that stands still for seconds costs one try. */
#define TRIES 3

/* -- stopped and resumed ----------------------------------------------------------------------- */

static void train_wine(const char *ranks, const char *epochs, const char *save, const char *metrics)
{
    const char *words[] = {"train",    "--preset", "wine",    "--ranks", ranks,
                           "--epochs", epochs,     "--save",  save,      "--metrics",
                           metrics,    "--resume", "--quiet", NULL};
    expect_success(words);
}

/* In one go, and in two: the same bytes. With another number of ranks it goes on all the same. */
static void a_resumed_run_has_the_same_bits(void **state)
{
    static struct metrics m;
    char whole[1024];
    (void)state;
    clean();
    train_wine("2", "6", in_folder("whole"), in_folder("m1"));
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    train_wine("2", "4", in_folder("parts"), in_folder("m2"));
    train_wine("2", "6", in_folder("parts"), in_folder("m2"));
    compare_files(whole, saved_model(in_folder("parts")));
    read_metrics(in_folder("m2"), &m);
    assert_int_equal(m.steps, 18);
    assert_int_equal(m.epochs, 6);
    train_wine("3", "8", in_folder("parts"), in_folder("m2"));
    read_metrics(in_folder("m2"), &m);
    assert_int_equal(m.epochs, 8);
    assert_true(m.epoch[7] < m.epoch[5]);
}

/* False: the launcher killed the ranks before they had saved, five seconds behind the signal. */
static bool stops_in_time(int number, int code)
{
    const char *words[] = {"train",      "--preset", "wine", "--ranks",   "2",  "--epochs",
                           "1000000000", "--save",   NULL,   "--metrics", NULL, NULL};
    clean();
    words[8] = in_folder("save");
    words[10] = in_folder("metrics");
    rig_start_endless(&rig, words);
    rig_wait_for(&rig, "epoch");
    rig_signal(&rig, number);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, code);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    return rig_has(rig.out_text, "stopped by a signal after step");
}

static void stop_by(int number, int code)
{
    int tries = 1;
    while (!stops_in_time(number, code))
        if (tries++ == TRIES || !code)
            fail_msg("signal %d has not stopped it: %s%s", number, rig.out_text, rig.err_text);
    struct gyre_safetensors *file = open_tensors(saved_model(in_folder("save")));
    assert_int_equal(gyre_safetensors_count(file), 4);
    gyre_safetensors_close(file);
}

static void a_signal_saves_and_stops_all(void **state)
{
    (void)state;
    stop_by(SIGTERM, 128 + SIGTERM);
    stop_by(SIGINT, 128 + SIGINT);
    stop_by(SIGUSR1, 0);
}

/* Told to one rank only, as who looks for a process by hand would; with nothing to evaluate on, for
 * there ranks ask each other as well. */
static void a_signal_to_one_rank_stops_all(void **state)
{
    const char *words[] = {"run",      "-n",         "3",      "--no-prefix", rig_tool(),
                           "train",    "--data",     "wine",   "--layers",    "13,64,3",
                           "--epochs", "1000000000", "--save", NULL,          NULL};
    (void)state;
    clean();
    words[13] = in_folder("save");
    rig_start_endless(&rig, words);
    rig_wait_for(&rig, "epoch");
    rig_signal_rank(&rig, 1, SIGTERM);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "stopped by a signal after step"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    gyre_safetensors_close(open_tensors(saved_model(in_folder("save"))));
}

/* An evaluation of many seconds behind three short steps, and a signal once these are told, which
 * the launcher passes on without a deadline. False: the evaluation had ended before the signal. */
static bool stops_in_evaluation(const char *words[], const char *test)
{
    clean();
    words[6] = test;
    words[12] = in_folder("save");
    rig_start(&rig, words);
    rig_wait_for(&rig, "\"step\":3,");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    rig_wait_lifeless(&rig);
    rig_end(&rig);
    return !rig_has(rig.err_text, "\"kind\":\"epoch\"");
}

/* Then the epoch is ended by a shorter evaluation. Each try has a longer one than the last. */
static void a_signal_stops_an_evaluation(void **state)
{
    static const char *const tests[TRIES] = {"random:400000,13,3", "random:800000,13,3",
                                             "random:1600000,13,3"};
    static struct metrics m;
    const char *words[] = {"train",       "--preset", "wine",    "--layers", "13,1024,1024,3",
                           "--test",      NULL,       "--ranks", "2",        "--epochs",
                           "1",           "--save",   NULL,      "--quiet",  "--metrics",
                           "/dev/stderr", "--resume", NULL};
    int tries = 0;
    (void)state;
    while (!stops_in_evaluation(words, tests[tries]))
        assert_int_not_equal(++tries, TRIES);
    assert_true(rig_has(rig.out_text, "stopped by a signal after step 3; saved in "));
    words[6] = "wine:test";
    words[12] = in_folder("save");
    words[15] = in_folder("m");
    expect_success(words);
    read_metrics(words[15], &m);
    assert_int_equal(m.steps, 0);
    assert_int_equal(m.epochs, 1);
    assert_true(m.tested[0] > 0 && m.epoch[0] > 0);
}

#define TASK_MOST 16

#define STOPS 3

/* Stopped as soon as each of these is told, and then to the end; `until` NULL: in one go. */
static void train_long(const char *save, const char *metrics, const char *const until[STOPS],
                       const char *const task[TASK_MOST])
{
    const char *words[TASK_MOST + 16] = {"train",        "--ranks",   "2",     "--save",
                                         save,           "--metrics", metrics, "--resume",
                                         "--save-every", "1000",      "--svg"};
    words[11] = in_folder("curve.svg");
    for (int i = 0; i < TASK_MOST && task[i]; i++)
        words[12 + i] = task[i];
    for (int stop = 0; until && stop < STOPS; stop++) {
        rig_start(&rig, words);
        rig_wait_for(&rig, until[stop]);
        rig_signal(&rig, SIGUSR1);
        rig_wait_end(&rig);
        assert_int_equal(rig.code, 0);
        rig_end(&rig);
    }
    expect_success(words);
}

/* Weights, buffers, the optimiser's state, the scaler's and the place. */
static void compare_checkpoints(const char *a, const char *b)
{
    char model[1024], training[1024], other[1024];
    snprintf(model, sizeof model, "%s", saved_model(a));
    snprintf(training, sizeof training, "%.*straining.safetensors",
             (int)(strlen(model) - strlen("model.safetensors")), model);
    compare_files(model, saved_model(b));
    snprintf(model, sizeof model, "%s", saved_model(b));
    snprintf(other, sizeof other, "%.*straining.safetensors",
             (int)(strlen(model) - strlen("model.safetensors")), model);
    compare_files(training, other);
}

/* Wherever it is stopped, mostly within an epoch: what is saved and the losses of epochs are the
 * same. */
static void stop_and_compare(int epochs, const char *const until[STOPS],
                             const char *const task[TASK_MOST])
{
    char command[2600];
    clean();
    train_long(in_folder("whole"), in_folder("m1"), NULL, task);
    train_long(in_folder("parts"), in_folder("m2"), until, task);
    compare_checkpoints(in_folder("whole"), in_folder("parts"));
    snprintf(command, sizeof command,
             "cd %s && for m in m1 m2; do grep '\"epoch\",' $m | "
             "sed 's/.*\"epoch\":\\([0-9]*\\).*\"loss\":\\([^,]*\\).*/\\1 \\2/' >$m.epochs; done; "
             "test $(wc -l <m1.epochs) = %d && cmp m1.epochs m2.epochs",
             rig_folder(), epochs);
    assert_int_equal(system(command), 0);
}

static const char *const early[STOPS] = {"epoch", "epoch", "epoch"};

#define WINE_EPOCHS 200
#define WINE        "--preset", "wine", "--epochs", "200", "--batch", "2"

static void a_stop_leaves_no_trace(void **state)
{
    (void)state;
    stop_and_compare(WINE_EPOCHS, early,
                     (const char *[TASK_MOST]){WINE, "--tail", "drop", "--wire", "bf16"});
    stop_and_compare(WINE_EPOCHS, early,
                     (const char *[TASK_MOST]){WINE, "--tail", "once", "--sharded"});
    if (!in_haste())
        stop_and_compare(WINE_EPOCHS, early,
                         (const char *[TASK_MOST]){WINE, "--tail", "once", "--wire", "f16"});
}

/* The loss scale is doubled after 2000 steps, 55 epochs, and halved where it was too much; the rate
 * is another in every step. On a busy machine a run may be far beyond the epoch that was waited for
 * when the signal comes, so only the first stop waits for one. */
static void scaler_and_schedule_go_on(void **state)
{
    static const char *const before[STOPS] = {"epoch 30/", "epoch", "epoch"};
    static const char *const behind[STOPS] = {"epoch 70/", "epoch", "epoch"};
    (void)state;
    if (!in_haste())
        stop_and_compare(WINE_EPOCHS, before,
                         (const char *[TASK_MOST]){WINE, "--precision", "f16"});
    stop_and_compare(WINE_EPOCHS, behind, (const char *[TASK_MOST]){WINE, "--precision", "f16"});
    stop_and_compare(WINE_EPOCHS, early,
                     (const char *[TASK_MOST]){WINE, "--schedule", "cosine", "--warmup", "500",
                                               "--least-lr", "1e-5"});
}

static void running_means_go_on(void **state)
{
    (void)state;
    stop_and_compare(8, early,
                     (const char *[TASK_MOST]){"--model", "convnet", "--data",
                                               golden("convnet.data.safetensors"), "--batch", "4",
                                               "--epochs", "8", "--momentum", "0.9"});
}

/* What a rank's rounding left is no other's. */
static void feedback_of_other_ranks_is_left(void **state)
{
    const char *words[] = {"train",    "--preset", "wine",     "--ranks", "2",  "--wire", "bf16",
                           "--epochs", "1",        "--resume", "--save",  NULL, NULL};
    (void)state;
    clean();
    words[11] = in_folder("save");
    expect_success(words);
    words[8] = "2";
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_false(rig_has(rig.out_text, "what --wire rounded off"));
    rig_end(&rig);
    words[8] = "3";
    words[4] = "3";
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "the checkpoint has not what --wire rounded off on 3 ranks"));
    rig_end(&rig);
}

/* Each would go on as another run, in silence. */
static void another_run_is_refused(void **state)
{
    static const struct {
        const char *words[2], *says;
    } others[] = {
        {{"--seed", "7"}, "was saved with --seed 0, and this run has 7"},
        {{"--optimizer", "adamw"}, "was saved with --optimizer adam, and this run has adamw"},
        {{"--data", "wine:test"}, "was saved with data with the hash "},
    };
    (void)state;
    clean();
    train_wine("2", "1", in_folder("save"), in_folder("m"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *words[] = {"train",
                               "--preset",
                               "wine",
                               "--save",
                               in_folder("save"),
                               "--resume",
                               "--quiet",
                               others[i].words[0],
                               others[i].words[1],
                               "--batch",
                               "8",
                               "--ranks",
                               "2",
                               NULL};
        rig_run(&rig, NULL, words);
        if (rig.code != 2 || !rig_has(rig.err_text, others[i].says))
            fail_msg("exit code %d, \"%s\" is not in: %s", rig.code, others[i].says, rig.err_text);
        rig_end(&rig);
    }
    train_wine("2", "2", in_folder("save"), in_folder("m"));
}

/* Stopped in the middle of an epoch, which then is told as a whole one. */
static void a_resumed_epoch_has_a_whole_digest(void **state)
{
    const char *words[] = {"train",
                           "--data",
                           "random:16000,13,3",
                           "--layers",
                           "13,512,512,3",
                           "--ranks",
                           "2",
                           "--batch",
                           "32",
                           "--epochs",
                           "1",
                           "--data-digest",
                           "--save",
                           NULL,
                           "--metrics",
                           NULL,
                           "--tail",
                           "once",
                           "--resume",
                           NULL};
    (void)state;
    clean();
    words[13] = in_folder("save");
    words[15] = in_folder("pipe");
    int pipe = metrics_pipe(words[15]);
    rig_start(&rig, words);
    signal_behind(pipe, "\"step\":9,", SIGUSR1, NULL);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "stopped by a signal after step"));
    assert_false(rig_has(rig.out_text, "digest:"));
    rig_end(&rig);
    words[14] = "--quiet";
    words[15] = "--resume";
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, " samples were seen before it was resumed"));
    assert_true(
        rig_has(rig.out_text, "epoch 1: 16000 of 16000 samples were seen once, 0 again, 0 never"));
    rig_end(&rig);
}

/* From the end of an epoch the next one begins, of which nothing was seen. */
static void the_epoch_behind_a_checkpoint_has_a_digest_of_its_own(void **state)
{
    const char *words[] = {"train",   "--preset", "wine",     "--ranks",  "2",
                           "--tail",  "once",     "--epochs", "2",        "--data-digest",
                           "--quiet", "--save",   NULL,       "--resume", NULL};
    (void)state;
    clean();
    words[12] = in_folder("save");
    expect_success(words);
    words[8] = "4";
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    assert_true(
        rig_has(rig.out_text, "epoch 3: 142 of 142 samples were seen once, 0 again, 0 never"));
    assert_true(
        rig_has(rig.out_text, "epoch 4: 142 of 142 samples were seen once, 0 again, 0 never"));
    assert_false(rig_has(rig.out_text, "were seen before it was resumed"));
    rig_end(&rig);
}

static void a_checkpoint_of_another_model_is_refused(void **state)
{
    const char *words[] = {"train", "--preset", "wine",    "--layers", "13,32,3", "--save",
                           NULL,    "--resume", "--quiet", "--ranks",  "2",       NULL};
    (void)state;
    clean();
    train_wine("1", "1", in_folder("save"), in_folder("m"));
    words[6] = in_folder("save");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "0.bias") || rig_has(rig.err_text, "0.weight"));
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(a_stop_leaves_no_trace),
        cmocka_unit_test(scaler_and_schedule_go_on),
        cmocka_unit_test(running_means_go_on),
        cmocka_unit_test(a_signal_saves_and_stops_all),
        cmocka_unit_test(a_signal_to_one_rank_stops_all),
        cmocka_unit_test(a_signal_stops_an_evaluation),
        cmocka_unit_test(feedback_of_other_ranks_is_left),
        cmocka_unit_test(another_run_is_refused),
        cmocka_unit_test(a_resumed_epoch_has_a_whole_digest),
        cmocka_unit_test(the_epoch_behind_a_checkpoint_has_a_digest_of_its_own),
        cmocka_unit_test(a_checkpoint_of_another_model_is_refused),
    };
    return cmocka_run_group_tests_name("gyre train, resumed", tests, NULL, NULL);
}
