/* The cores that this launcher may use, and each rank's part of them. */
#ifndef GYRE_LAUNCH_CORES_H
#define GYRE_LAUNCH_CORES_H

#include <sched.h>
#include <stdbool.h>

struct gyre_cores {
    int count;   /* the smaller of affinity and cgroup quota, at least 1: threads worth starting */
    int machine; /* all CPUs that are online, allowed or not */
    int cpus;    /* entries of cpu[] */
    /* allowed CPUs; hyper-threads of one core and cores of one package are neighbours */
    int cpu[CPU_SETSIZE];
};

/* Reads affinity, cgroup quota and topology. Never fails: an unreadable limit counts as absent. */
void gyre_cores_find(struct gyre_cores *cores);

/* Counts threads of the whole machine, without the caller, that run or wait for a CPU; 0:
 * unknown. */
int gyre_cores_busy(void);

/* Whether n ranks can have cores of their own beside `busy` other threads of the machine. */
bool gyre_cores_are_free(const struct gyre_cores *cores, int n, int busy);

/* Threads for each of n ranks that share the machine, at least 1. */
int gyre_cores_per_rank(const struct gyre_cores *cores, int n);

/* The CPUs of place i among n. Places get equal consecutive parts; where ranks outnumber CPUs, each
 * place gets one CPU, shared in turn. */
void gyre_cores_of_rank(const struct gyre_cores *cores, int i, int n, cpu_set_t *set);

#endif
