/* Operations on shared memory, simulated: n engines in one thread, stepped in a random order that a
 * seed decides.
 *
 * The domain is replaced by mesh_sim.c: a rank's views are its neighbours' plain pointers, and each
 * buffer is "mapped" or not at random, so every mixture of in-place memory and staging, in place
 * and out of place, is met. For cmocka's tests only: whatever goes wrong fails the test. */
#ifndef GYRE_TESTS_SIM_MESH_SIM_H
#define GYRE_TESTS_SIM_MESH_SIM_H

#include "base/rng.h"
#include "collectives/engine/engine.h"
#include "collectives/mapped/mesh.h"

#define MESH_SIM_RANKS GYRE_PEERS_MAPPED_MAX

struct gyre_domain {
    uint32_t rank;
    uint8_t *region[3]; /* 1: inputs, 2: outputs; NULL: peers cannot map it */
    uint64_t length;
    uint32_t rings, detached;
};

extern struct gyre_domain mesh_sim_world[MESH_SIM_RANKS];

struct rank {
    struct gyre_engine *engine;
    struct gyre_mesh mesh;
    struct gyre_board *board;
    struct gyre_inbox *inbox;
    uint8_t *input, *output;
    uint8_t *memory[2];
    struct gyre_operation *op;
};

struct node {
    uint32_t n;
    struct rank rank[MESH_SIM_RANKS];
    struct gyre_rng rng;
};

void mesh_sim_open(struct node *node, uint32_t n, uint64_t seed);
void mesh_sim_close(struct node *node);

/* Buffers of every rank, in place and mapped as the seed has it; `turn` makes their values. */
void mesh_sim_fill(struct node *node, const struct gyre_shape *shape, uint64_t turn);
void mesh_sim_empty(struct node *node);

/* Starts the operation everywhere, steps ranks at random until all have ended, and compares every
 * OUTPUT; or all of it, with buffers. */
void mesh_sim_start(struct node *node, const struct gyre_shape *shape);
void mesh_sim_play(struct node *node);
void mesh_sim_check(struct node *node, const struct gyre_shape *shape, uint64_t turn);
void mesh_sim_run(struct node *node, struct gyre_shape shape, uint64_t turn);

#endif
