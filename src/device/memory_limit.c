/* Finds the limit that a large allocation would meet, before it meets it.
 *
 * Pages of a memfd come at first touch, long after mmap() succeeded, and the kernel kills a process
 * that touches one too many without a word. So large regions are compared with three limits first:
 *
 *     RLIMIT_FSIZE    a memfd is a file: growing it past the limit is SIGXFSZ
 *     cgroup          own group and all above it, version 1 or 2: limit − memory not reclaimable
 *     machine         MemAvailable + SwapFree of /proc/meminfo
 *
 * A file that is missing or not understood sets no limit. Regions up to SMALL are compared with
 * RLIMIT_FSIZE only. Their pages are taken at once by fallocate(), which fails with a status, and
 * reading files would cost more than it tells. Tested by tests/unit/device/cpu_test.c. */
#include "device/memory_limit.h"

#include "base/machine/cgroup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define PATH_ROOM 4096
#define SMALL     (UINT64_C(1) << 20)

struct limit {
    uint64_t left; /* bytes */
    char name[PATH_ROOM + 64];
    const char *remedy;
};

/* The number behind `key` in a file of "key value" lines; 0 if the file or the key is missing. */
static uint64_t read_field(const char *path, const char *key)
{
    char line[256];
    uint64_t value = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':')) {
            value = strtoull(line + length + 1, NULL, 10);
            break;
        }
    }
    fclose(file);
    return value;
}

/* The number that is the whole content of a file; UINT64_MAX for "max", a missing file or
 * nonsense. */
static uint64_t read_limit(const char *path)
{
    uint64_t value = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return value;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = UINT64_MAX;
    fclose(file);
    return value;
}

static void tighten(struct limit *limit, uint64_t left, const char *name, const char *remedy)
{
    if (left >= limit->left)
        return;
    limit->left = left;
    limit->remedy = remedy;
    snprintf(limit->name, sizeof limit->name, "%s", name);
}

static void look_at_machine(struct limit *limit)
{
    uint64_t kilobytes = read_field("/proc/meminfo", "MemAvailable");
    if (kilobytes > 0)
        tighten(limit, (kilobytes + read_field("/proc/meminfo", "SwapFree")) << 10,
                "this machine's free memory", "use smaller buffers or fewer ranks on this machine");
}

static void look_at_file_size(struct limit *limit)
{
    struct rlimit size;
    if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur != RLIM_INFINITY)
        tighten(limit, size.rlim_cur, "the file size limit (ulimit -f)", "raise `ulimit -f`");
}

/* The names of the same things in the two cgroup versions. */
struct cgroup_words {
    const char *limit, *anonymous, *shared;
};

static const struct cgroup_words version_1 = {"memory.limit_in_bytes", "total_rss", "total_shmem"};
static const struct cgroup_words version_2 = {"memory.max", "anon", "shmem"};

static void look_at_group(struct limit *limit, const struct cgroup_words *words, const char *folder)
{
    char path[PATH_ROOM + 64];
    snprintf(path, sizeof path, "%s/%s", folder, words->limit);
    uint64_t most = read_limit(path);
    if (most >= INT64_MAX / 2) /* version 1 writes "no limit" as a very large number */
        return;
    char stat[PATH_ROOM + 64];
    snprintf(stat, sizeof stat, "%s/memory.stat", folder);
    uint64_t used = read_field(stat, words->anonymous) + read_field(stat, words->shared);
    tighten(limit, used < most ? most - used : 0, path, "raise that limit or use smaller buffers");
}

static void look_at_cgroups(struct limit *limit)
{
    char folder[PATH_ROOM];
    for (int level = 0, version;
         (version = gyre_cgroup_of_memory("", level, folder, sizeof folder)); level++)
        look_at_group(limit, version == 1 ? &version_1 : &version_2, folder);
}

int gyre_memory_limit_check(uint64_t length, struct gyre_trouble *trouble)
{
    struct limit limit = {.left = UINT64_MAX};
    look_at_file_size(&limit);
    if (length > SMALL) {
        look_at_cgroups(&limit);
        look_at_machine(&limit);
    }
    if (length <= limit.left)
        return 0;
    return gyre_trouble_set(
        trouble, -ENOMEM, "%.1f MiB of shared memory do not fit: %s leaves %.1f MiB; %s",
        (double)length / (1 << 20), limit.name, (double)limit.left / (1 << 20), limit.remedy);
}
