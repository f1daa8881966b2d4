/* What a test of whole programs starts from: an environment that no launcher has touched, and a
 * folder that goes away. */
#ifndef GYRE_TESTS_CLEAN_ROOM_H
#define GYRE_TESTS_CLEAN_ROOM_H

#include <stdio.h>
#include <stdlib.h>

/* Whatever launcher runs the tests must not speak to the programs that they start. */
static inline void clean_room_only_path(void)
{
    static char path[8192];
    const char *found = getenv("PATH");
    snprintf(path, sizeof path, "%s", found ? found : "/usr/local/bin:/usr/bin:/bin");
    clearenv();
    setenv("PATH", path, 1);
}

/* From a mkdtemp() template; 0 or not, as cmocka's fixtures return. */
static inline int clean_room_make(char *folder)
{
    return mkdtemp(folder) ? 0 : -1;
}

static inline int clean_room_remove(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "/bin/rm -rf '%s'", folder);
    return system(command);
}

#endif
