/* A small program built against Gyre under real launchers, with an odd number of ranks and with
 * more than one node. It is this very program: as a rank it reduces one number and says who it is.
 * (What needs an environment set by hand, torchrun's and srun's, is in proc_launchers.c.)
 *
 *     proc_environments             the tests
 *     proc_environments --rank      a rank: "rank 1 of 3 on node 0 of 1: sum 6" */
#include "clean_room.h"

#include <gyre/gyre.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char home[] = "/tmp/gyre-test-environments-XXXXXX";
static char self[4096], output[1 << 16];

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

/* Runs a shell line in a home of its own, without any launcher's variables; the exit code. */
static int run(const char *line)
{
    char command[16384];
    int length = snprintf(command, sizeof command,
                          "exec 2>&1; env -i PATH='%s' HOME='%s' GYRE_JOIN_TIMEOUT=30s "
                          "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c \"%s\"",
                          getenv("PATH"), home, line);
    assert_true(length < (int)sizeof command);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_text(const char *text)
{
    if (!strstr(output, text))
        fail_msg("expected \"%s\" in:\n%s", text, output);
}

/* Every rank spoke, with the sum over all of them; `node_of[rank]` is its node. */
static void expect_ranks(int code, int n, const int *node_of, int nodes)
{
    if (code)
        fail_msg("exit code %d:\n%s", code, output);
    for (int rank = 0; rank < n; rank++) {
        char line[128];
        snprintf(line, sizeof line, "rank %d of %d on node %d of %d: sum %d\n", rank, n,
                 node_of[rank], nodes, n * (n + 1) / 2);
        expect_text(line);
    }
}

static void need(const char *tool)
{
    char line[64];
    snprintf(line, sizeof line, "command -v %s", tool);
    if (run(line) != 0) {
        print_message("skipped: %s is not installed\n", tool);
        skip();
    }
}

/* `words` with every "SELF" replaced by this program as a rank. */
static int run_ranks(const char *words)
{
    char line[8192];
    const char *at = strstr(words, "SELF");
    assert_non_null(at);
    snprintf(line, sizeof line, "%.*s'%s' --rank%s", (int)(at - words), words, self, at + 4);
    return run(line);
}

/* -- tests ------------------------------------------------------------------------------------- */

static const int one_node[8];

static void mpirun_starts_three(void **state)
{
    (void)state;
    need("mpirun");
    expect_ranks(run_ranks("mpirun --allow-run-as-root --oversubscribe -n 3 SELF"), 3, one_node, 1);
}

static void mpiexec_starts_three(void **state)
{
    (void)state;
    need("mpiexec.hydra");
    expect_ranks(run_ranks("mpiexec.hydra -n 3 SELF"), 3, one_node, 1);
}

static void gyre_run_plays_two_nodes(void **state)
{
    static const int twos[] = {0, 0, 1, 1}, uneven[] = {0, 0, 0, 1};
    char words[8192];
    char *slash;
    (void)state;
    snprintf(words, sizeof words, "%s", self);
    for (int up = 0; up < 2 && (slash = strrchr(words, '/')); up++)
        *slash = '\0';
    size_t length = strlen(words);
    snprintf(words + length, sizeof words - length,
             "/gyre run -n 4 --no-prefix --simulate-nodes 2+2 SELF");
    expect_ranks(run_ranks(words), 4, twos, 2);
    snprintf(words + length, sizeof words - length,
             "/gyre run --no-prefix --simulate-nodes 3+1 SELF");
    expect_ranks(run_ranks(words), 4, uneven, 2);
}

/* -- all --------------------------------------------------------------------------------------- */

static int make_home(void **state)
{
    (void)state;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    return length <= 0 || clean_room_make(home);
}

static int remove_home(void **state)
{
    (void)state;
    return clean_room_remove(home);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mpirun_starts_three),
        cmocka_unit_test(mpiexec_starts_three),
        cmocka_unit_test(gyre_run_plays_two_nodes),
    };
    if (argc > 1 && strcmp(argv[1], "--rank") == 0)
        return be_rank();
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
