/* What a waiting loop tells the processor, and how many of them this process may use. */
#ifndef GYRE_BASE_CPU_H
#define GYRE_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

static inline void gyre_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Between two looks at what another core will write: the first follow each other at once. */
#define GYRE_LOOKS_WITHOUT_PAUSE 32u

static inline void gyre_pause_between_looks(uint32_t looks)
{
    if (looks >= GYRE_LOOKS_WITHOUT_PAUSE)
        gyre_pause();
}

/* The line of `at` will be written: has it come, and leave the others, meanwhile. gcc's own word for
 * it asks for the line to read, unless it compiles for a CPU that has this one; older ones skip it. */
static inline void gyre_prefetch_to_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

/* Bytes of the last cache, 32 MiB where the system does not tell. Reads a file, once. */
uint64_t gyre_cpu_cache_bytes(void);

/* CPUs' worth of time that the cgroups of this process give, rounded up; INT_MAX: no limit. Reads
 * files. */
int gyre_cpu_quota(void);

/* The smaller of the affinity mask and the cgroup's quota, rounded up; at least 1. Reads files:
 * call once. */
int gyre_cpu_count(void);

/* Do `ranks` processes of this machine outnumber the cores they may use? A process that is bound to
 * one core counts the machine's: launchers bind each rank to a core of its own. */
bool gyre_cpu_oversubscribed(int ranks);

#endif
