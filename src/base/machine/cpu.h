/* Hints of a waiting loop to the processor, the cores that this process may use, and the cache. */
#ifndef GYRE_BASE_MACHINE_CPU_H
#define GYRE_BASE_MACHINE_CPU_H

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

/* Looks at a word that another core will write: the first ones follow each other without a pause.
 * */
#define GYRE_LOOKS_WITHOUT_PAUSE 32u

static inline void gyre_pause_between_looks(uint32_t looks)
{
    if (looks >= GYRE_LOOKS_WITHOUT_PAUSE)
        gyre_pause();
}

/* Fetches the cache line of `at` for writing and takes the line from other cores. gcc's builtin
 * fetches for reading unless the target CPU is known to have PREFETCHW; CPUs without PREFETCHW skip
 * it. */
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
 * files below `root`, which is "" for this machine. */
int gyre_cpu_quota(const char *root);

/* Whether `ranks` processes of this machine outnumber the cores that they may use. A process that
 * is bound to one core counts the machine's: launchers bind each rank to a core of its own. */
bool gyre_cpu_oversubscribed(int ranks);

#endif
