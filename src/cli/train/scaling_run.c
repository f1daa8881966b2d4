/* One run of --scaling: a process that becomes `gyre run` over the words that were typed.
 *
 *     gyre train --scaling ─┬─▶ gyre run -n 2 … gyre train --measured FILE WORDS ─▶ ranks
 *             ▲             │                                                        │
 *             └── epochs ───┴── FILE, in memory ◀── JSON lines of rank 0 ◀───────────┘
 *
 * The ranks are quiet, and what they say all the same goes to standard error. A signal to this
 * process is passed on, but for one from the terminal, which the run has got already. If this
 * process is killed, the kernel ends the run. Tested by tests/program/train/scaling.c too. */
#include "cli/train/scaling_run.h"

#include "base/machine/load.h"
#include "cli/common.h"
#include "cli/train/ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- signals ----------------------------------------------------------------------------------- */

/* SIGCHLD, and the signals that end a training unless whoever started this one ignores them. */
static void list_heeded(sigset_t *set)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
    struct sigaction action;
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!sigaction(ends[i], NULL, &action) && action.sa_handler != SIG_IGN)
            sigaddset(set, ends[i]);
}

/* Returns the status of the child; *stopped becomes the signal that asked for its end. */
static int wait_for_child(pid_t child, const sigset_t *heeded, int *stopped)
{
    int status = 0;
    siginfo_t info;
    while (waitpid(child, &status, WNOHANG) == 0) {
        int number = sigwaitinfo(heeded, &info);
        if (number <= 0 || number == SIGCHLD)
            continue;
        *stopped = number;
        if (info.si_code <= 0) /* by a process */
            kill(child, number);
    }
    return status;
}

/* -- the run ----------------------------------------------------------------------------------- */

static void become_run(const struct gyre_scaling_run *run, const char *file,
                       const struct gyre_train_options *options, char **argv)
{
    struct gyre_trouble trouble = {0};
    char ranks[16];
    snprintf(ranks, sizeof ranks, "%d", run->ranks);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    struct gyre_cli_train_start start = {.ranks = ranks, .measured = file};
    int status = gyre_cli_train_ranks(&start, options, argv, &trouble);
    _exit(gyre_cli_fail("train", status, &trouble));
}

static int tell_end(const struct gyre_scaling_run *run, int status, int stopped, uint64_t epochs,
                    struct gyre_trouble *trouble)
{
    const char *s = run->ranks > 1 ? "s" : "";
    if (stopped)
        return gyre_trouble_set(trouble, -EINTR, "the run of %d rank%s was stopped by SIG%s",
                                run->ranks, s, sigabbrev_np(stopped));
    if (WIFSIGNALED(status))
        return gyre_trouble_set(trouble, -EIO, "the run of %d rank%s failed: killed by SIG%s",
                                run->ranks, s, sigabbrev_np(WTERMSIG(status)));
    if (WEXITSTATUS(status))
        return gyre_trouble_set(trouble, WEXITSTATUS(status) == 2 ? GYRE_INVALID : -EIO,
                                "the run of %d rank%s failed with exit code %d; what it said is "
                                "above",
                                run->ranks, s, WEXITSTATUS(status));
    if (run->epochs < epochs)
        return gyre_trouble_set(
            trouble, -EINTR, "the run of %d rank%s was stopped after epoch %llu of %llu",
            run->ranks, s, (unsigned long long)run->epochs, (unsigned long long)epochs);
    return 0;
}

static void read_figures(int fd, struct gyre_scaling_run *run)
{
    char *line = NULL;
    size_t room = 0;
    lseek(fd, 0, SEEK_SET);
    FILE *file = fdopen(fd, "r");
    while (file && getline(&line, &room, file) > 0)
        gyre_scaling_take(run, line);
    free(line);
    if (file)
        fclose(file);
    else
        close(fd);
}

/* Starts the run and waits for its end; -1: there is no process for it. Signals wait from before
 * the line about the run until there is a process that they can be passed on to. */
static int run_child(const struct gyre_scaling_run *run, const char *about, const char *file,
                     const struct gyre_train_options *options, char **argv, int *stopped)
{
    sigset_t heeded, before;
    int status = -1;
    pid_t parent = getpid();
    list_heeded(&heeded);
    signal(SIGCHLD, SIG_DFL); /* ignored, as some parents leave it, it would never come */
    sigprocmask(SIG_BLOCK, &heeded, &before);
    fputs(about, stderr);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        become_run(run, file, options, argv);
    }
    if (child > 0)
        status = wait_for_child(child, &heeded, stopped);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

int gyre_cli_scaling_run(struct gyre_scaling_run *run, const char *about,
                         const struct gyre_train_options *options, char **argv, char load[512],
                         struct gyre_trouble *trouble)
{
    static struct gyre_load_look before, after;
    struct gyre_load between;
    char file[64];
    int stopped = 0, fd = memfd_create("gyre-scaling", MFD_CLOEXEC);
    if (fd < 0)
        return gyre_trouble_set(trouble, -errno, "memory for a run's figures: %s", strerror(errno));
    snprintf(file, sizeof file, "/proc/%d/fd/%d", (int)getpid(), fd);
    gyre_load_look("", &before);
    int status = run_child(run, about, file, options, argv, &stopped);
    if (status < 0)
        gyre_trouble_set(trouble, -errno, "no process for a run: %s", strerror(errno));
    gyre_load_look("", &after);
    gyre_load_between("", &before, &after, &between);
    gyre_load_tell(&between, 1, load, 512);
    read_figures(fd, run);
    return status < 0 ? trouble->status
                      : tell_end(run, status, stopped, (uint64_t)options->epochs, trouble);
}
