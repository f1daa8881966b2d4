/* Chooses the clock of ticks. Tested by tests/unit/transport/recorder/recorder_test.c. */
#include "transport/recorder/ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool gyre_ticks_are_counted;

#define INVARIANT_LEAF 0x80000007u
#define INVARIANT_BIT  (1u << 8)

void gyre_ticks_choose(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d = 0;
    bool known = __get_cpuid(INVARIANT_LEAF, &a, &b, &c, &d) != 0;
    gyre_ticks_are_counted = known && (d & INVARIANT_BIT) != 0;
#endif
}
