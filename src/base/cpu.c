/* Cores that may really be used: a container with a quota of one core shows all of the machine's in
 * its affinity mask. */
#include "base/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long quota_of(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    long quota = -1, period = 0;
    int fields = fscanf(file, "%ld %ld", &quota, &period); /* "max 100000" reads nothing */
    fclose(file);
    return fields == 2 && quota > 0 && period > 0 ? (quota + period - 1) / period : -1;
}

/* cgroup v2: the process's own group, then the root of its namespace. */
static long cgroup_cores(void)
{
    char line[512], path[640];
    long cores = -1;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "0::", 3) == 0) {
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", line + 3);
            cores = quota_of(path);
        }
    }
    if (file)
        fclose(file);
    return cores > 0 ? cores : quota_of("/sys/fs/cgroup/cpu.max");
}

static int affinity_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

static int within_quota(int count)
{
    long quota = cgroup_cores();
    count = quota > 0 && quota < count ? (int)quota : count;
    return count > 0 ? count : 1;
}

int gyre_cpu_count(void)
{
    return within_quota(affinity_count());
}

bool gyre_cpu_oversubscribed(int ranks)
{
    int own = affinity_count();
    return ranks > within_quota(own == 1 ? (int)sysconf(_SC_NPROCESSORS_ONLN) : own);
}

static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static uint64_t cache_bytes;

/* The kernel's word: sysconf() multiplies by the cores of all sockets on some processors. */
static void read_cache(void)
{
    unsigned long kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (file) {
        if (fscanf(file, "%luK", &kib) != 1)
            kib = 0;
        fclose(file);
    }
    cache_bytes = kib ? (uint64_t)kib << 10 : UINT64_C(32) << 20;
}

uint64_t gyre_cpu_cache_bytes(void)
{
    pthread_once(&cache_once, read_cache);
    return cache_bytes;
}
