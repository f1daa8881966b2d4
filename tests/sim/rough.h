/* The simulated world of tests that run whole schedules: links with jitter, and pieces that arrive
 * one by one or together, as the seed says. */
#ifndef GYRE_TESTS_SIM_ROUGH_H
#define GYRE_TESTS_SIM_ROUGH_H

#include "rig/haste.h"
#include "transport/link/sim/world.h"

static inline struct gyre_sim_options sim_rough(uint32_t n, uint64_t seed, uint32_t piece_bytes)
{
    return (struct gyre_sim_options){.seed = seed,
                                     .n = n,
                                     .link = {.latency_ns = 10000,
                                              .jitter_ns = 5000,
                                              .bytes_per_second = 1000000000,
                                              .piece_bytes = piece_bytes,
                                              .coalesce_ns = seed % 3 ? 0 : 20000}};
}

#endif
