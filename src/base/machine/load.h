/* How busy a machine is with what is not this job: the time that other processes and the hypervisor
 * took between two looks at the kernel's counters. Whoever measures speeds asks, because speeds of
 * a loaded machine mislead. */
#ifndef GYRE_BASE_MACHINE_LOAD_H
#define GYRE_BASE_MACHINE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_LOAD_PROCESSES 512

/* One look at the counters. */
struct gyre_load_look {
    uint64_t at_ns;
    uint64_t busy, stolen, all; /* ticks of all cores together; all is 0 where nothing is told */
    uint64_t own_ns; /* processor time of this process and of its children that were waited for */
    uint64_t hot;    /* how often a core was slowed because it was hot */
    uint32_t cores;
    uint32_t processes; /* others, as many as the table holds */
    struct gyre_load_process {
        int32_t pid;
        uint64_t ticks;
    } process[GYRE_LOAD_PROCESSES];
};

/* What one process saw between two looks. Plain bytes, so that ranks can exchange it. */
struct gyre_load {
    char host[64];
    double cores;        /* of the machine; 0: nothing is known */
    double busy, stolen; /* cores' worth of time of all processes, and of the hypervisor */
    double own;          /* of this process and of its children */
    double average;      /* the load average of the last minute */
    uint64_t hot;        /* how often a core was slowed because it was hot */
    char busiest[32];    /* "cc1plus, pid 812", which took much of the rest; "" for none */
};

/* `root` is "" for this machine; tests give a folder that has a `proc` and a `sys`. */
void gyre_load_look(const char *root, struct gyre_load_look *look);

/* Processes of this process's own name are not told as the busiest: they may be the job's. */
void gyre_load_between(const char *root, const struct gyre_load_look *from,
                       const struct gyre_load_look *to, struct gyre_load *load);

/* Cores' worth of time that nobody of these took, on the machine of load[i]. */
double gyre_load_of_others(const struct gyre_load *load, int n, int i);

/* Writes what disturbs, on the machine that is disturbed most: "on HOST other processes took 1.4 of
 * 2 cores (above all cc1plus, pid 812), load average 3.1". False and "": all are quiet enough to
 * measure on, or tell nothing. */
bool gyre_load_tell(const struct gyre_load *load, int n, char *text, size_t size);

#endif
