/* What a test of whole programs starts from: an environment that no launcher has touched, and a
 * folder that goes away. */
#ifndef GYRE_TESTS_RIG_CLEAN_ROOM_H
#define GYRE_TESTS_RIG_CLEAN_ROOM_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whatever launcher runs the tests must not speak to the programs that they start. */
static inline void clean_room_only_path(void)
{
    static char path[8192];
    const char *found = getenv("PATH");
    snprintf(path, sizeof path, "%s", found ? found : "/usr/local/bin:/usr/bin:/bin");
    clearenv();
    setenv("PATH", path, 1);
}

/* Removes the folder when the pipe ends. */
static inline void clean_room_guard(const char *folder, const int life[2])
{
    char byte;
    int nothing = open("/dev/null", O_RDWR);
    setsid(); /* a time limit ends the test's whole group */
    for (int fd = 0; fd < 3; fd++)
        dup2(nothing, fd);
    close(life[1]);
    while (read(life[0], &byte, 1) > 0)
        ;
    execl("/bin/rm", "rm", "-rf", folder, (char *)NULL);
    _exit(1);
}

/* From a mkdtemp() template; 0 or not, as cmocka's fixtures return. The folder goes when this
 * process and those that it has forked have ended, however they did: then a pipe that they have
 * open ends, and a guard, nobody's child, sees it. */
static inline int clean_room_make(char *folder)
{
    int life[2];
    if (!mkdtemp(folder) || pipe2(life, O_CLOEXEC))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0)
            clean_room_guard(folder, life);
        _exit(0);
    }
    close(life[0]);
    return child > 0 && waitpid(child, NULL, 0) == child ? 0 : -1;
}

static inline int clean_room_remove(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "/bin/rm -rf '%s'", folder);
    return system(command);
}

#endif
