/* Cores that may really be used, and the cache. The affinity mask of a container with a quota of
 * one core shows all cores of the machine. */
#include "base/machine/cpu.h"
#include "base/machine/cgroup.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* CPUs' worth of time in a cpu.max ("200000 100000"; "max 100000" is no limit), rounded up. */
static int read_quota(const char *path)
{
    long quota, period;
    int cpus = INT_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return cpus;
    if (fscanf(file, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0)
        cpus = (int)((quota + period - 1) / period);
    fclose(file);
    return cpus;
}

static long read_quota_number(const char *root, const char *name)
{
    char path[PATH_MAX];
    long value = 0;
    snprintf(path, sizeof path, "%.3000s/sys/fs/cgroup/cpu/cpu.cfs_%s_us", root, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%ld", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

static int quota_v1(const char *root)
{
    long quota = read_quota_number(root, "quota"), period = read_quota_number(root, "period");
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : INT_MAX;
}

int gyre_cpu_quota(const char *root)
{
    char path[2 * PATH_MAX];
    int least = quota_v1(root);
    for (int level = 0; gyre_cgroup_path(root, "cpu.max", level, path, sizeof path); level++) {
        int quota = read_quota(path);
        least = quota < least ? quota : least;
    }
    return least;
}

static int affinity_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
}

static int within_quota(int count)
{
    int quota = gyre_cpu_quota("");
    count = quota < count ? quota : count;
    return count > 0 ? count : 1;
}

bool gyre_cpu_oversubscribed(int ranks)
{
    int own = affinity_count();
    return ranks > within_quota(own == 1 ? (int)sysconf(_SC_NPROCESSORS_ONLN) : own);
}

static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static uint64_t cache_bytes;

/* Reads the cache's size from the kernel's files: on some processors sysconf() multiplies by the
 * cores of all sockets. */
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
