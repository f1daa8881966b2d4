/* The rig. `life` is a pipe whose write end is inherited by the tool and by all that it starts,
 * directly or not: the kernel itself tells, by its end of file, when the last of them has gone. */
#include "rig/launch_rig.h"

#include "rig/clean_room.h"

#include "base/clock.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t deadline_ns(void)
{
    const char *slow = getenv("GYRE_TEST_SLOW");
    return gyre_now_ns() + 180 * GYRE_SECOND * (uint64_t)(slow ? atoi(slow) : 1);
}

/* This program is <build>/tests/<name>; the tool is <build>/gyre. */
const char *rig_tool(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
    path[length > 0 ? length : 0] = 0;
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = 0;
    }
    strcat(path, "/gyre");
    return path;
}

int rig_become(const char *const words[])
{
    const char *argv[64] = {"gyre"};
    for (int i = 0; words[i] && i < 62; i++)
        argv[i + 1] = words[i];
    execv(rig_tool(), (char **)(uintptr_t)argv);
    perror(rig_tool());
    return 99;
}

static void become_tool(const char *const words[], int in, int out, int err, int life)
{
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    fcntl(life, F_SETFD, 0);
    _exit(rig_become(words));
}

void rig_start(struct rig *rig, const char *const words[])
{
    int in[2], out[2], err[2], life[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC) |
                         pipe2(life, O_CLOEXEC),
                     0);
    signal(SIGPIPE, SIG_IGN);
    memset(rig, 0, offsetof(struct rig, out_text));
    rig->out_text[0] = rig->err_text[0] = 0;
    rig->pid = fork();
    if (rig->pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        signal(SIGHUP, SIG_DFL);  /* nohup has the tests ignore this one, */
        signal(SIGINT, SIG_DFL);  /* a script with jobs in the background this one, */
        signal(SIGUSR2, SIG_DFL); /* and perf record this one */
        become_tool(words, in[0], out[1], err[1], life[1]);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    close(life[1]);
    rig->code = -1;
    rig->in = in[1];
    rig->out = out[0];
    rig->err = err[0];
    rig->life = life[0];
}

void rig_start_endless(struct rig *rig, const char *const words[])
{
    rig_start(rig, words);
    rig->endless = true;
}

/* Of a full text, the first and the last quarter stay. */
static void leave_out_middle(char *text, size_t *length)
{
    static const char gap[] = "\n[...]\n";
    const size_t quarter = RIG_TEXT_MAX / 4;
    memcpy(text + quarter, gap, sizeof gap - 1);
    memmove(text + quarter + sizeof gap - 1, text + *length - quarter, quarter);
    *length = 2 * quarter + sizeof gap - 1;
    text[*length] = 0;
}

static void read_some(const struct rig *rig, int *fd, char *text, size_t *length)
{
    if (*length >= RIG_TEXT_MAX - 1) {
        if (!rig->endless)
            fail_msg("more output than the rig holds");
        leave_out_middle(text, length);
    }
    ssize_t count = read(*fd, text + *length, RIG_TEXT_MAX - 1 - *length);
    if (count <= 0) {
        close(*fd);
        *fd = -1;
        return;
    }
    *length += (size_t)count;
    text[*length] = 0;
}

static void give_up(struct rig *rig, const char *what)
{
    kill(rig->pid, SIGKILL);
    fail_msg("waited in vain for %s\nstandard output:\n%s\nstandard error:\n%s", what,
             rig->out_text, rig->err_text);
}

/* Reads whatever comes next; false when both outputs have ended. */
static bool step(struct rig *rig, uint64_t deadline, const char *what)
{
    struct pollfd fds[2] = {{.fd = rig->out, .events = POLLIN}, {.fd = rig->err, .events = POLLIN}};
    uint64_t now = gyre_now_ns();
    if (rig->out < 0 && rig->err < 0)
        return false;
    if (now >= deadline || poll(fds, 2, (int)((deadline - now) / GYRE_MS) + 1) == 0)
        give_up(rig, what);
    if (fds[0].revents)
        read_some(rig, &rig->out, rig->out_text, &rig->out_length);
    if (fds[1].revents)
        read_some(rig, &rig->err, rig->err_text, &rig->err_length);
    return true;
}

static bool told(const struct rig *rig, const char *text)
{
    return strstr(rig->out_text, text) || strstr(rig->err_text, text);
}

void rig_wait_for_one(struct rig *rig, const char *text, const char *other)
{
    uint64_t deadline = deadline_ns();
    while (!told(rig, text) && !told(rig, other))
        if (!step(rig, deadline, text))
            give_up(rig, text);
}

void rig_wait_for(struct rig *rig, const char *text)
{
    rig_wait_for_one(rig, text, text);
}

void rig_wait_end(struct rig *rig)
{
    int status;
    uint64_t deadline = deadline_ns();
    while (step(rig, deadline, "the end of the output"))
        ;
    assert_int_equal(waitpid(rig->pid, &status, 0), rig->pid);
    rig->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void rig_wait_lifeless(struct rig *rig)
{
    char byte;
    struct pollfd fd = {.fd = rig->life, .events = POLLIN};
    if (poll(&fd, 1, (int)((deadline_ns() - gyre_now_ns()) / GYRE_MS)) != 1 ||
        read(rig->life, &byte, 1) != 0)
        give_up(rig, "the end of all processes");
}

void rig_run(struct rig *rig, const char *input, const char *const words[])
{
    rig_start(rig, words);
    if (input)
        assert_int_equal(write(rig->in, input, strlen(input)), (ssize_t)strlen(input));
    close(rig->in);
    rig->in = -1;
    rig_wait_end(rig);
}

void rig_signal(struct rig *rig, int number)
{
    assert_int_equal(kill(rig->pid, number), 0);
}

void rig_signal_rank(struct rig *rig, int rank, int number)
{
    char command[512];
    snprintf(command, sizeof command,
             "for p in $(cat /proc/%d/task/*/children); do tr '\\0' '\\n' </proc/$p/environ "
             "2>/dev/null | "
             "grep -qx RANK=%d && kill -%d $p && exit 0; done; exit 1",
             (int)rig->pid, rank, number);
    assert_int_equal(system(command), 0);
}

void rig_end(struct rig *rig)
{
    int fds[] = {rig->in, rig->out, rig->err, rig->life};
    if (rig->code < 0) {
        kill(rig->pid, SIGKILL);
        waitpid(rig->pid, NULL, 0);
    }
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

int rig_count_lines(const char *text, const char *line)
{
    int count = 0;
    size_t length = strlen(line);
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += at != text || *at == '\n';
        count += !strncmp(at, line, length) && (at[length] == '\n' || !at[length]);
    }
    return count;
}

bool rig_has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

const char *rig_last_line(const char *text)
{
    static char line[2048];
    size_t end = strlen(text);
    while (end && text[end - 1] == '\n')
        end--;
    size_t start = end;
    while (start && text[start - 1] != '\n')
        start--;
    snprintf(line, sizeof line, "%.*s", (int)(end - start), text + start);
    return line;
}

void rig_expect(const struct rig *rig, int code, const char *last_line_part)
{
    if (rig->code == code && strstr(rig_last_line(rig->err_text), last_line_part))
        return;
    fail_msg("expected exit code %d and a last line with '%s', got %d and\n%s%s", code,
             last_line_part, rig->code, rig->out_text, rig->err_text);
}

static char folder[64];

static void remove_folder(void)
{
    if (clean_room_remove(folder))
        perror(folder);
}

const char *rig_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/gyre-test-XXXXXX");
        assert_int_equal(clean_room_make(folder), 0);
        atexit(remove_folder);
    }
    return folder;
}
