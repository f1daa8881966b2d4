/* Which file tells what, in the two versions of control groups:
 *
 *                     version 1                 version 2          where there are none
 *     kills           memory.oom_control        memory.events      /proc/vmstat
 *     limit           memory.limit_in_bytes     memory.max
 *
 * Kills are of the group in which the process was, whichever group above it had too little. */
#include "base/machine/starved.h"
#include "base/machine/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

/* The number behind "oom_kill " in a file of such lines. 0: found. */
static int read_kills(const char *path, uint64_t *kills)
{
    char line[256];
    int missing = -1;
    FILE *file = fopen(path, "re");
    while (file && missing && fgets(line, sizeof line, file))
        missing = sscanf(line, "oom_kill %" SCNu64, kills) == 1 ? 0 : -1;
    if (file)
        fclose(file);
    return missing;
}

uint64_t gyre_starved_count(const char *root)
{
    char folder[PATH_MAX], path[PATH_MAX + 32];
    uint64_t kills = 0;
    for (int level = 0, version;
         (version = gyre_cgroup_of_memory(root, level, folder, sizeof folder)); level++) {
        snprintf(path, sizeof path, "%s/memory.%s", folder,
                 version == 1 ? "oom_control" : "events");
        if (!read_kills(path, &kills))
            return kills;
    }
    snprintf(path, sizeof path, "%.3000s/proc/vmstat", root);
    read_kills(path, &kills);
    return kills;
}

/* UINT64_MAX: no limit, which version 1 writes as a number near 2^63. */
static uint64_t read_most(const char *path)
{
    uint64_t limit = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%" SCNu64, &limit) != 1)
        limit = UINT64_MAX;
    if (file)
        fclose(file);
    return limit < INT64_MAX / 2 ? limit : UINT64_MAX;
}

void gyre_starved_by(const char *root, char *text, size_t size)
{
    char folder[PATH_MAX], path[PATH_MAX + 32];
    uint64_t least = UINT64_MAX;
    snprintf(text, size, "the machine's memory");
    for (int level = 0, version;
         (version = gyre_cgroup_of_memory(root, level, folder, sizeof folder)); level++) {
        snprintf(path, sizeof path, "%s/memory.%s", folder,
                 version == 1 ? "limit_in_bytes" : "max");
        uint64_t limit = read_most(path);
        if (limit >= least)
            continue;
        least = limit;
        snprintf(text, size, "%.1f MiB of %s", (double)limit / (1 << 20), path);
    }
}
