/* gyre train --evaluate says what a run said of its test set, whatever names the weights and
 * however many ranks look; and which model a run has that was not told. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table has what the last epoch of the file "m" came to. */
static void expect_last_epoch(const char *set, int samples)
{
    char *text = read_text(in_folder("m")), *save = NULL, last[1024] = "";
    double loss, accuracy;
    int count;
    for (char *at = strtok_r(text, "\n", &save); at; at = strtok_r(NULL, "\n", &save))
        if (strstr(at, "\"kind\":\"epoch\""))
            snprintf(last, sizeof last, "%s", at);
    if (sscanf(line_of(set), "%d %lf %lf %%", &count, &loss, &accuracy) != 3)
        fail_msg("no table is in:\n%s", rig.out_text);
    double should = read_number(last, "test_loss");
    assert_int_equal(count, samples);
    assert_true(fabs(loss - should) <= 1e-3 * should); /* four digits are told */
    assert_true(fabs(accuracy - 100 * read_number(last, "test_accuracy")) <= 0.0051);
    free(text);
}

static void train_wine(void)
{
    const char *words[] = {"train",  "--preset", "wine",      "--ranks", "2",       "--epochs", "5",
                           "--save", NULL,       "--metrics", NULL,      "--quiet", NULL};
    clean();
    words[8] = in_folder("save");
    words[10] = in_folder("m");
    expect_success(words);
}

static void evaluate(const char *ranks, const char *how, const char *path, const char *resume)
{
    const char *words[] = {"train", "--evaluate", "--data", "wine:test", "--ranks",
                           ranks,   how,          path,     resume,      NULL};
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

/* -- any name, any number of ranks ------------------------------------------------------------- */

static void any_name_and_any_ranks_say_the_same(void **state)
{
    char folder[600], model[700];
    (void)state;
    train_wine();
    snprintf(folder, sizeof folder, "%s/step-00000015", in_folder("save"));
    snprintf(model, sizeof model, "%s/model.safetensors", folder);
    const char *const names[][3] = {{"--init", in_folder("save"), NULL},
                                    {"--init", folder, NULL},
                                    {"--init", model, NULL},
                                    {"--save", in_folder("save"), "--resume"}};
    for (int i = 0; i < 4; i++) {
        static const char *const ranks[] = {"1", "2", "3", "2"};
        evaluate(ranks[i], names[i][0], names[i][1], names[i][2]);
        expect_last_epoch("wine:test", 36);
        expect_told("mlp 13,64,3 of ");
        expect_told(", step 15; ");
        assert_string_equal(rig.err_text, "");
        rig_end(&rig);
    }
}

/* An older generation is another model. */
static void an_older_one_has_its_own_figures(void **state)
{
    char older[600], first[200];
    (void)state;
    train_wine();
    evaluate("1", "--init", in_folder("save"), NULL);
    snprintf(first, sizeof first, "%s", line_of("wine:test"));
    rig_end(&rig);
    snprintf(older, sizeof older, "%s/step-00000012", in_folder("save"));
    evaluate("1", "--init", older, NULL);
    assert_string_not_equal(line_of("wine:test"), first);
    rig_end(&rig);
}

/* Both sets in one table; nothing is written. */
static void both_sets_are_in_the_table(void **state)
{
    char command[1400];
    const char *words[] = {"train", "--preset", "wine", "--evaluate", "--init", NULL, NULL};
    (void)state;
    train_wine();
    snprintf(command, sizeof command, "cd %s && ls -lR --time-style=full-iso >%s/before",
             in_folder("save"), rig_folder());
    assert_int_equal(system(command), 0);
    words[5] = in_folder("save");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    expect_last_epoch("wine:test", 36);
    assert_non_null(strstr(line_of("wine     "), " 142 "));
    rig_end(&rig);
    snprintf(command, sizeof command, "cd %s && ls -lR --time-style=full-iso | cmp - %s/before",
             in_folder("save"), rig_folder());
    assert_int_equal(system(command), 0);
}

/* Batch norm evaluates by its running means, which the checkpoint has. */
static void a_convnet_is_known_by_its_tensors(void **state)
{
    char images[600];
    const char *words[] = {"train",   "--preset", "mnist",   "--data",    images,
                           "--test",  images,     "--ranks", "2",         "--epochs",
                           "1",       "--batch",  "20",      "--metrics", NULL,
                           "--quiet", "--save",   NULL,      NULL};
    const char *look[] = {"train", "--evaluate", "--data", images, "--init", NULL, NULL};
    (void)state;
    clean();
    snprintf(images, sizeof images, "%s/train-images-idx3-ubyte", rig_folder());
    write_digits(images, in_folder("train-labels-idx1-ubyte"), 90);
    words[14] = in_folder("m");
    words[17] = look[5] = in_folder("save");
    expect_success(words);
    rig_run(&rig, NULL, look);
    assert_int_equal(rig.code, 0);
    expect_last_epoch(images, 90);
    expect_told("convnet of ");
    rig_end(&rig);
}

/* -- targets ----------------------------------------------------------------------------------- */

/* The checkpoint knows its loss. */
static void targets_have_a_loss_only(void **state)
{
    const char *words[] = {"train",    "--data", NULL,     "--loss", "mse",
                           "--epochs", "300",    "--save", NULL,     NULL};
    (void)state;
    clean();
    words[2] = in_folder("line.csv");
    words[8] = in_folder("save");
    write_lines(words[2], "0,1\n0.5,1.5\n1,2\n");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    expect_told("; least loss ");
    type("evaluate:");
    const char *line = line_of(words[2]);
    double loss = strtod(line + 14, NULL);
    assert_true(loss >= 0 && loss < 0.01);
    assert_false(rig_has(line, "%"));
    rig_end(&rig);
}

/* -- what was not told ------------------------------------------------------------------------- */

static void a_model_of_one_hidden_layer_is_taken(void **state)
{
    const char *words[] = {"train", "--data", "wine", "--epochs", "1", NULL};
    (void)state;
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    expect_told("mlp 13,64,3: 1091 weights; 142 samples; 1 rank on 1 node; ");
    rig_end(&rig);
}

static void what_cannot_be_looked_at_is_told(void **state)
{
    static const struct {
        const char *words[8];
        int code;
        const char *says;
    } wrong[] = {
        {{"--data", "wine"}, 2, "--evaluate needs weights: --init F, or --resume with --save DIR"},
        {{"--data", "wine", "--init", "/nowhere/x"}, 1, "/nowhere/x: cannot open it"},
        {{"--data", "wine", "--resume", "--save", "/nowhere/x"}, 1, "/nowhere/x: cannot open it"},
        {{"--data", "wine", "--init", "/tmp"}, 1, "/tmp: no checkpoint is there"},
        {{"--data", "random:9,4,3", "--init", "save"},
         2,
         "/save: mlp 13,64,3 begins with 13; samples of random:9,4,3 have 4 numbers"},
        {{"--data", "random:9,13,5", "--init", "save"},
         2,
         "/save: mlp 13,64,3 ends in 3; random:9,13,5 has 5 classes"},
    };
    (void)state;
    train_wine();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *words[11] = {"train", "--evaluate"};
        memcpy(words + 2, wrong[i].words, sizeof wrong[i].words);
        if (words[5] && strcmp(words[5], "save") == 0)
            words[5] = in_folder("save");
        rig_run(&rig, NULL, words);
        if (rig.code != wrong[i].code || !rig_has(rig.err_text, wrong[i].says))
            fail_msg("exit code %d, \"%s\" is not in: %s", rig.code, wrong[i].says, rig.err_text);
        rig_end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_name_and_any_ranks_say_the_same),
        cmocka_unit_test(an_older_one_has_its_own_figures),
        cmocka_unit_test(both_sets_are_in_the_table),
        cmocka_unit_test(a_convnet_is_known_by_its_tensors),
        cmocka_unit_test(targets_have_a_loss_only),
        cmocka_unit_test(a_model_of_one_hidden_layer_is_taken),
        cmocka_unit_test(what_cannot_be_looked_at_is_told),
    };
    return cmocka_run_group_tests_name("gyre train --evaluate", tests, NULL, NULL);
}
