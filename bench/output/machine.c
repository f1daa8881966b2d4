/* Facts from /proc and the scheduler. A fact that cannot be had is said to be unknown. */
#include "output/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_model(char *model, size_t room)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(model, room, "CPU of unknown model");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (colon) {
            snprintf(model, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file) {
        fclose(file);
    }
}

/* "0-3,8": the cores this process is bound to. */
static void list_cores(const cpu_set_t *set, char *list, size_t room)
{
    size_t length = 0;
    list[0] = '\0';
    for (int core = 0; core < CPU_SETSIZE && length < room; core++) {
        if (!CPU_ISSET(core, set)) {
            continue;
        }
        int last = core;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set)) {
            last++;
        }
        const char *comma = length ? "," : "";
        length +=
            (size_t)(last > core
                         ? snprintf(list + length, room - length, "%s%d-%d", comma, core, last)
                         : snprintf(list + length, room - length, "%s%d", comma, core));
        core = last;
    }
}

void bench_machine_place(int local_rank, struct bench_place *place)
{
    char model[64], cores[32];
    cpu_set_t set;
    CPU_ZERO(&set);
    memset(place, 0, sizeof *place);
    place->pid = getpid();
    place->device = local_rank;
    sched_getaffinity(0, sizeof set, &set);
    if (gethostname(place->host, sizeof place->host - 1) != 0) {
        strcpy(place->host, "unknown");
    }
    read_model(model, sizeof model);
    list_cores(&set, cores, sizeof cores);
    snprintf(place->chip, sizeof place->chip, "%.50s on %.28s", model, cores);
}

void bench_machine_device(int device, const char *name, struct bench_place *place)
{
    place->device = device;
    snprintf(place->chip, sizeof place->chip, "%s", name);
}

double bench_machine_load(void)
{
    double load;
    return getloadavg(&load, 1) == 1 ? load : -1;
}

uint64_t bench_machine_peak_bytes(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && !kib && fgets(line, sizeof line, file)) {
        sscanf(line, "VmHWM: %llu", &kib);
    }
    if (file) {
        fclose(file);
    }
    return kib * 1024;
}

int bench_machine_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : (int)cores;
}
