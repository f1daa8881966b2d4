/* gyre train, evaluate and predict on a table of the user's own: classes by name, in any column,
 * and in any part of the table the same. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"red", "blue", "dark green"};

/* A path in the folder, as long as the test. */
static const char *path_of(const char *name)
{
    static char path[16][600];
    static int next;
    next = (next + 1) % 16;
    snprintf(path[next], sizeof path[next], "%s/%s", rig_folder(), name);
    return path[next];
}

/* Rows of points around three centres, far apart; `kinds` of them, the name in the first column. */
static const char *write_points(const char *name, int rows, int kinds, const char *head)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(head, file);
    for (int i = 0; i < rows; i++) {
        int kind = i * 7 % kinds;
        fprintf(file, "%s,%d.%d,%d.%d\n", names[kind], kind == 1 ? 3 : 0, i * 37 % 10,
                kind == 2 ? 3 : 0, i * 53 % 10);
    }
    assert_int_equal(fclose(file), 0);
    return path;
}

static void run(int code, const char *const *words)
{
    rig_run(&rig, NULL, words);
    if (rig.code != code)
        fail_msg("exit code %d, not %d:\n%s%s", rig.code, code, rig.out_text, rig.err_text);
}

static void refuse(const char *const *words, const char *says)
{
    run(2, words);
    if (!rig_has(rig.err_text, says))
        fail_msg("\"%s\" is not in: %s", says, rig.err_text);
    rig_end(&rig);
}

static const char *train_points(const char *ranks)
{
    const char *save = path_of("save");
    const char *words[] = {"train",  "--data",  path_of("points.csv"),
                           "--save", save,      "--label-column",
                           "kind",   "--ranks", ranks,
                           "--lr",   "0.1",     "--epochs",
                           "20",     NULL};
    run(0, words);
    return save;
}

/* -- classes ----------------------------------------------------------------------------------- */

static void classes_keep_their_names(void **state)
{
    (void)state;
    clean();
    write_points("points.csv", 120, 3, "kind,x,y\n");
    const char *init = train_points("2");
    expect_told("\n3 classes: blue, dark green, red\n");
    rig_end(&rig);
    /* red is the second of two here, and the third all the same */
    const char *part = write_points("part.csv", 40, 2, "kind,x,y\n");
    run(0, (const char *[]){"train", "--evaluate", "--init", init, "--data", part, NULL});
    assert_true(rig_has(line_of(part), "100.00 %"));
    rig_end(&rig);
    run(0, (const char *[]){"predict", "--init", init, "--data", part, NULL});
    assert_int_equal(strncmp(rig.out_text, "sample,class,label,probability\n0,red,red,", 41), 0);
    assert_true(rig_has(rig.err_text, "label \\ class"));
    assert_true(rig_has(rig.err_text, "dark green"));
    rig_end(&rig);
    write_lines(path_of("bare.csv"), "x,y\n0,3.5\n3.5,0\n");
    run(0, (const char *[]){"predict", "--init", init, "--data", path_of("bare.csv"), NULL});
    assert_int_equal(strncmp(rig.out_text, "sample,class,probability\n0,dark green,", 38), 0);
    assert_true(rig_has(rig.out_text, "\n1,blue,"));
    rig_end(&rig);
}

/* Whoever goes on with weights from before does so with their numbers of classes. */
static void weights_to_begin_with_keep_their_classes(void **state)
{
    (void)state;
    clean();
    write_points("points.csv", 120, 3, "kind,x,y\n");
    const char *init = train_points("1");
    rig_end(&rig);
    const char *part = write_points("part.csv", 40, 2, "kind,x,y\n");
    run(0, (const char *[]){"train", "--init", init, "--data", part, "--label-column", "kind",
                            "--epochs", "1", "--ranks", "2", NULL});
    expect_told("mlp 2,64,3: ");
    expect_told("\n3 classes: blue, dark green, red\n");
    expect_told("  accuracy 100.00 %");
    rig_end(&rig);
}

static void names_that_are_none_are_refused(void **state)
{
    (void)state;
    clean();
    const char *data = write_points("points.csv", 120, 3, "kind,x,y\n");
    const char *other = path_of("other.csv");
    write_lines(other, "kind,x,y\nred,1,2\nblu,3,4\n");
    refuse((const char *[]){"train", "--data", data, "--test", other, "--label-column", "kind",
                            "--ranks", "2", NULL},
           "other.csv, line 3: \"blu\" is none of the 3 classes, blue to red; did you mean "
           "\"blue\"?");
    refuse((const char *[]){"train", "--data", data, NULL},
           "points.csv, line 2, column 1: \"red\" is not a number; if that column is the label, "
           "--label-column names it");
    refuse((const char *[]){"train", "--data", data, "--label-column", "color", NULL},
           "points.csv, line 1: no column is \"color\"");
    const char *init = train_points("1");
    rig_end(&rig);
    refuse((const char *[]){"predict", "--init", init, "--data", other, NULL},
           "line 3: \"blu\" is none of the 3 classes");
}

/* Numbers are names where they do not count from 0. */
static void numbers_may_be_names(void **state)
{
    const char *words[] = {"train", "--data", NULL, "--lr", "0.1", "--save", NULL, "--quiet", NULL};
    (void)state;
    clean();
    words[2] = path_of("from1.csv");
    words[6] = path_of("save");
    write_lines(words[2], "0.1,1\n5.1,3\n0.2,1\n5.2,3\n0.3,1\n5.3,3\n");
    run(0, words);
    rig_end(&rig);
    run(0, (const char *[]){"predict", "--init", words[6], "--data", words[2], NULL});
    assert_true(rig_has(rig.out_text, "\n0,1,1,"));
    assert_true(rig_has(rig.out_text, "\n1,3,3,"));
    assert_true(rig_has(rig.err_text, "; accuracy 100.00 %"));
    rig_end(&rig);
}

/* -- from the tool's own page to a prediction -------------------------------------------------- */

/* Each command is printed by the one before, and works where it is typed. */
static void each_command_prints_the_next(void **state)
{
    (void)state;
    clean();
    FILE *table = fopen(path_of("table.csv"), "w");
    assert_non_null(table);
    for (int i = 0; i < 120; i++)
        fprintf(table, "%d,%d.5,%s\n", 1000 + i * 7 % 10, i % 3, names[i % 3]);
    assert_int_equal(fclose(table), 0);
    run(0, (const char *[]){"help", NULL});
    type("examples:");
    expect_told("; best validation accuracy ");
    type("evaluate:");
    expect_told("\ntable.csv (validation)");
    type("predict:");
    expect_told("; 120 samples of table.csv; accuracy ");
    char *predictions = read_text(in_folder("predictions.csv"));
    assert_true(rig_has(predictions, "sample,class,label,probability\n0,"));
    assert_true(rig_has(predictions, "\n119,"));
    free(predictions);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_keep_their_names),
        cmocka_unit_test(weights_to_begin_with_keep_their_classes),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(numbers_may_be_names),
        cmocka_unit_test(each_command_prints_the_next),
    };
    return cmocka_run_group_tests_name("gyre train, a table of one's own", tests, NULL, NULL);
}
