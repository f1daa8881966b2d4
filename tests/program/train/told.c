/* What gyre train says before its first step: how a learning rate may follow the ranks, and what is
 * not as it was where it goes on. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MOST 8

/* Trains Wine in the folder "save" and leaves what was told in rig. */
static void train(const char *ranks, const char *epochs, const char *const more[WORDS_MOST])
{
    const char *words[10 + WORDS_MOST + 1] = {"train",  "--preset", "wine",     "--ranks",  ranks,
                                              "--save", NULL,       "--resume", "--epochs", epochs};
    words[6] = in_folder("save");
    for (int i = 0; i < WORDS_MOST && more[i]; i++)
        words[10 + i] = more[i];
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

static void expect_untold(const char *text)
{
    if (rig_has(rig.out_text, text))
        fail_msg("\"%s\" is in:\n%s", text, rig.out_text);
}

#define HINT                                                                                       \
    "hint: 3 ranks make steps 3 times as large as one; a learning rate up to 3 times as high "     \
    "(--scale-lr), with --warmup, may suit them\n"

/* Where a step is as large as on one rank, or the run goes on, there is nothing to hint at. */
static void more_ranks_may_learn_faster(void **state)
{
    (void)state;
    clean();
    train("3", "1", (const char *[WORDS_MOST]){NULL});
    expect_told(HINT);
    rig_end(&rig);
    train("3", "2", (const char *[WORDS_MOST]){NULL});
    expect_untold("hint");
    rig_end(&rig);
    clean();
    train("3", "1", (const char *[WORDS_MOST]){"--global-batch", "96"});
    expect_untold("hint");
    rig_end(&rig);
    clean();
    train("1", "1", (const char *[WORDS_MOST]){NULL});
    expect_untold("hint");
    rig_end(&rig);
}

/* The rate of one rank, times the ranks; other ranks are another rate, and say so. */
static void a_rate_follows_the_ranks(void **state)
{
    (void)state;
    clean();
    train("3", "1", (const char *[WORDS_MOST]){"--scale-lr"});
    expect_told("the learning rate is 0.003, 0.001 for each of 3 ranks\n");
    expect_untold("hint");
    rig_end(&rig);
    train("2", "2", (const char *[WORDS_MOST]){"--scale-lr"});
    expect_told("goes on with lr 0.002; the checkpoint had 0.003\n");
    expect_told("the learning rate is 0.002, 0.001 for each of 2 ranks\n");
    rig_end(&rig);
    train("1", "3", (const char *[WORDS_MOST]){"--lr", "0.002"});
    expect_untold("goes on with lr");
    rig_end(&rig);
}

/* Each in a line of its own, with --quiet too; what is the same is not told. */
static void what_changes_is_told(void **state)
{
    static const struct {
        const char *more[WORDS_MOST], *says;
    } changes[] = {
        {{"--lr", "0.01"}, "goes on with lr 0.01; the checkpoint had 0.001\n"},
        {{"--schedule", "step", "--warmup", "9"},
         "goes on with schedule times 0.1 every 30 epochs, warm-up of 9 steps; the checkpoint had "
         "constant\n"},
        {{"--schedule", "cosine", "--quiet"},
         "goes on with schedule cosine to 0 over 2 epochs; the checkpoint had constant\n"},
        {{"--batch", "16"},
         "goes on with batch 32 of all ranks; the checkpoint had 64 of all ranks\n"},
        {{"--batch", "16", "--accumulate", "2"}, NULL},
        {{"--clip", "2", "--precision", "bf16", "--quiet"},
         "goes on with settings betas 0.9 and 0.999, eps 1e-08, weight decay 0, clip 2, bf16; the "
         "checkpoint had betas 0.9 and 0.999, eps 1e-08, weight decay 0, f32\n"},
        {{"--weight-decay", "0", "--quiet"}, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        clean();
        train("2", "1", (const char *[WORDS_MOST]){NULL});
        rig_end(&rig);
        train("2", "2", changes[i].more);
        if (changes[i].says)
            expect_told(changes[i].says);
        else
            expect_untold("; the checkpoint had");
        rig_end(&rig);
    }
}

/* The new rate counts at once. */
static void a_new_rate_counts(void **state)
{
    char *text;
    (void)state;
    clean();
    train("2", "1", (const char *[WORDS_MOST]){NULL});
    rig_end(&rig);
    train("2", "2",
          (const char *[WORDS_MOST]){"--lr", "0.25", "--quiet", "--metrics", in_folder("m")});
    rig_end(&rig);
    text = read_text(in_folder("m"));
    assert_true(read_number(text, "learning_rate") == 0.25);
    free(text);
}

/* GYRE_TERMINAL may come from another machine, where its path means something else. */
static void a_file_is_no_terminal(void **state)
{
    (void)state;
    clean();
    const char *path = in_folder("diary");
    write_lines(path, "my diary\n");
    setenv("GYRE_TERMINAL", path, 1);
    train("1", "1", (const char *[WORDS_MOST]){NULL});
    unsetenv("GYRE_TERMINAL");
    expect_told("epoch 1/1");
    rig_end(&rig);
    char *text = read_text(path);
    assert_string_equal(text, "my diary\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_ranks_may_learn_faster), cmocka_unit_test(a_rate_follows_the_ranks),
        cmocka_unit_test(what_changes_is_told),        cmocka_unit_test(a_new_rate_counts),
        cmocka_unit_test(a_file_is_no_terminal),
    };
    return cmocka_run_group_tests_name("gyre train, told", tests, NULL, NULL);
}
