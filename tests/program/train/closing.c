/* How gyre train ends: the last lines say what it came to, and the commands in them work when they
 * are typed. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include "checkpoint/checkpoint.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(const char *ranks, const char *epochs, const char *save, const char *more)
{
    const char *words[] = {"train",    "--preset",  "wine",         "--ranks", ranks,
                           "--epochs", epochs,      "--lr",         "0.05",    "--save",
                           save,       "--metrics", in_folder("m"), more,      NULL};
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

/* -- the best ---------------------------------------------------------------------------------- */

/* The best of the epochs in the file "m", from 1. */
static int best_epoch(double *accuracy)
{
    char *text = read_text(in_folder("m")), *save = NULL;
    double loss = INFINITY;
    int best = 0, epoch = 0;
    *accuracy = -1;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (!strstr(line, "\"kind\":\"epoch\""))
            continue;
        double now = read_number(line, "test_accuracy"), its = read_number(line, "test_loss");
        epoch++;
        if (now < *accuracy || (now == *accuracy && its >= loss))
            continue;
        *accuracy = now;
        loss = its;
        best = epoch;
    }
    free(text);
    return best;
}

static void expect_best(void)
{
    double accuracy;
    char said[80];
    int epoch = best_epoch(&accuracy);
    snprintf(said, sizeof said, "; best test accuracy %.2f %% in epoch %d; saved in ",
             100 * accuracy, epoch);
    expect_told(said);
}

/* The command that is told goes on to twice as many epochs, and knows those before. */
static void the_best_epoch_is_told_across_a_resume(void **state)
{
    (void)state;
    clean();
    start("2", "6", in_folder("save"), NULL);
    assert_int_equal(strncmp(line_of("done: "), "6 epochs, 18 steps, ", 20), 0);
    expect_best();
    char told[2048];
    snprintf(told, sizeof told, "%s", rig.out_text);
    type("evaluate:");
    expect_told("\nwine:test");
    type("predict:");
    expect_told("; 36 samples of wine:test; accuracy ");
    snprintf(rig.out_text, sizeof rig.out_text, "%s", told);
    type("go on:");
    assert_int_equal(strncmp(line_of("done: "), "12 epochs, 36 steps, ", 21), 0);
    expect_best();
    rig_end(&rig);
}

/* At a rate at which all is lost that was learnt. */
static void a_best_epoch_of_before_stays_the_best(void **state)
{
    double accuracy;
    const char *words[] = {"train", "--preset", "wine", "--ranks",   "2",  "--epochs", "6", "--lr",
                           "5",     "--save",   NULL,   "--metrics", NULL, "--resume", NULL};
    (void)state;
    clean();
    start("2", "3", in_folder("save"), NULL);
    rig_end(&rig);
    words[10] = in_folder("save");
    words[12] = in_folder("m");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    expect_best();
    assert_in_range(best_epoch(&accuracy), 1, 3);
    rig_end(&rig);
}

/* -- the command ------------------------------------------------------------------------------- */

/* A folder that a shell would take for four words. */
static void the_command_is_one_for_a_shell(void **state)
{
    char folder[600];
    (void)state;
    clean();
    snprintf(folder, sizeof folder, "%s/it's a $run;", rig_folder());
    start("2", "1", folder, NULL);
    type("go on:");
    assert_int_equal(strncmp(line_of("done: "), "2 epochs, 6 steps, ", 19), 0);
    rig_end(&rig);
}

/* As many epochs as were asked for in the first place. */
static void a_stopped_run_says_how_to_go_on(void **state)
{
    char expected[1200];
    const char *words[] = {"train",  "--preset", "wine", "--ranks=2", "--epochs=1000000000",
                           "--save", NULL,       NULL};
    (void)state;
    clean();
    words[6] = in_folder("save");
    rig_start_endless(&rig, words);
    rig_wait_for(&rig, "epoch 2/");
    rig_signal(&rig, SIGUSR1);
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    expect_told("stopped by a signal after step ");
    snprintf(expected, sizeof expected,
             " gyre train --ranks 2 --preset wine --epochs=1000000000 --save %s --resume",
             words[6]);
    assert_string_equal(line_of("go on:   "), expected);
    rig_end(&rig);
}

static void a_finished_run_has_nothing_to_do(void **state)
{
    (void)state;
    clean();
    start("2", "2", in_folder("save"), "--quiet");
    assert_string_equal(rig.out_text, "");
    rig_end(&rig);
    start("2", "2", in_folder("save"), "--resume");
    expect_told("nothing to do: ");
    expect_told(" has epoch 2 of 2 already\n");
    type("go on:");
    assert_int_equal(strncmp(line_of("done: "), "4 epochs, 12 steps, ", 20), 0);
    rig_end(&rig);
}

/* Under another launcher only the words behind it are known. */
static void another_launcher_is_left_open(void **state)
{
    const char *words[] = {"run",  "-n",       "2", "--no-prefix", rig_tool(), "train", "--preset",
                           "wine", "--epochs", "1", "--save",      NULL,       NULL};
    (void)state;
    clean();
    words[11] = in_folder("save");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    const char *line = line_of("go on:");
    assert_true(rig_has(line, " … "));
    assert_true(rig_has(line, "gyre train --preset wine --save "));
    assert_true(rig_has(line, " --resume --epochs 2"));
    rig_end(&rig);
}

static void what_is_not_saved_is_told(void **state)
{
    const char *words[] = {"train", "--preset", "wine", "--epochs", "1", NULL};
    (void)state;
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    expect_told("; not saved: --save DIR keeps the weights\n");
    rig_end(&rig);
}

/* -- older checkpoints ------------------------------------------------------------------------- */

/* All tensors of a part but those whose name begins with `without`. */
static struct gyre_stored_list copy_list(const struct gyre_generation *from,
                                         enum gyre_generation_part part, const char *without)
{
    const struct gyre_safetensors *file = gyre_generation_file(from, part);
    uint64_t count = 0, all = gyre_safetensors_count(file);
    struct gyre_stored_tensor *tensor = calloc(all, sizeof *tensor);
    for (uint64_t i = 0; i < all; i++)
        if (strncmp(gyre_safetensors_at(file, i)->name, without, strlen(without)) != 0)
            tensor[count++] = *gyre_safetensors_at(file, i);
    assert_true(part == GYRE_GENERATION_MODEL || count < all);
    return (struct gyre_stored_list){tensor, count};
}

/* The checkpoint in `from` as one that knows nothing of a best epoch. */
static void write_older(const char *from, const char *to)
{
    struct gyre_trouble trouble = {0};
    struct gyre_generation *newest;
    struct gyre_generation_content content = {.world = 2};
    assert_int_equal(gyre_generation_newest(&newest, from, NULL, &trouble), 0);
    content.step = gyre_generation_step(newest);
    content.text = gyre_generation_text_at(newest, 0);
    content.texts = gyre_generation_texts(newest);
    for (int part = 0; part < GYRE_GENERATION_PARTS; part++)
        content.part[part] = copy_list(newest, (enum gyre_generation_part)part, "best.");
    if (gyre_generation_save(to, &content, 1, &trouble))
        fail_msg("%s", trouble.text);
    for (int part = 0; part < GYRE_GENERATION_PARTS; part++)
        free((void *)(uintptr_t)content.part[part].tensor);
    gyre_generation_close(newest);
}

static void older_checkpoints_go_on_too(void **state)
{
    (void)state;
    clean();
    start("2", "2", in_folder("save"), NULL);
    rig_end(&rig);
    write_older(in_folder("save"), in_folder("older"));
    start("2", "4", in_folder("save"), "--resume");
    rig_end(&rig);
    start("2", "4", in_folder("older"), "--resume");
    assert_int_equal(strncmp(line_of("done: "), "4 epochs, 12 steps, ", 20), 0);
    rig_end(&rig);
    char saved[1024];
    snprintf(saved, sizeof saved, "%s", saved_model(in_folder("save")));
    compare_files(saved, saved_model(in_folder("older")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_epoch_is_told_across_a_resume),
        cmocka_unit_test(a_best_epoch_of_before_stays_the_best),
        cmocka_unit_test(the_command_is_one_for_a_shell),
        cmocka_unit_test(a_stopped_run_says_how_to_go_on),
        cmocka_unit_test(a_finished_run_has_nothing_to_do),
        cmocka_unit_test(another_launcher_is_left_open),
        cmocka_unit_test(what_is_not_saved_is_told),
        cmocka_unit_test(older_checkpoints_go_on_too),
    };
    return cmocka_run_group_tests_name("gyre train, its end", tests, NULL, NULL);
}
