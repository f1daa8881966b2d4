/* What gyre train does not begin, because it could not end well: sizes that the data cannot fill,
 * and folders that nothing could be saved into. Nobody trains for hours to learn of it. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MOST 6

static void train(const char *const more[WORDS_MOST])
{
    const char *words[6 + WORDS_MOST + 1] = {"train",    "--preset", "wine",
                                             "--epochs", "1",        "--quiet"};
    for (int i = 0; i < WORDS_MOST && more[i]; i++)
        words[6 + i] = more[i];
    rig_run(&rig, NULL, words);
}

static void expect_refusal(const char *const more[WORDS_MOST], const char *text)
{
    train(more);
    if (!rig.code || !rig_has(rig.err_text, text))
        fail_msg("exit code %d, expected one with \"%s\":\n%s", rig.code, text, rig.err_text);
    assert_false(rig_has(rig.err_text, "is not saved")); /* that is what the end would say */
    rig_end(&rig);
}

static void expect_training(const char *const more[WORDS_MOST])
{
    train(more);
    if (rig.code)
        fail_msg("exit code %d:\n%s", rig.code, rig.err_text);
    rig_end(&rig);
}

static void sizes_beyond_the_data(void **state)
{
    (void)state;
    expect_refusal((const char *[WORDS_MOST]){"--batch", "143"},
                   "--batch 143 is larger than wine, which has 142 samples: at most 142\n");
    expect_refusal((const char *[WORDS_MOST]){"--batch", "143", "--ranks", "2"}, "at most 142\n");
    expect_refusal((const char *[WORDS_MOST]){"--global-batch", "144", "--ranks", "2"},
                   "--global-batch 144 is larger than wine");
    expect_training((const char *[WORDS_MOST]){"--batch", "71", "--ranks", "2"});
    expect_training((const char *[WORDS_MOST]){"--global-batch", "284", "--accumulate", "2"});
}

/* As PyTorch has it: 142 samples are 18 for each of 8 ranks, so a batch of 32 is 18. */
static void a_batch_is_at_most_a_share(void **state)
{
    char *text;
    const char *words[] = {"train", "--preset", "wine",      "--ranks", "8", "--epochs",
                           "1",     "--quiet",  "--metrics", NULL,      NULL};
    (void)state;
    clean();
    words[9] = in_folder("m");
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d:\n%s", rig.code, rig.err_text);
    rig_end(&rig);
    text = read_text(words[9]);
    assert_true(rig_has(text, "\"step\":1,\"epoch\":1,\"samples\":144,"));
    assert_false(rig_has(text, "\"step\":2,"));
    free(text);
}

static void more_ranks_than_samples(void **state)
{
    const char *words[] = {"train", "--layers", "2,2", "--ranks", "3", "--data", NULL, NULL};
    (void)state;
    clean();
    words[6] = in_folder("two.csv");
    write_lines(words[6], "1,2,0\n3,4,1\n");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "3 ranks are more than the 2 samples of "));
    assert_false(rig_has(rig.err_text, "failed first")); /* all of them refuse it */
    rig_end(&rig);
}

static void folders_that_take_nothing(void **state)
{
    char file[300];
    (void)state;
    clean();
    snprintf(file, sizeof file, "%s", in_folder("file"));
    write_lines(file, "no folder\n");
    expect_refusal((const char *[WORDS_MOST]){"--save", file, "--ranks", "2"}, "Not a directory");
    expect_refusal((const char *[WORDS_MOST]){"--save", "/proc/gyre"}, "--save: /proc/gyre");
}

/* A second run into the folder of a first would be lost to whoever resumes. */
static void a_folder_that_is_ahead(void **state)
{
    char save[300];
    (void)state;
    clean();
    snprintf(save, sizeof save, "%s", in_folder("save"));
    expect_training((const char *[WORDS_MOST]){"--save", save});
    expect_refusal((const char *[WORDS_MOST]){"--save", save}, "holds step 5 already");
    expect_training((const char *[WORDS_MOST]){"--save", save, "--resume", "--epochs", "2"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_beyond_the_data),   cmocka_unit_test(a_batch_is_at_most_a_share),
        cmocka_unit_test(more_ranks_than_samples), cmocka_unit_test(folders_that_take_nothing),
        cmocka_unit_test(a_folder_that_is_ahead),
    };
    return cmocka_run_group_tests_name("gyre train, refused", tests, NULL, NULL);
}
