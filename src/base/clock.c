/* Time from the system's clocks. */
#include "base/clock.h"

#include <time.h>

uint64_t gyre_wall_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * GYRE_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t gyre_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * GYRE_SECOND + (uint64_t)now.tv_nsec;
}
