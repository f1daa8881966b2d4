/* The cheapest clock of this machine, in ticks of an unknown but constant length: the processor's
 * counter where it runs through every state of sleep, else the system's clock in nanoseconds.
 *
 * Ticks are compared within one machine only. A pair of both clocks, read together, turns them into
 * nanoseconds. */
#ifndef GYRE_TRANSPORT_RECORDER_TICKS_H
#define GYRE_TRANSPORT_RECORDER_TICKS_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether the counter is used. Set by gyre_ticks_choose(). */
extern bool gyre_ticks_are_counted;

/* Looks which clock is the cheapest. May be called often. */
void gyre_ticks_choose(void);

static inline uint64_t gyre_ticks(void)
{
#if defined(__x86_64__)
    if (gyre_ticks_are_counted)
        return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
    return gyre_now_ns();
}

#endif
