/* The cores that the ranks may use, and each rank's part of them.
 *
 * Two limits are in force at once: the affinity mask lists the CPUs that may be used, the cgroup
 * quota limits the CPU time. A container with `--cpus 2` on a 64-core machine shows 64 CPUs in the
 * mask and 2 in the quota. The number of threads follows from the smaller limit, binding from the
 * mask.
 *
 * CPUs are sorted by (package, core, number), and a consecutive part therefore holds whole cores of
 * one package:
 *
 *     cpu       0  1  2  3  4  5  6  7      (core c has the hyper-threads c and c + 4)
 *     sorted    0  4 | 1  5 | 2  6 | 3  7   two ranks: {0 4 1 5} and {2 6 3 7}
 *
 * Tested by tests/unit/launch/launch_test.c. */
#include "launch/cores.h"

#include "base/machine/cpu.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct spot {
    int package, core, cpu;
};

static int read_core_number(const char *path, int absent)
{
    int value = absent;
    FILE *file = fopen(path, "re");
    if (!file)
        return absent;
    if (fscanf(file, "%d", &value) != 1)
        value = absent;
    fclose(file);
    return value;
}

static int topology(int cpu, const char *what)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    return read_core_number(path, 0);
}

static int compare_spots(const void *left, const void *right)
{
    const struct spot *a = left, *b = right;
    if (a->package != b->package)
        return a->package - b->package;
    return a->core != b->core ? a->core - b->core : a->cpu - b->cpu;
}

static void find_cpus(struct gyre_cores *cores)
{
    static struct spot spot[CPU_SETSIZE];
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask))
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &mask))
            spot[cores->cpus++] =
                (struct spot){topology(cpu, "physical_package_id"), topology(cpu, "core_id"), cpu};
    qsort(spot, (size_t)cores->cpus, sizeof *spot, compare_spots);
    for (int i = 0; i < cores->cpus; i++)
        cores->cpu[i] = spot[i].cpu;
}

void gyre_cores_find(struct gyre_cores *cores)
{
    memset(cores, 0, sizeof *cores);
    find_cpus(cores);
    int quota = gyre_cpu_quota("");
    cores->count = cores->cpus < quota ? cores->cpus : quota;
    if (cores->count < 1)
        cores->count = 1;
    cores->machine = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (cores->machine < cores->cpus)
        cores->machine = cores->cpus;
}

int gyre_cores_busy(void)
{
    FILE *file = fopen("/proc/loadavg", "re");
    int running = 1;
    if (file && fscanf(file, "%*f %*f %*f %d/", &running) != 1)
        running = 1;
    if (file)
        fclose(file);
    return running > 1 ? running - 1 : 0;
}

bool gyre_cores_are_free(const struct gyre_cores *cores, int n, int busy)
{
    return n <= cores->count && n + busy <= cores->machine;
}

int gyre_cores_per_rank(const struct gyre_cores *cores, int n)
{
    return cores->count > n ? cores->count / n : 1;
}

void gyre_cores_of_rank(const struct gyre_cores *cores, int i, int n, cpu_set_t *set)
{
    CPU_ZERO(set);
    if (cores->cpus < n) {
        if (cores->cpus)
            CPU_SET(cores->cpu[i % cores->cpus], set);
        return;
    }
    int end = (int)gyre_block_start((uint64_t)cores->cpus, (uint64_t)n, (uint64_t)i + 1);
    for (int k = (int)gyre_block_start((uint64_t)cores->cpus, (uint64_t)n, (uint64_t)i); k < end;
         k++)
        CPU_SET(cores->cpu[k], set);
}
