/* The trials of gyre tune: each size by each algorithm. The last size is timed between machines
 * only, where queues and bursts hide a wire's speed from shorter ones. Tested by
 * tests/program/cli/tune.c. */
#include "cli/tune/inside.h"

const char *const gyre_tune_algorithm[GYRE_TUNE_ALGORITHMS] = {"doubling", "direct", "ring"};

uint64_t gyre_tune_bytes(int trial)
{
    static const uint64_t sizes[GYRE_TUNE_SIZES] = {8, 4096, 32768, 262144, 2097152};
    return sizes[trial / GYRE_TUNE_ALGORITHMS] + (uint64_t)(trial % GYRE_TUNE_ALGORITHMS) * 64;
}
