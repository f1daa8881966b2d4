/* Whole communicators over the simulator: each rank calls gyre/gyre.h as a program would, over
 * simulated links and in virtual time.
 *
 * A rank is a thread, but only the one that the simulated world has stepped runs; it runs until it
 * would wait. So a run is decided by its seed alone, and what bodies share needs no lock. The
 * domain is replaced by comm_sim.c and no_node.c: no sockets, no watch, no helper. */
#ifndef GYRE_TESTS_SIM_COMM_SIM_H
#define GYRE_TESTS_SIM_COMM_SIM_H

#include "sim/rough.h"

#include <gyre/gyre.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define COMM_SIM_RANKS 64

struct comm_sim {
    uint32_t n, per_node; /* ranks, and of each node: fewer than n, for links only join nodes */
    uint64_t seed;
    uint32_t piece_bytes;
    void (*body)(struct gyre_comm *comm, struct comm_sim *sim);
    uint32_t entered; /* for bodies; 0 at first */
};

/* Runs the body on every rank to its end. A world in which nothing will happen any more, while
 * ranks still wait, ends the program. */
void comm_sim_run(struct comm_sim *sim);

/* In a body: ends the program, told on standard error with the rank, unless it is fine. */
void comm_sim_check(bool fine, struct gyre_comm *comm, const char *what);

static inline void must(int status, struct gyre_comm *comm, const char *what)
{
    comm_sim_check(status == 0, comm, what);
}

/* -- what ranks send each other, for bodies to check ------------------------------------------- */

static inline int32_t value(uint32_t from, uint32_t to, uint64_t i)
{
    return (int32_t)(from * 1000003 + to * 4099 + i * 7);
}

static inline int32_t *filled(uint32_t from, uint32_t to, uint64_t count)
{
    int32_t *data = malloc((count + 1) * sizeof(*data));
    for (uint64_t i = 0; i < count; i++)
        data[i] = value(from, to, i);
    return data;
}

static inline bool is_filled(const int32_t *data, uint32_t from, uint32_t to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (data[i] != value(from, to, i))
            return false;
    return true;
}

#endif
