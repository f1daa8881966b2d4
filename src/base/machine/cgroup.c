/* The way up through the control groups. Each level limits those below, so whoever looks for a
 * limit looks at all of them. Tested by tests/unit/base/machine/cpu_test.c. */
#include "base/machine/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The path behind "0::" of /proc/self/cgroup; "": version 2 is not in use. */
static void find_own_group(const char *root, char group[PATH_MAX])
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3000s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    *group = 0;
    while (file && fgets(group, PATH_MAX, file) && strncmp(group, "0::", 3))
        *group = 0;
    if (file)
        fclose(file);
    group[strcspn(group, "\n")] = 0;
    if (*group)
        memmove(group, group + 3, strlen(group + 3) + 1);
}

bool gyre_cgroup_path(const char *root, const char *file, int level, char *path, size_t size)
{
    char group[PATH_MAX];
    find_own_group(root, group);
    for (; level > 0; level--) {
        char *slash = strrchr(group, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    snprintf(path, size, "%.3000s/sys/fs/cgroup%s/%s", root, group, file);
    return true;
}
