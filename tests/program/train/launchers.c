/* gyre train under launchers that are not Gyre's: it ends where it ends under `gyre run`, with the
 * same bits, because ranks on one machine are the same job whoever started them. */
#include "rig/clean_room.h"
#include "rig/train_rig.h"
#include "rig/under.h"
#include "rig/test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char words[2048];
static struct metrics expected, got;

/* Two ranks of `gyre run`; the file of numbers is written anew by each run. */
static int train_by_gyre(void **state)
{
    char line[4096];
    snprintf(words, sizeof words, "'%s' train --preset wine --epochs 4 --quiet --metrics '%s'",
             rig_tool(), in_folder("metrics"));
    snprintf(line, sizeof line, "'%s' run -n 2 %s", rig_tool(), words);
    if (under_make_home(state))
        return -1;
    if (under_nothing(line) != 0) {
        print_message("%s\n", under_output);
        return -1;
    }
    read_metrics(in_folder("metrics"), &expected);
    return expected.epochs == 4 ? 0 : -1;
}

static int begin_anew(void **state)
{
    (void)state;
    clean();
    return 0;
}

static void expect_the_same(int code)
{
    if (code)
        fail_msg("exit code %d:\n%s", code, under_output);
    read_metrics(in_folder("metrics"), &got);
    assert_int_equal(got.epochs, expected.epochs);
    assert_int_equal(got.steps, expected.steps);
    assert_memory_equal(got.step, expected.step, (size_t)got.steps * sizeof *got.step);
    assert_memory_equal(got.epoch, expected.epoch, (size_t)got.epochs * sizeof *got.epoch);
    assert_memory_equal(got.tested, expected.tested, (size_t)got.epochs * sizeof *got.tested);
}

static void mpirun_trains_alike(void **state)
{
    (void)state;
    expect_the_same(under_mpirun(2, words));
}

static void mpiexec_trains_alike(void **state)
{
    (void)state;
    expect_the_same(under_mpiexec(2, words));
}

static void torchrun_trains_alike(void **state)
{
    (void)state;
    expect_the_same(under_torchrun(2, "True", words));
    clean();
    expect_the_same(under_torchrun(2, "False", words));
}

static void the_real_torchrun_trains_alike(void **state)
{
    (void)state;
    expect_the_same(under_real_torchrun(2, words));
}

static void srun_trains_alike(void **state)
{
    (void)state;
    expect_the_same(under_srun(2, words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(mpirun_trains_alike, begin_anew),
        cmocka_unit_test_setup(mpiexec_trains_alike, begin_anew),
        cmocka_unit_test_setup(torchrun_trains_alike, begin_anew),
        cmocka_unit_test_setup(the_real_torchrun_trains_alike, begin_anew),
        cmocka_unit_test_setup(srun_trains_alike, begin_anew),
    };
    clean_room_only_path();
    if (access(rig_tool(), X_OK)) {
        printf("skipped: %s is not built\n", rig_tool());
        return 77;
    }
    return cmocka_run_group_tests_name("gyre train under launchers", tests, train_by_gyre,
                                       under_remove_home);
}
