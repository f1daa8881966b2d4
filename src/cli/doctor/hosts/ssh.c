/* One process for each host: ssh, or a shell on this machine. Its standard input and output are one
 * socket, the agent's line; its standard error is a pipe that is read when it has ended without a
 * word. Tested by tests/program/cli/doctor_hosts.sh. */
#include "cli/doctor/hosts/ssh.h"

#include "launch/hosts.h"
#include "launch/seating.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST_MS 40000 /* for the exit code of an ssh whose line has ended */
#define END_MS  2000  /* for an agent that was told to end */

static struct {
    pid_t pid; /* 0: none */
    int errors;
} started[GYRE_SURVEY_MOST];

static char *agent_command(void)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    gyre_host_put_tool(out);
    fputs(" doctor --agent", out);
    return fclose(out) ? (free(text), NULL) : text;
}

static void become_agent(char *host, char *command, int line, int errors)
{
    struct gyre_host_words words;
    struct gyre_trouble refused = {0};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_DFL);
    dup2(line, STDIN_FILENO);
    dup2(line, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    if (gyre_host_build_words(&words, host, command, &refused)) {
        dprintf(STDERR_FILENO, "%s\n", refused.text);
    } else {
        execvp(words.argv[0], words.argv);
        dprintf(STDERR_FILENO, "%s: %s\n", words.argv[0], strerror(errno));
    }
    _exit(127);
}

static void start_agent(int index, struct gyre_survey_host *host, char *command)
{
    char name[GYRE_HOST_MAX];
    int line[2] = {-1, -1}, errors[2] = {-1, -1};
    snprintf(name, sizeof name, "%s", host->name);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) ||
        pipe2(errors, O_CLOEXEC | O_NONBLOCK)) {
        gyre_survey_lose(host, "", "no agent can be started: %s", strerror(errno));
        return;
    }
    started[index].pid = fork();
    if (started[index].pid == 0)
        become_agent(name, command, line[1], errors[1]);
    close(line[1]);
    close(errors[1]);
    gyre_doctor_line_open(&host->line, line[0], line[0]);
    started[index].errors = errors[0];
    if (started[index].pid < 0) {
        started[index].pid = 0;
        gyre_survey_lose(host, "", "no agent can be started: %s", strerror(errno));
    }
}

int gyre_ssh_start(const char *list, struct gyre_survey *survey, struct gyre_trouble *trouble)
{
    static struct gyre_hosts hosts;
    static struct gyre_seating seating;
    int status = gyre_seating_parse_hosts("--hosts", list, 1, &hosts, &seating, trouble);
    if (!status && (seating.nodes < 2 || seating.nodes > GYRE_SURVEY_MOST))
        status = gyre_trouble_set(trouble, GYRE_INVALID,
                                  "--hosts '%s' names %d hosts: 2 to %d are "
                                  "looked at; `gyre doctor` alone looks at "
                                  "this machine",
                                  list, seating.nodes, GYRE_SURVEY_MOST);
    if (!status && (status = gyre_survey_init(survey, seating.nodes)))
        gyre_trouble_set(trouble, status, "no memory for %d hosts", seating.nodes);
    char *command = status ? NULL : agent_command();
    if (!status && !command)
        status = gyre_trouble_set(trouble, -ENOMEM, "no memory for a command line");
    survey->by_name = true;
    for (int i = 0; !status && i < survey->n; i++) {
        snprintf(survey->host[i].name, sizeof survey->host[i].name, "%s", hosts.name[i]);
        start_agent(i, &survey->host[i], command);
    }
    free(command);
    return status;
}

/* The last line that was written, "" for none. */
static void read_last_words(int fd, char *text, size_t size)
{
    char bytes[4096];
    ssize_t length = 0, got;
    while (length < (ssize_t)sizeof bytes - 1 &&
           (got = read(fd, bytes + length, sizeof bytes - 1 - (size_t)length)) > 0)
        length += got;
    while (length > 0 && strchr("\r\n", bytes[length - 1]))
        length--;
    bytes[length] = 0;
    const char *newline = strrchr(bytes, '\n');
    snprintf(text, size, "%s", newline ? newline + 1 : bytes);
}

/* Its exit code, or 128 + n for a signal; -1 while it still runs. */
static int wait_for_end(pid_t pid, int patience_ms)
{
    int ended = 0;
    for (int ms = 0; ms <= patience_ms; ms += 10) {
        if (waitpid(pid, &ended, WNOHANG) == pid)
            return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
        poll(NULL, 0, 10);
    }
    return -1;
}

static const char *advice_on_end(int code)
{
    return code == 255 ? "try `ssh HOST true` by hand, without a password; GYRE_SSH says how hosts "
                         "are reached"
           : code == 127 ? "the tool must be at the same path on all hosts"
           : code == 2   ? "another version of gyre may be installed there"
                         : "";
}

void gyre_ssh_tell_ends(struct gyre_survey *survey)
{
    char words[256];
    for (int i = 0; i < survey->n; i++) {
        struct gyre_survey_host *host = &survey->host[i];
        int code = *host->lost && started[i].pid
                       ? wait_for_end(started[i].pid, host->ended ? LAST_MS : 0)
                       : -1;
        if (code < 0)
            continue;
        started[i].pid = 0;
        read_last_words(started[i].errors, words, sizeof words);
        *host->lost = 0;
        gyre_survey_lose(host, advice_on_end(code), "no agent: it ended with exit code %d%s%s",
                         code, *words ? ": " : "", words);
    }
}

void gyre_ssh_end(void)
{
    for (int i = 0; i < GYRE_SURVEY_MOST; i++) {
        if (started[i].pid && wait_for_end(started[i].pid, END_MS) < 0) {
            kill(started[i].pid, SIGTERM);
            waitpid(started[i].pid, NULL, 0);
        }
        if (started[i].errors)
            close(started[i].errors);
        started[i].pid = started[i].errors = 0;
    }
}
