/* A small program built against Gyre under real launchers, with an odd number of ranks and with
 * more than one node. It is this very program: as a rank it reduces one number and says who it is.
 * (What needs an environment set by hand, torchrun's and srun's, is in launchers.c.)
 *
 *     program/job/environments             the tests
 *     program/job/environments --rank      a rank: "rank 1 of 3 on node 0 of 1: sum 6" */
#include "rig/clean_room.h"
#include "rig/under.h"
#include "rig/test.h"

#include <gyre/gyre.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- a rank ------------------------------------------------------------------------------------ */

static int be_rank(void)
{
    struct gyre_comm *comm;
    if (gyre_init(&comm, NULL)) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 6;
    }
    int32_t sum = gyre_rank(comm) + 1;
    if (gyre_all_reduce(comm, &sum, &sum, 1, GYRE_I32, GYRE_SUM))
        return 7;
    char line[128];
    int length = snprintf(line, sizeof line, "rank %d of %d on node %d of %d: sum %d\n",
                          gyre_rank(comm), gyre_size(comm), gyre_node(comm), gyre_nodes(comm), sum);
    if (write(1, line, (size_t)length) != length) /* one write: lines of ranks do not mix */
        return 8;
    return gyre_finalize(comm) ? 9 : 0;
}

/* -- helpers ----------------------------------------------------------------------------------- */

static void expect_text(const char *text)
{
    if (!strstr(under_output, text))
        fail_msg("expected \"%s\" in:\n%s", text, under_output);
}

/* Every rank spoke, with the sum over all of them; `node_of[rank]` is its node. */
static void expect_ranks(int code, int n, const int *node_of, int nodes)
{
    if (code)
        fail_msg("exit code %d:\n%s", code, under_output);
    for (int rank = 0; rank < n; rank++) {
        char line[128];
        snprintf(line, sizeof line, "rank %d of %d on node %d of %d: sum %d\n", rank, n,
                 node_of[rank], nodes, n * (n + 1) / 2);
        expect_text(line);
    }
}

static const char *as_rank(void)
{
    static char words[4200];
    char self[4096];
    under_build(self, sizeof self, "tests/program_job_environments");
    snprintf(words, sizeof words, "'%s' --rank", self);
    return words;
}

/* `words` with this program as ranks behind them. */
static int run_gyre(const char *words)
{
    char gyre[4096], line[16384];
    under_build(gyre, sizeof gyre, "gyre");
    snprintf(line, sizeof line, "'%s' %s %s", gyre, words, as_rank());
    return under_nothing(line);
}

/* -- tests ------------------------------------------------------------------------------------- */

static const int one_node[8];

static void mpirun_starts_three(void **state)
{
    (void)state;
    expect_ranks(under_mpirun(3, as_rank()), 3, one_node, 1);
}

static void mpiexec_starts_three(void **state)
{
    (void)state;
    expect_ranks(under_mpiexec(3, as_rank()), 3, one_node, 1);
}

static void gyre_run_plays_two_nodes(void **state)
{
    static const int twos[] = {0, 0, 1, 1}, uneven[] = {0, 0, 0, 1};
    (void)state;
    expect_ranks(run_gyre("run -n 4 --no-prefix --simulate-nodes 2+2"), 4, twos, 2);
    expect_ranks(run_gyre("run --no-prefix --simulate-nodes 3+1"), 4, uneven, 2);
}

/* -- all --------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpirun_starts_three),
        cmocka_unit_test(mpiexec_starts_three),
        cmocka_unit_test(gyre_run_plays_two_nodes),
    };
    if (argc > 1 && strcmp(argv[1], "--rank") == 0)
        return be_rank();
    clean_room_only_path();
    return cmocka_run_group_tests(tests, under_make_home, under_remove_home);
}
