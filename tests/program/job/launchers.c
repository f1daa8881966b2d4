/* One program, unchanged, under every launcher: it finds its ranks, its key and its meeting
 * place. */
#include "rig/clean_room.h"
#include "rig/under.h"
#include "rig/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAGS "-b 8 -e 4K -f 8 -n 2 --no-ceiling"
#define ROWS  4

static char bench[4200], words[8192];

/* -- helpers ----------------------------------------------------------------------------------- */

static bool find_bench(void)
{
    under_build(bench, sizeof bench, "bench/allreduce");
    snprintf(words, sizeof words, "'%s' " FLAGS, bench);
    return access(bench, X_OK) == 0;
}

static void expect(int code, int expected, const char *text)
{
    if (code != expected || !strstr(under_output, text)) {
        fail_msg("exit code %d, expected %d and \"%s\":\n%s", code, expected, text, under_output);
    }
}

/* Rows begin with a blank, all other lines of a good run with '#'. */
static void expect_rows(int code, const char *ranks)
{
    int rows = 0;
    expect(code, 0, "# Out of bounds values : 0 OK");
    expect(code, 0, ranks);
    for (const char *at = under_output; *at; at++) {
        rows += at[0] == '\n' && at[1] == ' ';
    }
    assert_int_equal(rows, ROWS);
}

/* -- MPI --------------------------------------------------------------------------------------- */

static void test_mpirun(void **state)
{
    expect_rows(under_mpirun(2, words), "2 ranks on 1 node");
}

static void test_mpiexec(void **state)
{
    expect_rows(under_mpiexec(2, words), "2 ranks on 1 node");
}

/* Whoever is told nothing of an address meets by a file; it is gone when all have met. */
static void test_no_root_file_is_left(void **state)
{
    char line[128];
    snprintf(line, sizeof line, "ls '%s/.config/gyre' 2>/dev/null | grep root-; true",
             under_home());
    assert_int_equal(under_nothing(line), 0);
    assert_string_equal(under_output, "");
}

/* -- torchrun ---------------------------------------------------------------------------------- */

static void test_torchrun_with_its_store_on_the_port(void **state)
{
    expect_rows(under_torchrun(3, "True", words), "3 ranks on 1 node");
}

/* The port was free when torchrun chose it; somebody took it meanwhile. */
static void test_torchrun_with_a_stranger_on_the_port(void **state)
{
    expect_rows(under_torchrun(3, "False", words), "3 ranks on 1 node");
}

/* -- Slurm ------------------------------------------------------------------------------------- */

static void test_srun(void **state)
{
    expect_rows(under_srun(3, words), "3 ranks on 1 node");
}

static void test_sbatch_without_srun(void **state)
{
    char line[8192];
    snprintf(
        line, sizeof line,
        "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 '%s' " FLAGS,
        bench);
    expect(under_nothing(line), 2, "started outside srun?");
}

static void test_a_rank_without_a_size(void **state)
{
    char line[8192];
    snprintf(line, sizeof line, "RANK=1 '%s' " FLAGS, bench);
    expect(under_nothing(line), 2, "RANK is \"1\" but WORLD_SIZE is not set");
}

/* -- all --------------------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mpirun),
        cmocka_unit_test(test_mpiexec),
        cmocka_unit_test(test_no_root_file_is_left),
        cmocka_unit_test(test_torchrun_with_its_store_on_the_port),
        cmocka_unit_test(test_torchrun_with_a_stranger_on_the_port),
        cmocka_unit_test(test_srun),
        cmocka_unit_test(test_sbatch_without_srun),
        cmocka_unit_test(test_a_rank_without_a_size),
    };
    clean_room_only_path();
    if (!find_bench()) {
        printf("skipped: %s is not built\n", bench);
        return 77;
    }
    return cmocka_run_group_tests_name("program/job/launchers", tests, under_make_home,
                                       under_remove_home);
}
