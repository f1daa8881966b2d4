/* The room. Process 1 inherits every orphan, so no process of a job can hide. */
#include "nemesis/room.h"

#include "rig/sanitized.h"

#include <ctype.h>
#include <dirent.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && !ioctl(fd, SIOCGIFFLAGS, &request);
    request.ifr_flags |= IFF_UP;
    done = done && !ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    return done;
}

static bool furnish(void)
{
    return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("proc", "/proc", "proc", 0, NULL) &&
           !mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) && raise_loopback();
}

/* The child cannot outlive the caller, whose end may be a time limit's. A sanitizer cannot look for
 * leaks in process 1 of a namespace. */
bool room_enter(void)
{
    int furnished[2], status = 0;
    char word = 0;
#ifdef SANITIZED
    return false;
#endif
    if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET) || pipe(furnished))
        return false;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        word = furnish();
        if (write(furnished[1], &word, 1) != 1 || !word)
            _exit(77);
        close(furnished[0]);
        close(furnished[1]);
        return true;
    }
    if (child < 0 || read(furnished[0], &word, 1) != 1 || !word) {
        fprintf(stderr, "cannot furnish a room of its own\n");
        exit(1);
    }
    waitpid(child, &status, 0);
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int files_in(const char *folder, bool processes, bool tell)
{
    DIR *open = opendir(folder);
    int found = 0;
    for (struct dirent *entry; open && (entry = readdir(open)) != NULL;) {
        bool counts =
            processes ? isdigit((unsigned char)entry->d_name[0]) && strcmp(entry->d_name, "1") != 0
                      : entry->d_name[0] != '.';
        if (!counts)
            continue;
        if (tell)
            fprintf(stderr, "left behind: %s/%s\n", folder, entry->d_name);
        found++;
    }
    if (open)
        closedir(open);
    return found;
}

/* Lines behind the heading that have the word, NULL: all. */
static int lines_with(const char *path, const char *word, bool tell)
{
    FILE *file = fopen(path, "r");
    char line[512];
    int found = 0;
    for (int i = 0; file && fgets(line, sizeof line, file); i++)
        if (i > 0 && (!word || strstr(line, word))) {
            if (tell)
                fprintf(stderr, "left behind: %s: %s", path, line);
            found++;
        }
    if (file)
        fclose(file);
    return found;
}

static int count_leftovers(bool tell)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return files_in("/proc", true, tell) + files_in("/dev/shm", false, tell) +
           lines_with("/proc/net/unix", NULL, tell) + lines_with("/proc/net/tcp", " 0A ", tell) +
           lines_with("/proc/net/tcp", " 01 ", tell);
}

/* The kernel closes the sockets of an io_uring some time after its process has ended. */
int room_leftovers(void)
{
    struct timespec moment = {0, 5000000};
    for (int looks = 0; looks < 1000; looks++) {
        if (count_leftovers(false) == 0)
            return 0;
        nanosleep(&moment, NULL);
    }
    return count_leftovers(true);
}
