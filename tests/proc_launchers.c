/* One program, unchanged, under every launcher: it finds its ranks, its key and its meeting place.
 *
 * mpirun and mpiexec are run where they are installed. torchrun and srun are not to be had on every
 * machine, so their exact environments are set by hand, one process per rank; torchrun's agent is
 * played by a listener on MASTER_PORT that is none of ours. */
#include "clean_room.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FLAGS "-b 8 -e 4K -f 8 -n 2 --no-ceiling"
#define ROWS  4

static char home[] = "/tmp/gyre-test-launchers-XXXXXX";
static char bench[4200];
static char output[1 << 18];

/* -- helpers ----------------------------------------------------------------------------------- */

/* This program is <build>/tests/proc_launchers. */
static bool find_bench(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(path, '/');
        if (slash) {
            *slash = '\0';
        }
    }
    snprintf(bench, sizeof bench, "%s/bench/allreduce", path);
    return access(bench, X_OK) == 0;
}

/* Runs `line` in a home of its own; ranks that do not meet give up after 30 s. The exit code. */
static int run(const char *line)
{
    char command[16384];
    snprintf(command, sizeof command,
             "exec 2>&1; PATH='%s'; HOME='%s'; export PATH HOME; GYRE_JOIN_TIMEOUT=30s; "
             "export GYRE_JOIN_TIMEOUT; %s",
             getenv("PATH"), home, line);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(int code, int expected, const char *text)
{
    if (code != expected || !strstr(output, text)) {
        fail_msg("exit code %d, expected %d and \"%s\":\n%s", code, expected, text, output);
    }
}

/* Rows begin with a blank, all other lines of a good run with '#'. */
static void expect_rows(int code, const char *ranks)
{
    int rows = 0;
    expect(code, 0, "# Out of bounds values : 0 OK");
    expect(code, 0, ranks);
    for (const char *at = output; *at; at++) {
        rows += at[0] == '\n' && at[1] == ' ';
    }
    assert_int_equal(rows, ROWS);
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

/* A shell line that starts `ranks` processes, each with the variables that `variables` prints for
 * its rank, and ends with the first code that is not 0. */
static void start_by_hand(char *line, size_t room, int ranks,
                          void (*variables)(char *text, size_t room, int rank, void *context),
                          void *context)
{
    size_t length = (size_t)snprintf(line, room, "pids=; code=0; ");
    for (int rank = 0; rank < ranks; rank++) {
        char text[1024];
        variables(text, sizeof text, rank, context);
        length += (size_t)snprintf(line + length, room - length,
                                   "%s '%s' " FLAGS " & pids=\"$pids $!\"; ", text, bench);
        assert_true(length < room);
    }
    snprintf(line + length, room - length,
             "for pid in $pids; do wait $pid || code=$?; done; exit $code");
}

/* -- MPI --------------------------------------------------------------------------------------- */

static void run_under(const char *launcher)
{
    char line[8192];
    snprintf(line, sizeof line, "%s '%s' " FLAGS, launcher, bench);
    expect_rows(run(line), "2 ranks on 1 node");
}

static void test_mpirun(void **state)
{
    need("mpirun.openmpi");
    run_under("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
              "mpirun.openmpi --oversubscribe -n 2");
}

static void test_mpiexec(void **state)
{
    need("mpiexec.hydra");
    run_under("mpiexec.hydra -n 2");
}

/* Whoever is told nothing of an address meets by a file; it is gone when all have met. */
static void test_no_root_file_is_left(void **state)
{
    char line[128];
    snprintf(line, sizeof line, "ls '%s/.config/gyre' 2>/dev/null | grep root-; true", home);
    assert_int_equal(run(line), 0);
    assert_string_equal(output, "");
}

/* -- torchrun ---------------------------------------------------------------------------------- */

static int foreign_listener(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

struct agent {
    int port;
    const char *store; /* "True": the agent's own store listens on the port */
};

static void torchrun_variables(char *text, size_t room, int rank, void *context)
{
    const struct agent *agent = context;
    snprintf(text, room,
             "LOCAL_RANK=%d RANK=%d GROUP_RANK=0 ROLE_RANK=%d ROLE_NAME=default LOCAL_WORLD_SIZE=3 "
             "WORLD_SIZE=3 GROUP_WORLD_SIZE=1 ROLE_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 "
             "MASTER_PORT=%d TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0 "
             "TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=%s NCCL_ASYNC_ERROR_HANDLING=1 "
             "OMP_NUM_THREADS=1",
             rank, rank, rank, agent->port, agent->store);
}

static void run_torchrun(const char *store)
{
    char line[8192];
    struct agent agent = {0, store};
    int fd = foreign_listener(&agent.port);
    start_by_hand(line, sizeof line, 3, torchrun_variables, &agent);
    int code = run(line);
    close(fd);
    expect_rows(code, "3 ranks on 1 node");
}

static void test_torchrun_with_its_store_on_the_port(void **state)
{
    run_torchrun("True");
}

/* The port was free when torchrun chose it; somebody took it meanwhile. */
static void test_torchrun_with_a_stranger_on_the_port(void **state)
{
    run_torchrun("False");
}

/* -- Slurm ------------------------------------------------------------------------------------- */

static void srun_variables(char *text, size_t room, int rank, void *context)
{
    snprintf(text, room,
             "SLURM_CLUSTER_NAME=c1 SLURM_JOB_ID=%d SLURM_JOB_NODELIST=localhost SLURM_NTASKS=3 "
             "SLURM_NNODES=1 SLURM_LOCALID=%d SLURM_NODEID=0 SLURM_PROCID=%d SLURM_STEP_ID=0 "
             "SLURM_STEP_NODELIST=localhost SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=3 "
             "SLURM_STEP_TASKS_PER_NODE=3 SLURM_DISTRIBUTION=cyclic SLURM_MPI_TYPE=none",
             (int)getpid(), rank, rank);
}

static void test_srun(void **state)
{
    char line[8192];
    start_by_hand(line, sizeof line, 3, srun_variables, NULL);
    expect_rows(run(line), "3 ranks on 1 node");
}

static void test_sbatch_without_srun(void **state)
{
    char line[8192];
    snprintf(
        line, sizeof line,
        "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 '%s' " FLAGS,
        bench);
    expect(run(line), 2, "started outside srun?");
}

static void test_a_rank_without_a_size(void **state)
{
    char line[8192];
    snprintf(line, sizeof line, "RANK=1 '%s' " FLAGS, bench);
    expect(run(line), 2, "RANK is \"1\" but WORLD_SIZE is not set");
}

/* -- all --------------------------------------------------------------------------------------- */

static int make_home(void **state)
{
    return clean_room_make(home);
}

static int remove_home(void **state)
{
    return clean_room_remove(home);
}

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
    return cmocka_run_group_tests_name("proc_launchers", tests, make_home, remove_home);
}
