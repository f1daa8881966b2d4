/* gyre train started again after a failure: it goes on from its newest checkpoint, whoever starts
 * it, and ends with the bits of a run in one go. */
#include "rig/train_rig.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first start ends after 4 of 6 epochs, and badly. */
static void a_restart_goes_on(void **state)
{
    char script[4096], whole[1024];
    const char *one_go[] = {"train",    "--preset", "wine",   "--ranks", "2",
                            "--epochs", "6",        "--save", NULL,      NULL};
    (void)state;
    clean();
    one_go[8] = in_folder("whole");
    expect_success(one_go);
    snprintf(whole, sizeof whole, "%s", saved_model(in_folder("whole")));
    snprintf(script, sizeof script,
             "train() { '%s' train --preset wine --save '%s' --epochs $1; };"
             "if [ $GYRE_EPOCH = 0 ]; then train 4; exit 1; fi; train 6",
             rig_tool(), in_folder("parts"));
    rig_run(&rig, NULL, WORDS("-n", "2", "--restarts", "1", "--restart-pause", "0", SHELL(script)));
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "goes on after step 12, "));
    rig_end(&rig);
    compare_files(whole, saved_model(in_folder("parts")));
}

/* Without --resume, which only the ranks of a later start add. */
static void a_killed_rank_of_ranks_is_survived(void **state)
{
    const char *words[] = {"train",      "--preset", "wine", "--ranks",    "2", "--epochs",
                           "1000000000", "--save",   NULL,   "--restarts", "1", NULL};
    (void)state;
    clean();
    words[8] = in_folder("save");
    rig_start_endless(&rig, words);
    rig_wait_for(&rig, "epoch 2/"); /* the first is saved */
    rig_signal_rank(&rig, 1, SIGKILL);
    rig_wait_for(&rig, "gyre run: restart 1 of 1 in 1 s: rank 1 on ");
    rig_wait_for(&rig, "goes on after step ");
    rig_signal(&rig, SIGUSR1); /* has no deadline, as SIGTERM has */
    rig_wait_end(&rig);
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, "--restarts 1 --resume\n"));
    rig_wait_lifeless(&rig);
    rig_end(&rig);
}

/* The checkpoints of another training are not taken for this one's. */
static void a_folder_that_is_in_use_is_refused(void **state)
{
    const char *words[] = {"train", "--preset", "wine", "--ranks",    "1", "--epochs",
                           "2",     "--save",   NULL,   "--restarts", "3", NULL};
    (void)state;
    clean();
    words[8] = in_folder("save");
    expect_success(words);
    rig_run(&rig, NULL, words);
    rig_expect(&rig, 2, "exit code 2");
    assert_true(rig_has(rig.err_text, "already, which resuming would take"));
    assert_false(rig_has(rig.err_text, "restart"));
    rig_end(&rig);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    rig_run(&rig, NULL,
            (const char *const[]){"train", "--preset", "wine", "--restarts", "1", NULL});
    rig_expect(&rig, 2, "--restarts is of the ranks that --ranks starts");
    rig_end(&rig);
    rig_run(&rig, NULL,
            (const char *const[]){"train", "--preset", "wine", "--ranks", "2", "--restarts", "1",
                                  NULL});
    rig_expect(&rig, 2, "--restarts needs --save DIR");
    rig_end(&rig);
    rig_run(&rig, NULL,
            (const char *const[]){"train", "--preset", "wine", "--scaling", "1", "--restarts", "1",
                                  NULL});
    rig_expect(&rig, 2, "--restarts does not go with --scaling");
    rig_end(&rig);
    rig_run(&rig, NULL,
            (const char *const[]){"train", "--preset", "wine", "--ranks", "2", "--save", "x",
                                  "--restarts", "often", NULL});
    rig_expect(&rig, 2, "--restarts is \"often\"");
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_goes_on),
        cmocka_unit_test(a_killed_rank_of_ranks_is_survived),
        cmocka_unit_test(a_folder_that_is_in_use_is_refused),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("gyre train --restarts", tests, NULL, NULL);
}
