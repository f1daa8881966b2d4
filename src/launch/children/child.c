/* Children that cannot outlive their launcher.
 *
 *     launcher ──hold──▶ (pipe) ──▶ keeper, ranks, and whatever the ranks start
 *        │ fork
 *        ├── keeper   leads the group; sleeps in poll(); when the pipe ends it kills the group,
 *        │            itself included
 *        ├── rank 0   PR_SET_PDEATHSIG = SIGKILL, which the kernel sends whatever killed the
 *        │            launcher
 *        └── rank 1   the same
 *              └── grandchildren   not covered by that signal, but in the keeper's group and
 *                                  holding the pipe
 *
 * Invariants: the keeper outlives every rank, so the group's number is not reused while the group
 * may be signalled. Only the launcher holds the pipe's write end: all descriptors are close-on-exec
 * but those a child is meant to have, and the keeper, which never execs, closes the write end
 * itself.
 *
 * Tested by tests/program/launch/launch.c. */
#include "launch/children/child.h"

#include "base/rng.h"
#include "transport/recorder/place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the group -------------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static _Noreturn void keep_group(const struct gyre_process_group *group)
{
    struct pollfd end = {.fd = group->launcher_pipe};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "gyre-keeper");
    close(group->hold);
    /* A reader of the launcher's output must not wait for the keeper to end. */
    syscall(SYS_close_range, 0, group->launcher_pipe - 1, 0);
    syscall(SYS_close_range, group->launcher_pipe + 1, ~0u, 0);
    while (!(end.revents & (POLLHUP | POLLERR)))
        poll(&end, 1, -1);
    kill(0, SIGKILL);
    _exit(0);
}

int gyre_process_group_create(struct gyre_process_group *group, struct gyre_trouble *trouble)
{
    int launcher_pipe[2] = {-1, -1}, exec_pipe[2] = {-1, -1};
    *group = (struct gyre_process_group){0, -1, -1, -1, -1, group->files};
    if (pipe2(launcher_pipe, O_CLOEXEC) || pipe2(exec_pipe, O_CLOEXEC | O_NONBLOCK)) {
        int error = errno;
        close_fd(&launcher_pipe[0]);
        close_fd(&launcher_pipe[1]);
        return gyre_trouble_set(trouble, -error, "cannot make the launcher's pipes: %s",
                                strerror(error));
    }
    *group = (struct gyre_process_group){
        0, launcher_pipe[0], launcher_pipe[1], exec_pipe[0], exec_pipe[1], group->files};
    group->id = fork();
    if (group->id == 0)
        keep_group(group);
    if (group->id < 0) {
        int error = errno;
        group->id = 0;
        gyre_process_group_destroy(group);
        return gyre_trouble_set(trouble, -error, "cannot start a process: %s", strerror(error));
    }
    setpgid(group->id, group->id); /* parent and child both do, because either may run first */
    return 0;
}

void gyre_process_group_destroy(struct gyre_process_group *group)
{
    if (group->id > 0) {
        kill(-group->id, SIGKILL);
        waitpid(group->id, NULL, 0);
        group->id = 0;
    }
    close_fd(&group->launcher_pipe);
    close_fd(&group->hold);
    close_fd(&group->exec_read);
    close_fd(&group->exec_write);
}

void gyre_process_group_ask_to_leave(const struct gyre_process_group *group)
{
    (void)!TEMP_FAILURE_RETRY(write(group->hold, "l", 1));
}

void gyre_process_group_signal(const struct gyre_process_group *group, int number)
{
    if (group->id > 0)
        kill(-group->id, number);
}

/* --- the environment -------------------------------------------------------------------------- */

void gyre_variables_add(struct gyre_variables *variables, const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof variables->text - variables->used;
    va_start(arguments, format);
    int length = vsnprintf(variables->text + variables->used, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room || variables->count == GYRE_VARIABLES_MAX)
        abort(); /* an error in the launcher: `variables` has too few places */
    variables->item[variables->count++] = variables->text + variables->used;
    variables->used += (size_t)length + 1;
}

static bool apply_variables(struct gyre_variables *variables)
{
    for (int i = 0; i < variables->count; i++) {
        char *item = variables->item[i];
        if (strchr(item, '=') ? putenv(item) : unsetenv(item))
            return false;
    }
    return true;
}

/* --- one child -------------------------------------------------------------------------------- */

/* The pipes of one child, both ends. The launcher reads the child's outputs and writes its
 * input. */
struct pipes {
    int in[2], out[2], err[2], key;
};

static const struct pipes no_pipes = {{-1, -1}, {-1, -1}, {-1, -1}, -1};

/* A memfd at offset 0, because the content of a memfd is in no pipe buffer, file or environment. */
static int key_file(const uint8_t *key)
{
    int fd = memfd_create("gyre-key", MFD_CLOEXEC);
    if (fd >= 0 && TEMP_FAILURE_RETRY(pwrite(fd, key, GYRE_KEY_BYTES, 0)) == GYRE_KEY_BYTES)
        return fd;
    close_fd(&fd);
    return -1;
}

static int open_input(enum gyre_child_input input, int in[2])
{
    if (input == GYRE_INPUT_PIPE)
        return pipe2(in, O_CLOEXEC);
    in[0] = input == GYRE_INPUT_NONE ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                                     : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    return in[0] < 0 ? -1 : 0;
}

static int open_pipes(struct pipes *pipes, const struct gyre_spawn *spawn)
{
    if (open_input(spawn->input, pipes->in) || pipe2(pipes->out, O_CLOEXEC) ||
        pipe2(pipes->err, O_CLOEXEC))
        return -errno;
    if (spawn->key && (pipes->key = key_file(spawn->key)) < 0)
        return -errno;
    return 0;
}

static void close_far_ends(struct pipes *pipes)
{
    close_fd(&pipes->in[0]);
    close_fd(&pipes->out[1]);
    close_fd(&pipes->err[1]);
    close_fd(&pipes->key);
}

static void default_signals(void)
{
    sigset_t none;
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void pass_descriptor(struct gyre_variables *variables, const char *name, int fd)
{
    if (fd < 0)
        return;
    fcntl(fd, F_SETFD, 0);
    gyre_variables_add(variables, "%s=%d", name, fd);
}

static bool take_streams(const struct pipes *pipes)
{
    return dup2(pipes->in[0], STDIN_FILENO) >= 0 && dup2(pipes->out[1], STDOUT_FILENO) >= 0 &&
           dup2(pipes->err[1], STDERR_FILENO) >= 0;
}

static _Noreturn void become(const struct gyre_process_group *group, const struct gyre_spawn *spawn,
                             const struct pipes *pipes, int records, pid_t launcher)
{
    setpgid(0, group->id);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) /* the launcher died before the line above took effect */
        _exit(1);
    if (spawn->cpus)
        sched_setaffinity(0, sizeof *spawn->cpus, spawn->cpus);
    pass_descriptor(spawn->variables, "GYRE_LAUNCHER_FD", group->launcher_pipe);
    pass_descriptor(spawn->variables, "GYRE_KEY_FD", pipes->key);
    pass_descriptor(spawn->variables, "GYRE_RECORD_FD", records);
    if (take_streams(pipes) && apply_variables(spawn->variables)) {
        setrlimit(RLIMIT_NOFILE, &group->files);
        default_signals();
        execvp(spawn->program[0], spawn->program);
    }
    int error = errno;
    if (TEMP_FAILURE_RETRY(write(group->exec_write, &error, sizeof error)) < 0)
        _exit(126);
    _exit(127);
}

static int attach(struct gyre_child *child, struct pipes *pipes, const struct gyre_spawn *spawn)
{
    int out = gyre_line_tap_init(&child->out, pipes->out[0], spawn->out_log, spawn->out);
    int err = gyre_line_tap_init(&child->err, pipes->err[0], spawn->err_log, spawn->err);
    child->out.shown = child->err.shown = spawn->shown;
    child->input = pipes->in[1];
    return out ? out : err;
}

int gyre_child_spawn(struct gyre_child *child, const struct gyre_process_group *group,
                     const struct gyre_spawn *spawn, struct gyre_trouble *trouble)
{
    struct pipes pipes = no_pipes;
    pid_t launcher = getpid();
    child->pidfd = child->input = child->records = -1;
    int status = open_pipes(&pipes, spawn);
    int attached = attach(child, &pipes, spawn);
    status = status ? status : attached;
    if (!status && spawn->records)
        child->records = gyre_record_place_make();
    if (!status && (child->pid = fork()) == 0)
        become(group, spawn, &pipes, child->records, launcher);
    if (!status && child->pid < 0)
        status = -errno;
    close_far_ends(&pipes);
    if (!status) {
        setpgid(child->pid, group->id);
        child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
        status = child->pidfd < 0 ? -errno : 0;
    }
    if (status)
        gyre_trouble_set(trouble, status, "cannot start a process: %s (see ulimit -n, -u, -f)",
                         strerror(-status));
    return status;
}

int gyre_child_say(const struct gyre_child *child, const char *text)
{
    if (child->pidfd < 0 || child->input < 0)
        return 0;
    const bool said = TEMP_FAILURE_RETRY(write(child->input, text, strlen(text))) >= 0;
    return said || errno == EPIPE ? 0 : -errno;
}

void gyre_child_reap(struct gyre_child *child)
{
    waitpid(child->pid, &child->status, 0);
    close_fd(&child->pidfd);
}

void gyre_child_clear(struct gyre_child *child)
{
    struct gyre_child kept = {.ranks = child->ranks,
                              .lost = child->lost,
                              .returns = child->returns,
                              .restart = child->restart};
    memcpy(kept.name, child->name, sizeof kept.name);
    memcpy(kept.host, child->host, sizeof kept.host);
    gyre_child_destroy(child);
    *child = kept;
    child->pidfd = child->input = child->records = -1;
}

void gyre_child_destroy(struct gyre_child *child)
{
    if (child->pid > 0 && child->pidfd >= 0) {
        kill(child->pid, SIGKILL);
        gyre_child_reap(child);
    }
    if (child->out.sink) {
        close_fd(&child->input);
        close_fd(&child->records);
    }
    gyre_line_tap_deinit(&child->out);
    gyre_line_tap_deinit(&child->err);
}
