/* See under.h. Everything goes through one shell, in an environment that holds a PATH, a home and a
 * limit for joining. */
#include "rig/under.h"

#include "rig/clean_room.h"
#include "rig/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MOST 16384

char under_output[1 << 18];
static char home[] = "/tmp/gyre-test-launchers-XXXXXX";

/* -- a place ----------------------------------------------------------------------------------- */

const char *under_home(void)
{
    return home;
}

int under_make_home(void **state)
{
    (void)state;
    return clean_room_make(home);
}

int under_remove_home(void **state)
{
    (void)state;
    return clean_room_remove(home);
}

void under_build(char *path, size_t room, const char *inside)
{
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = '\0';
    }
    assert_true(snprintf(path, room, "%s/%s", self, inside) < (int)room);
}

/* -- a shell ----------------------------------------------------------------------------------- */

int under_nothing(const char *line)
{
    char command[LINE_MOST + 1024];
    int length = snprintf(command, sizeof command,
                          "exec 2>&1; PATH='%s'; HOME='%s'; export PATH HOME; "
                          "GYRE_JOIN_TIMEOUT=30s; export GYRE_JOIN_TIMEOUT; %s",
                          getenv("PATH"), home, line);
    assert_true(length < (int)sizeof command);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    under_output[fread(under_output, 1, sizeof under_output - 1, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void need(const char *tool)
{
    char line[64];
    snprintf(line, sizeof line, "command -v %s", tool);
    if (under_nothing(line) != 0) {
        print_message("skipped: %s is not installed\n", tool);
        skip();
    }
}

/* -- MPI --------------------------------------------------------------------------------------- */

int under_mpirun(int ranks, const char *words)
{
    char line[LINE_MOST];
    need("mpirun.openmpi");
    snprintf(line, sizeof line,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
             "mpirun.openmpi --oversubscribe -n %d %s",
             ranks, words);
    return under_nothing(line);
}

int under_mpiexec(int ranks, const char *words)
{
    char line[LINE_MOST];
    need("mpiexec.hydra");
    snprintf(line, sizeof line, "mpiexec.hydra -n %d %s", ranks, words);
    return under_nothing(line);
}

/* -- by hand ----------------------------------------------------------------------------------- */

struct job {
    int ranks, port;
    const char *store;
};

/* Starts a process for each rank, with the variables that `variables` prints for it. */
static int start_by_hand(const struct job *job, const char *words,
                         void (*variables)(char *text, size_t room, int rank,
                                           const struct job *job))
{
    char line[LINE_MOST];
    size_t length = (size_t)snprintf(line, sizeof line, "pids=; code=0; ");
    for (int rank = 0; rank < job->ranks; rank++) {
        char text[1024];
        variables(text, sizeof text, rank, job);
        length += (size_t)snprintf(line + length, sizeof line - length,
                                   "%s %s & pids=\"$pids $!\"; ", text, words);
        assert_true(length < sizeof line);
    }
    snprintf(line + length, sizeof line - length,
             "for pid in $pids; do wait $pid || code=$?; done; exit $code");
    return under_nothing(line);
}

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

static void torchrun_variables(char *text, size_t room, int rank, const struct job *job)
{
    snprintf(
        text, room,
        "LOCAL_RANK=%d RANK=%d GROUP_RANK=0 ROLE_RANK=%d ROLE_NAME=default LOCAL_WORLD_SIZE=%d "
        "WORLD_SIZE=%d GROUP_WORLD_SIZE=1 ROLE_WORLD_SIZE=%d MASTER_ADDR=127.0.0.1 "
        "MASTER_PORT=%d TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0 "
        "TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=%s NCCL_ASYNC_ERROR_HANDLING=1 "
        "OMP_NUM_THREADS=1",
        rank, rank, rank, job->ranks, job->ranks, job->ranks, job->port, job->store);
}

int under_torchrun(int ranks, const char *store, const char *words)
{
    struct job job = {ranks, 0, store};
    int fd = foreign_listener(&job.port);
    int code = start_by_hand(&job, words, torchrun_variables);
    close(fd);
    return code;
}

/* PyTorch 1.13 on Python 3.11, as Debian 12 has it, dies of "redirect nothing": an enum that it
 * walks through has no 0 there any more. To write standard output both to a file and here is not
 * nothing. */
int under_real_torchrun(int ranks, const char *words)
{
    char line[LINE_MOST];
    int port;
    need("torchrun");
    close(foreign_listener(&port)); /* it is free */
    snprintf(line, sizeof line,
             "torchrun --no_python --nproc_per_node %d --master_port %d --redirects 1 --tee 1 "
             "--log_dir '%s/torchrun' %s",
             ranks, port, home, words);
    return under_nothing(line);
}

static void srun_variables(char *text, size_t room, int rank, const struct job *job)
{
    snprintf(text, room,
             "SLURM_CLUSTER_NAME=c1 SLURM_JOB_ID=%d SLURM_JOB_NODELIST=localhost SLURM_NTASKS=%d "
             "SLURM_NNODES=1 SLURM_LOCALID=%d SLURM_NODEID=0 SLURM_PROCID=%d SLURM_STEP_ID=0 "
             "SLURM_STEP_NODELIST=localhost SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=%d "
             "SLURM_STEP_TASKS_PER_NODE=%d SLURM_DISTRIBUTION=cyclic SLURM_MPI_TYPE=none",
             (int)getpid(), job->ranks, rank, rank, job->ranks, job->ranks);
}

int under_srun(int ranks, const char *words)
{
    return start_by_hand(&(struct job){.ranks = ranks}, words, srun_variables);
}
