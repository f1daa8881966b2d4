/* The way up through the control groups. Each level limits those below, so whoever looks for a
 * limit looks at all of them. Tested by tests/unit/base/machine/cpu_test.c. */
#include "base/machine/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Looks for the group of this process in a line of /proc/self/cgroup: "0::/group" is of version 2,
 * "4:memory:/group" of version 1. `kind` is what stands before the group, from the first colon. */
static bool find_own_group(const char *root, const char *kind, char group[PATH_MAX])
{
    char path[PATH_MAX], line[PATH_MAX];
    bool found = false;
    *group = 0;
    snprintf(path, sizeof path, "%.3000s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        found = colon && strncmp(colon, kind, strlen(kind)) == 0;
        if (found)
            snprintf(group, PATH_MAX, "%s", colon + strlen(kind));
    }
    if (file)
        fclose(file);
    group[strcspn(group, "\n")] = 0;
    return found;
}

/* False: that is above the highest. */
static bool climb(char *group, int level)
{
    for (; level > 0; level--) {
        char *slash = strrchr(group, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    return true;
}

bool gyre_cgroup_path(const char *root, const char *file, int level, char *path, size_t size)
{
    char group[PATH_MAX];
    find_own_group(root, "::", group);
    if (!climb(group, level))
        return false;
    snprintf(path, size, "%.3000s/sys/fs/cgroup%s/%s", root, group, file);
    return true;
}

int gyre_cgroup_of_memory(const char *root, int level, char *folder, size_t size)
{
    char group[PATH_MAX];
    int version = find_own_group(root, ":memory:", group) ? 1 : 2;
    if (version == 2)
        find_own_group(root, "::", group);
    if (!climb(group, level))
        return 0;
    snprintf(folder, size, "%.3000s/sys/fs/cgroup%s%s", root, version == 1 ? "/memory" : "", group);
    return version;
}
