/* Chooses the clock of ticks. Tested by tests/unit/transport/recorder/recorder_test.c. */
#include "transport/recorder/ticks.h"

#include <pthread.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool gyre_ticks_are_counted;

#define INVARIANT_LEAF 0x80000007u
#define INVARIANT_BIT  (1u << 8)

static void choose_ticks(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d = 0;
    bool known = __get_cpuid(INVARIANT_LEAF, &a, &b, &c, &d) != 0;
    gyre_ticks_are_counted = known && (d & INVARIANT_BIT) != 0;
#endif
}

/* Threads of an earlier group may read meanwhile. */
void gyre_ticks_choose(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_ticks);
}
