/* gyre train --validation: the same samples are kept out of the training on any number of ranks,
 * and evaluated; what follows from their figures. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run(int code, const char *const *words)
{
    rig_run(&rig, NULL, words);
    if (rig.code != code)
        fail_msg("exit code %d, not %d:\n%s%s", rig.code, code, rig.out_text, rig.err_text);
}

/* The figure of epoch `number` in the file "m". */
static double figure(int number, const char *name)
{
    char *text = read_text(in_folder("m")), *save = NULL;
    double value = NAN;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (strstr(line, "\"kind\":\"epoch\"") && read_number(line, "epoch") == number)
            value = read_number(line, name);
    free(text);
    return value;
}

/* Two epochs of Wine, in which nothing is learnt. */
static void train_nothing(const char *ranks, const char *seed)
{
    const char *words[] = {
        "train", "--data",    "wine",         "--validation", "0.25", "--lr",
        "0",     "--ranks",   ranks,          "--seed",       seed,   "--tail",
        "once",  "--metrics", in_folder("m"), "--epochs",     "2",    "--data-digest",
        NULL};
    clean();
    run(0, words);
}

/* -- the split --------------------------------------------------------------------------------- */

static void any_ranks_keep_the_same_samples_out(void **state)
{
    static const char *const ranks[] = {"1", "2", "3"};
    double loss = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        train_nothing(ranks[i], "5");
        expect_told("106 samples and 36 for validation; ");
        expect_told("epoch 2: 106 of 106 samples were seen once, 0 again, 0 never\n");
        expect_told("  validation loss ");
        expect_told("; best validation accuracy ");
        if (!i)
            loss = figure(1, "validation_loss");
        assert_true(fabs(figure(1, "validation_loss") - loss) <= 1e-6 * loss);
        assert_true(figure(2, "validation_loss") == figure(1, "validation_loss"));
        rig_end(&rig);
    }
}

/* The loss and accuracy that the table has for a set, as sums. */
static void add_row(const char *set, double *samples, double *loss, double *right)
{
    double count, mean, accuracy;
    if (sscanf(line_of(set), "%lf %lf %lf %%", &count, &mean, &accuracy) != 3)
        fail_msg("no \"%s\" in:\n%s", set, rig.out_text);
    *samples += count;
    *loss += count * mean;
    *right += count * accuracy;
}

/* Both parts together are the whole, and the smaller one is what the run said of it. */
static void both_parts_are_evaluated(void **state)
{
    double samples = 0, loss = 0, right = 0, whole[3] = {0};
    const char *words[] = {"train",   "--evaluate", "--data", "wine", "--init", NULL,
                           "--ranks", "2",          NULL,     NULL,   NULL};
    (void)state;
    clean();
    run(0, (const char *[]){"train", "--data", "wine", "--validation", "0.25", "--save",
                            in_folder("save"), "--epochs", "3", "--metrics", in_folder("m"), NULL});
    assert_true(rig_has(line_of("evaluate:"), " --data wine --validation 0.25"));
    rig_end(&rig);
    words[5] = in_folder("save");
    run(0, words);
    add_row("wine", &whole[0], &whole[1], &whole[2]);
    rig_end(&rig);
    words[8] = "--validation";
    words[9] = "0.25";
    run(0, words);
    add_row("wine (training)", &samples, &loss, &right);
    double trained = loss;
    add_row("wine (validation)", &samples, &loss, &right);
    assert_true(fabs((loss - trained) / 36 - figure(3, "validation_loss")) <= 1e-3);
    assert_true(samples == 142 && whole[0] == 142);
    assert_true(fabs(loss - whole[1]) <= 1e-3 * loss);
    assert_true(fabs(right - whole[2]) <= 142 * 0.02);
    rig_end(&rig);
}

static void another_part_is_another_run(void **state)
{
    static const char *const others[][2] = {{"0.3", " 0.25, and this run has 0.3: "},
                                            {"0", " 0.25, and this run has 0: "}};
    const char *words[] = {"train",    "--data", "wine",    "--save",  NULL, "--validation", "0.25",
                           "--epochs", "1",      "--quiet", "--ranks", "2",  "--resume",     NULL};
    (void)state;
    clean();
    words[4] = in_folder("save");
    run(0, words);
    rig_end(&rig);
    words[8] = "2";
    for (int i = 0; i < 2; i++) {
        words[6] = others[i][0];
        run(2, words);
        assert_true(rig_has(rig.err_text, "was saved with --validation"));
        assert_true(rig_has(rig.err_text, others[i][1]));
        rig_end(&rig);
    }
    words[6] = "0.25";
    run(0, words);
    rig_end(&rig);
}

/* No sample is left to train on. */
static void a_part_of_everything_is_refused(void **state)
{
    const char *words[] = {"train", "--data", "random:5,3,2", "--validation", "0.85", NULL};
    (void)state;
    run(2, words);
    assert_true(rig_has(rig.err_text, "--validation: random:5,3,2: 0.85 of 5 samples leaves none"));
    rig_end(&rig);
    words[4] = "1";
    run(2, words);
    assert_true(rig_has(rig.err_text, "--validation 1: a number from 0 to 0.9"));
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_keep_the_same_samples_out),
        cmocka_unit_test(both_parts_are_evaluated),
        cmocka_unit_test(another_part_is_another_run),
        cmocka_unit_test(a_part_of_everything_is_refused),
    };
    return cmocka_run_group_tests_name("gyre train --validation", tests, NULL, NULL);
}
