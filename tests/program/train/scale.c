/* gyre train --scale: features of very different size are standardised by the samples that are
 * trained on, with the same bits on any number of ranks; whoever goes on with the weights does the
 * same without being told. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 90

/* A class is told by the second feature; the first is large, the third never changes. */
static void write_table(const char *name, int rows)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    for (int i = 0; i < rows; i++)
        fprintf(file, "%d,%.4f,7,%d\n", 1000000 + i * 37 % 100, 0.01 * (i % 3) + 1e-4 * (i % 7),
                i % 3);
    assert_int_equal(fclose(file), 0);
}

static void run(int code, const char *const *words)
{
    rig_run(&rig, NULL, words);
    if (rig.code != code)
        fail_msg("exit code %d, not %d:\n%s%s", rig.code, code, rig.out_text, rig.err_text);
}

/* Trains on the table "t.csv", with more words. */
static void train(const char *save, const char *ranks, const char *epochs, const char *more)
{
    char data[600], folder[600];
    const char *words[] = {"train", "--data", data,   "--save",    folder, "--validation",
                           "0.2",   "--lr",   "0.02", "--ranks",   ranks,  "--epochs",
                           epochs,  "--tail", "once", "--metrics", NULL,   "--optimizer",
                           "adam",  more,     NULL};
    snprintf(data, sizeof data, "%s", in_folder("t.csv"));
    snprintf(folder, sizeof folder, "%s", in_folder(save));
    words[16] = in_folder("m");
    run(0, words);
}

static const char *training_of(const char *save)
{
    static char path[1100];
    snprintf(path, sizeof path, "%s", saved_model(in_folder(save)));
    strcpy(strrchr(path, '/'), "/training.safetensors");
    return path;
}

/* Means and deviations of the newest checkpoint. */
static void read_scale(const char *save, double number[6])
{
    static const char *const names[] = {"scale.mean", "scale.deviation"};
    struct gyre_safetensors *file = open_tensors(training_of(save));
    for (int i = 0; i < 2; i++) {
        const struct gyre_stored_tensor *tensor = gyre_safetensors_find(file, names[i]);
        assert_non_null(tensor);
        assert_true(tensor->type == GYRE_STORED_F64 && tensor->bytes == 3 * sizeof(double));
        memcpy(number + 3 * i, tensor->data, tensor->bytes);
    }
    gyre_safetensors_close(file);
}

/* -- the numbers ------------------------------------------------------------------------------- */

static void any_ranks_find_the_same_numbers(void **state)
{
    static const char *const ranks[] = {"1", "2", "3"};
    double number[3][6];
    (void)state;
    clean();
    write_table("t.csv", ROWS);
    for (int i = 0; i < 3; i++) {
        train(ranks[i], ranks[i], "1", "--scale");
        expect_told("standardised: 3 features, ");
        rig_end(&rig);
        read_scale(ranks[i], number[i]);
    }
    assert_memory_equal(number[0], number[1], sizeof number[0]);
    assert_memory_equal(number[0], number[2], sizeof number[0]);
    assert_true(fabs(number[0][0] - 1000050) < 10 && number[0][3] > 20 && number[0][3] < 40);
    assert_true(number[0][2] == 7 && number[0][5] == 1);
}

static void what_cannot_be_learnt_is_learnt(void **state)
{
    (void)state;
    clean();
    write_table("t.csv", ROWS);
    train("save", "2", "20", "--scale");
    expect_told("; best validation accuracy 100.00 % in epoch ");
    rig_end(&rig);
    train("plain", "2", "20", NULL);
    assert_false(rig_has(rig.out_text, "; best validation accuracy 100.00 %"));
    rig_end(&rig);
}

/* -- who goes on ------------------------------------------------------------------------------- */

/* The commands that are told standardise without a word of it. */
static void weights_are_used_as_they_were_trained(void **state)
{
    (void)state;
    clean();
    write_table("t.csv", ROWS);
    train("save", "2", "20", "--scale");
    assert_false(rig_has(line_of("evaluate:"), "--scale"));
    type("evaluate:");
    assert_true(rig_has(line_of(in_folder("t.csv")), "100.00 %"));
    type("predict:");
    expect_told("; 90 samples of ");
    expect_told("accuracy 100.00 %");
    rig_end(&rig);
}

static void a_resumed_run_standardises_as_before(void **state)
{
    char whole[1024];
    (void)state;
    clean();
    write_table("t.csv", ROWS);
    train("whole", "2", "6", "--scale");
    rig_end(&rig);
    train("parts", "2", "3", "--scale");
    rig_end(&rig);
    train("parts", "2", "6", "--resume");
    rig_end(&rig);
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    compare_files(whole, saved_model(in_folder("parts")));
}

/* Other data do not move what the weights stand on. */
static void weights_to_begin_with_bring_their_numbers(void **state)
{
    double before[6], after[6];
    char init[600], more[700];
    (void)state;
    clean();
    write_table("t.csv", ROWS);
    train("save", "2", "2", "--scale");
    rig_end(&rig);
    write_table("t.csv", ROWS / 2);
    snprintf(init, sizeof init, "%s", in_folder("save"));
    snprintf(more, sizeof more, "--init=%s", init);
    train("next", "2", "2", more);
    rig_end(&rig);
    read_scale("save", before);
    read_scale("next", after);
    assert_memory_equal(before, after, sizeof before);
}

static void inspect_shows_the_numbers(void **state)
{
    (void)state;
    clean();
    write_table("t.csv", ROWS);
    train("save", "1", "1", "--scale");
    rig_end(&rig);
    run(0, (const char *[]){"inspect", training_of("save"), NULL});
    expect_told("scale.deviation ");
    expect_told("scale.mean ");
    rig_end(&rig);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void refuse(const char *const *words, const char *says)
{
    run(2, words);
    if (!rig_has(rig.err_text, says))
        fail_msg("\"%s\" is not in: %s", says, rig.err_text);
    rig_end(&rig);
}

static void other_data_are_refused(void **state)
{
    char table[600], save[600];
    (void)state;
    clean();
    write_table("t.csv", ROWS);
    snprintf(table, sizeof table, "%s", in_folder("t.csv"));
    snprintf(save, sizeof save, "%s", in_folder("save"));
    refuse((const char *[]){"train", "--data", "wine", "--scale", "--ranks", "2", NULL},
           "--scale: wine: only a table, a .csv file, is standardised");
    refuse((const char *[]){"train", "--data", table, "--scale", "--test", "random:9,3,3", NULL},
           "--scale: random:9,3,3: only a table");
    refuse(
        (const char *[]){"train", "--data", table, "--init", save, "--evaluate", "--scale", NULL},
        "--scale is of a training; --evaluate does");
    train("save", "1", "1", NULL);
    rig_end(&rig);
    refuse((const char *[]){"train", "--data", table, "--save", save, "--resume", "--scale",
                            "--validation", "0.2", "--optimizer", "adam", "--ranks", "2", NULL},
           "was saved without --scale, and this run has it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_find_the_same_numbers),
        cmocka_unit_test(what_cannot_be_learnt_is_learnt),
        cmocka_unit_test(weights_are_used_as_they_were_trained),
        cmocka_unit_test(a_resumed_run_standardises_as_before),
        cmocka_unit_test(weights_to_begin_with_bring_their_numbers),
        cmocka_unit_test(inspect_shows_the_numbers),
        cmocka_unit_test(other_data_are_refused),
    };
    return cmocka_run_group_tests_name("gyre train --scale", tests, NULL, NULL);
}
