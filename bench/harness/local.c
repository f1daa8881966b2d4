/* --ranks N: this program as its own launcher.
 *
 *     allreduce --ranks 2 -b 8 ──┬─ fork, exec ─▶ allreduce -b 8   RANK=0 WORLD_SIZE=2 …
 *                                └─ fork, exec ─▶ allreduce -b 8   RANK=1 WORLD_SIZE=2 …
 *
 * Each child gets the variables that gyre run would give it, and the job's key through a pipe of
 * its own. A child dies with its parent, and all die, after a moment to speak, with the first that
 * fails. */
#include "harness/local.h"
#include "base/port.h"
#include "harness/options.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_TURNS 200 /* of 10 ms */

struct job {
    int ranks;
    bool pinned;
    uint16_t port;
    int port_keeper; /* keeps rank 0's port while the ranks are there */
    uint8_t key[32];
    char name[33];
    pid_t parent;
    pid_t *pid;
};

static int complain(const char *what)
{
    fprintf(stderr, "--ranks: cannot %s: %s\n", what, strerror(errno));
    return 1;
}

static bool prepare(struct job *job, int ranks)
{
    uint8_t draw[16];
    *job = (struct job){.ranks = ranks, .parent = getpid()};
    job->port_keeper = gyre_port_reserve(&job->port);
    job->pid = calloc((size_t)ranks, sizeof *job->pid);
    if (!job->pid || job->port_keeper < 0 || getrandom(draw, sizeof draw, 0) != sizeof draw ||
        getrandom(job->key, sizeof job->key, 0) != sizeof job->key) {
        return false;
    }
    for (size_t i = 0; i < sizeof draw; i++) {
        snprintf(job->name + 2 * i, 3, "%02x", draw[i]);
    }
    return true;
}

/* -- in the child ------------------------------------------------------------------------------ */

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static bool pass_key(const struct job *job)
{
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], job->key, sizeof job->key) != (ssize_t)sizeof job->key) {
        return false;
    }
    close(ends[1]);
    set_number("GYRE_KEY_FD", ends[0]);
    return true;
}

static void set_rank(const struct job *job, int rank)
{
    set_number("RANK", rank);
    set_number("WORLD_SIZE", job->ranks);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", job->ranks);
    set_number("NODE_RANK", 0);
    set_number("MASTER_PORT", job->port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("GYRE_JOB", job->name, 1);
    unsetenv("GYRE_ROOT");
}

/* One rank to a core while there are enough, as mpirun does by default; otherwise wherever. */
static void take_core(const struct job *job, int rank)
{
    cpu_set_t allowed, mine;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < job->ranks) {
        return;
    }
    CPU_ZERO(&mine);
    for (int cpu = 0, place = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && place++ == rank) {
            CPU_SET(cpu, &mine);
        }
    }
    sched_setaffinity(0, sizeof mine, &mine);
}

/* Does not return. */
static void become_rank(const struct job *job, int rank, char **words)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != job->parent || !pass_key(job)) {
        _exit(complain("prepare a rank"));
    }
    set_rank(job, rank);
    if (job->pinned) {
        take_core(job, rank);
    }
    execv("/proc/self/exe", words);
    _exit(complain("run /proc/self/exe"));
}

/* -- in the parent ----------------------------------------------------------------------------- */

static void without_ranks_flag(int argc, char **argv, char **words)
{
    int kept = 0;
    for (int i = 0; i < argc; i++) {
        bool value_follows;
        if (i > 0 && bench_is_ranks_flag(argv[i], &value_follows)) {
            i += value_follows;
        } else {
            words[kept++] = argv[i];
        }
    }
    words[kept] = NULL;
}

static void kill_all(const struct job *job)
{
    for (int i = 0; i < job->ranks; i++) {
        if (job->pid[i] > 0) {
            kill(job->pid[i], SIGKILL);
        }
    }
}

static bool some_left(const struct job *job)
{
    for (int i = 0; i < job->ranks; i++) {
        if (job->pid[i] > 0) {
            return true;
        }
    }
    return false;
}

static void forget(struct job *job, pid_t pid)
{
    for (int i = 0; i < job->ranks; i++) {
        if (job->pid[i] == pid) {
            job->pid[i] = 0;
        }
    }
}

static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Notes one rank's end; false when none has ended (or, with `block`, none is left). */
static bool note_end(struct job *job, bool block, int *first)
{
    int status;
    pid_t pid = waitpid(-1, &status, block ? 0 : WNOHANG);
    if (pid < 0 && errno == EINTR) {
        return true;
    }
    if (pid <= 0) {
        return false;
    }
    forget(job, pid);
    if (*first == 0) {
        *first = exit_code(status);
    }
    return true;
}

/* The others see for themselves that one is gone, and rank 0 has yet to say so. Then they are
 * killed. */
static void end_the_rest(struct job *job, int *first)
{
    const struct timespec turn = {.tv_nsec = 10000000};
    for (int turns = 0; turns < GRACE_TURNS && some_left(job); turns++) {
        while (note_end(job, false, first)) {
        }
        nanosleep(&turn, NULL);
    }
    kill_all(job);
}

static int wait_for_all(struct job *job)
{
    int first = 0;
    while (first == 0 && note_end(job, true, &first)) {
    }
    if (first != 0) {
        end_the_rest(job, &first);
        while (note_end(job, true, &first)) {
        }
    }
    return first;
}

int bench_run_locally(int ranks, bool pinned, int argc, char **argv)
{
    struct job job;
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (!words || !prepare(&job, ranks)) {
        return complain("prepare the job");
    }
    job.pinned = pinned;
    without_ranks_flag(argc, argv, words);
    fflush(NULL);
    for (int i = 0; i < ranks; i++) {
        job.pid[i] = fork();
        if (job.pid[i] == 0) {
            become_rank(&job, i, words);
        }
        if (job.pid[i] < 0) {
            complain("fork");
            kill_all(&job);
            wait_for_all(&job);
            return 1;
        }
    }
    int code = wait_for_all(&job);
    close(job.port_keeper);
    free(job.pid);
    free(words);
    return code;
}
