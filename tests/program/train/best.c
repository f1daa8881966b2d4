/* What follows from the best epoch of gyre train: --keep best keeps its checkpoint and uses it,
 * --patience ends a run that has none for too long. Where the learning rate is 0 no epoch is better
 * than the one before. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- keep best --------------------------------------------------------------------------------- */

/* Wine on one rank, where an epoch is 5 steps. */
static void keep(const char *count, const char *lr, const char *epochs)
{
    const char *words[] = {"train",  "--preset", "wine",         "--lr", lr,
                           "--keep", count,      "--epochs",     epochs, "--save",
                           NULL,     "--resume", "--save-every", "3",    NULL};
    words[10] = in_folder("save");
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

static bool has_step(int step)
{
    char name[64];
    snprintf(name, sizeof name, "save/step-%08d", step);
    return access(in_folder(name), F_OK) == 0;
}

/* Evaluates what --init takes of the folder. */
static void expect_used(const char *step)
{
    const char *words[] = {"train", "--evaluate", "--init", NULL, "--data", "wine", NULL};
    words[3] = in_folder("save");
    rig_run(&rig, NULL, words);
    assert_int_equal(rig.code, 0);
    expect_told(step);
}

/* An epoch is saved for being the best, whatever --save-every says; two epochs of learning, six
 * of none. */
static void the_best_checkpoint_stays_and_is_used(void **state)
{
    (void)state;
    clean();
    keep("best", "0.001", "2");
    expect_told("in epoch 2; saved in ");
    expect_told(", the best epoch beside the newest\n");
    rig_end(&rig);
    assert_true(has_step(5) && has_step(10));
    keep("best", "0", "8");
    expect_told("in epoch 2; saved in ");
    rig_end(&rig);
    assert_true(has_step(10) && has_step(30) && has_step(40));
    assert_false(has_step(5) || has_step(15));
    expect_used("/save, step 10;");
    rig_end(&rig);
}

static void without_the_best_the_newest_is_used(void **state)
{
    (void)state;
    clean();
    keep("best", "0.001", "2");
    rig_end(&rig);
    keep("best", "0", "8");
    rig_end(&rig);
    assert_int_equal(truncate(in_folder("save/step-00000010/model.safetensors"), 9), 0);
    expect_used("/save, step 40;");
    assert_true(
        rig_has(rig.err_text, "passed over the best checkpoint, of step 10, for the newest"));
    rig_end(&rig);
    keep("2", "0", "9"); /* goes on from the newest, and keeps no best */
    expect_told("goes on after step 40, ");
    rig_end(&rig);
    assert_true(!has_step(10) && has_step(40) && has_step(45));
    expect_used("/save, step 45;");
    assert_false(rig_has(rig.err_text, "passed over"));
    rig_end(&rig);
}

static void a_best_needs_a_place(void **state)
{
    (void)state;
    rig_run(&rig, NULL, (const char *[]){"train", "--preset", "wine", "--keep", "best", NULL});
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "--keep best need --save DIR"));
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *[]){"train", "--preset", "wine", "--keep", "bset", NULL});
    assert_int_equal(rig.code, 2);
    assert_true(rig_has(rig.err_text, "a whole number from 1 to 1000000, or best"));
    rig_end(&rig);
}

/* -- patience ---------------------------------------------------------------------------------- */

/* Wine on two ranks, with nothing learnt. */
static void wait_in_vain(const char *patience, const char *epochs, const char *more)
{
    const char *words[] = {"train", "--data",     "wine",   "--validation", "0.25", "--lr",
                           "0",     "--ranks",    "2",      "--save",       NULL,   "--epochs",
                           epochs,  "--patience", patience, "--save-every", "100",  more,
                           NULL};
    words[10] = in_folder("save");
    rig_run(&rig, NULL, words);
    if (rig.code)
        fail_msg("exit code %d: %s", rig.code, rig.err_text);
}

/* Two steps are an epoch; what is done when it ends is saved. */
static void patience_ends_a_run(void **state)
{
    (void)state;
    clean();
    wait_in_vain("3", "50", NULL);
    expect_told("stopped after epoch 4 of 50: no epoch was better than epoch 1, and --patience is "
                "3\ndone: 4 epochs, 8 steps, ");
    assert_true(has_step(8));
    type("go on:");
    expect_told("stopped after epoch 7 of 50: no epoch was better than epoch 1, and --patience is "
                "6\n");
    rig_end(&rig);
}

/* A run that did less than it was told says so, whatever else it is not to say. */
static void a_quiet_run_says_that_too(void **state)
{
    (void)state;
    clean();
    wait_in_vain("1", "50", "--quiet");
    assert_string_equal(rig.out_text, "stopped after epoch 2 of 50: no epoch was better than "
                                      "epoch 1, and --patience is 1\n");
    rig_end(&rig);
}

/* The epochs before a stop count. */
static void patience_outlasts_a_resume(void **state)
{
    (void)state;
    clean();
    wait_in_vain("4", "3", NULL);
    expect_told("done: 3 epochs, 6 steps, ");
    assert_false(rig_has(rig.out_text, "stopped"));
    rig_end(&rig);
    wait_in_vain("4", "50", "--resume");
    expect_told("stopped after epoch 5 of 50: no epoch was better than epoch 1, ");
    rig_end(&rig);
    wait_in_vain("4", "50", "--resume");
    expect_told("nothing to do: ");
    expect_told(" has epoch 5 of 50 already, none was better than epoch 1, and --patience is 4\n");
    rig_end(&rig);
}

/* While every epoch is better than those before. */
static void a_run_that_learns_is_left_alone(void **state)
{
    (void)state;
    rig_run(
        &rig, NULL,
        (const char *[]){"train", "--preset", "wine", "--epochs", "6", "--patience", "1", NULL});
    assert_int_equal(rig.code, 0);
    expect_told("done: 6 epochs, ");
    assert_false(rig_has(rig.out_text, "stopped"));
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_checkpoint_stays_and_is_used),
        cmocka_unit_test(without_the_best_the_newest_is_used),
        cmocka_unit_test(a_best_needs_a_place),
        cmocka_unit_test(patience_ends_a_run),
        cmocka_unit_test(a_quiet_run_says_that_too),
        cmocka_unit_test(patience_outlasts_a_resume),
        cmocka_unit_test(a_run_that_learns_is_left_alone),
    };
    return cmocka_run_group_tests_name("gyre train, the best epoch", tests, NULL, NULL);
}
