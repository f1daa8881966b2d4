/* The table of options: which of them all ranks must be told alike, and that the text that ranks
 * compare tells each of those. Every option of the table is asked, so no new one can be forgotten.
 * What an option does is tested by tests/program/train/options.c. */
#include "ddp/agreement.h"
#include "train/options.h"

#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two of these are values of every option. */
static const char *const values[] = {
    "yes",           "no",   "1",    "2",   "0.25", "0.5",      "mlp",    "convnet", "mse",
    "cross-entropy", "f32",  "bf16", "sgd", "adam", "constant", "cosine", "torch",   "samples",
    "repeat",        "once", "cpu",  "cuda"};

enum { VALUES = sizeof values / sizeof *values };

/* Paths, which may differ, and what rank 0 alone writes. All others must be equal. */
static const char *const own[] = {"data", "labels",      "test-labels", "metrics", "csv",
                                  "svg",  "tensorboard", "quiet",       NULL};
static const char *const given[] = {"test", "init", "save", NULL}; /* on all ranks or on none */

static bool is_among(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* The text of the options with one of them set; NULL where it takes no such value. */
static char *text_with(const char *name, const char *value)
{
    struct gyre_train_options options;
    struct gyre_trouble trouble = {0};
    struct gyre_lines lines = {0};
    gyre_train_options_init(&options);
    if (value && gyre_train_option_set(&options, name, value, &trouble))
        return NULL;
    gyre_train_options_put(&options, &lines);
    assert_false(lines.lost);
    return lines.text;
}

/* Texts of the option not given and given as its first two values. */
static void texts_of(const char *name, char *text[3])
{
    int found = 0;
    text[0] = text_with(name, NULL);
    for (int i = 0; i < VALUES && found < 2; i++)
        if ((text[found + 1] = text_with(name, values[i])))
            found++;
    if (found < 2)
        fail_msg("--%s takes less than two of the values that this test knows: add some", name);
}

static void expect_line(const char *text, const char *name, const char *value)
{
    char line[128];
    snprintf(line, sizeof line, "--%s\t%s\n", name, value);
    if (!strstr(text, line))
        fail_msg("'%s' is not in:\n%s", line, text);
}

static void check_option(const char *name)
{
    char *text[3], line[64];
    texts_of(name, text);
    snprintf(line, sizeof line, "--%s\t", name);
    if ((strstr(text[0], line) == NULL) != is_among(own, name))
        fail_msg("--%s: is %scompared", name, is_among(own, name) ? "" : "not ");
    if (is_among(given, name)) {
        expect_line(text[0], name, "not given");
        expect_line(text[1], name, "given");
        assert_string_equal(text[1], text[2]);
    } else if (!is_among(own, name)) {
        if (strcmp(text[1], text[2]) == 0)
            fail_msg("--%s: two values have one text", name);
    }
    for (int i = 0; i < 3; i++)
        free(text[i]);
}

static void every_option_is_compared_but_paths_and_outputs(void **state)
{
    const char *name, *value, *help;
    int options = 0;
    (void)state;
    while ((name = gyre_train_option_at(options, &value, &help))) {
        check_option(name);
        options++;
    }
    assert_true(options > 40);
}

static void values_are_told_as_they_were_given(void **state)
{
    static const char *const told[][3] = {
        {"seed", "7", "7"},
        {"lr", "1e-3", "0.001"},
        {"lr", "0.1", "0.1"},
        {"bucket", "1K", "1024"},
        {"optimizer", "adam", "adam"},
        {"layers", "2,3", "2,3"},
        {"no-shuffle", NULL, "no"},
        {"no-shuffle", "yes", "yes"},
        {"batch", NULL, "not given"},
        {"weight-decay", "0", "0"},
        {"clip", NULL, "0"},
        {"shares", NULL, "not given"},
        {"weight-decay", NULL, "not given"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        char *text = text_with(told[i][0], told[i][1]);
        assert_non_null(text);
        expect_line(text, told[i][0], told[i][2]);
        free(text);
    }
}

/* Numbers that differ in their last bit have different texts. */
static void no_digit_is_lost(void **state)
{
    char *one = text_with("lr", "0.1"), *two = text_with("lr", "0.10000000000000002");
    (void)state;
    assert_true(strcmp(one, two) != 0);
    free(one);
    free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_compared_but_paths_and_outputs),
        cmocka_unit_test(values_are_told_as_they_were_given),
        cmocka_unit_test(no_digit_is_lost),
    };
    return cmocka_run_group_tests_name("train/options", tests, NULL, NULL);
}
