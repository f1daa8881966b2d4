/* Runs a program and adds a line to a file: the most memory, in KiB, that it held.
 *
 *     peak FILE PROGRAM [WORD]...
 *
 * What /usr/bin/time prints, for machines that lack it and for ranks that share standard error. A
 * line is one write, so several may add to one file. The exit code is the program's, 128 and the
 * signal where one ended it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "peak: %s: %s\n", what, strerror(errno));
    return 1;
}

static int note(const char *path, long kib)
{
    char line[32];
    int length = snprintf(line, sizeof line, "%ld\n", kib);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, (size_t)length) != length || close(fd) != 0)
        return fail(path);
    return 0;
}

int main(int argc, char **argv)
{
    struct rusage usage;
    int status;
    if (argc < 3) {
        fprintf(stderr, "usage: peak FILE PROGRAM [WORD]...\n");
        return 2;
    }
    pid_t pid = fork();
    if (pid < 0)
        return fail("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[2], argv + 2);
        _exit(fail(argv[2]) + 126);
    }
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return fail("wait4");
    if (note(argv[1], usage.ru_maxrss))
        return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
