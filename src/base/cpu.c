/* Cores that may really be used, and the cache. The affinity mask of a container with a quota of
 * one core shows all cores of the machine. */
#include "base/cpu.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* CPUs' worth of time in `folder`'s cpu.max ("200000 100000"; "max 100000" is no limit), rounded
 * up. */
static int quota_of(const char *folder)
{
    char path[PATH_MAX];
    long quota, period;
    int cpus = INT_MAX;
    snprintf(path, sizeof path, "/sys/fs/cgroup%.4000s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return cpus;
    if (fscanf(file, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0)
        cpus = (int)((quota + period - 1) / period);
    fclose(file);
    return cpus;
}

static long read_quota_number(const char *name)
{
    char path[64];
    long value = 0;
    snprintf(path, sizeof path, "/sys/fs/cgroup/cpu/cpu.cfs_%s_us", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%ld", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

static int quota_v1(void)
{
    long quota = read_quota_number("quota"), period = read_quota_number("period");
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : INT_MAX;
}

/* The least quota from the process's own group up to the root: each level limits those below. */
int gyre_cpu_quota(void)
{
    char line[PATH_MAX] = "";
    int least = quota_v1();
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "0::", 3))
        line[0] = 0;
    if (file)
        fclose(file);
    line[strcspn(line, "\n")] = 0;
    for (char *folder = *line ? line + 3 : line;;) {
        int quota = quota_of(folder);
        least = quota < least ? quota : least;
        char *slash = strrchr(folder, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

static int affinity_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

static int within_quota(int count)
{
    int quota = gyre_cpu_quota();
    count = quota < count ? quota : count;
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

/* Asks the kernel's files: on some processors sysconf() multiplies by the cores of all sockets. */
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
