/* Monotonic time in nanoseconds. Only outer loops read the clock (wait, watch thread, bench), and
 * the code that times pieces of a PUSH; everything else is given `now`. */
#ifndef GYRE_BASE_CLOCK_H
#define GYRE_BASE_CLOCK_H

#include <stdint.h>

#define GYRE_MS     UINT64_C(1000000)
#define GYRE_SECOND UINT64_C(1000000000)

uint64_t gyre_now_ns(void);

/* The time of day, CLOCK_REALTIME in nanoseconds: for people, and to compare machines' clocks;
 * never to measure a duration. */
uint64_t gyre_wall_clock_ns(void);

#endif
