/* Engines over the simulator: n ranks run one operation in virtual time, in one thread, from one
 * seed; every other rank works in place. What each OUTPUT has to hold is checked, element by
 * element. For cmocka's tests only: whatever goes wrong fails the test that runs. */
#ifndef GYRE_TESTS_SIM_ENGINE_SIM_H
#define GYRE_TESTS_SIM_ENGINE_SIM_H

#include "collectives/engine/engine.h"
#include "collectives/schedule/layout.h"
#include "sim/rough.h"
#include "transport/link/sim/world.h"

#define SIM_UNEVEN_MAX 64

struct sim_rank {
    struct gyre_links *links;
    struct gyre_engine *engine;
    struct gyre_operation *op;
    struct gyre_slice whole; /* where the blocks of its buffers are */
    int32_t *memory[2];
    int32_t *input, *output; /* NULL where it has none; in place one lies in the other */
};

struct sim {
    uint32_t n, left;
    struct gyre_sim_world *world;
    struct gyre_layout *layout;
    struct sim_rank *rank;
    int64_t ranks;                                       /* the sum of everybody's element 0 */
    uint64_t at[SIM_UNEVEN_MAX], length[SIM_UNEVEN_MAX]; /* of uneven blocks */
};

struct sim_run {
    const char *algorithm; /* NULL: the model chooses */
    enum gyre_verb verb;
    uint32_t n, root;
    uint64_t count, slice_bytes, seed;
    uint32_t piece_bytes;
    const char *layout;                       /* NULL: one node */
    const struct gyre_sim_link *link;         /* NULL: rough ones */
    const struct gyre_preference *preference; /* NULL: none */
    bool uneven; /* all_gather: blocks of all lengths to count, some empty */
};

void sim_open(struct sim *sim, const struct sim_run *run);
void sim_close(struct sim *sim);

/* Starts the operation on every rank, and plays until nothing happens any more. */
void sim_start(struct sim *sim, const struct sim_run *run);
void sim_play(struct sim *sim);

/* Moves what a rank can move, its wire too; true if anything did. */
bool sim_poll(const struct sim *sim, const struct sim_rank *rank);

/* Is that rank's OUTPUT what the table in collectives/schedule/schedule.h says? */
void sim_check_rank(const struct sim *sim, const struct sim_run *run, uint32_t rank);

/* All of it; the trace of the world. */
uint64_t sim_run(const struct sim_run *run);

/* Runs it, and an all_gather with uneven blocks too, where the algorithm builds that. The verb's
 * root, if it has one, is `root` % n. */
void sim_run_built(struct sim_run run, uint32_t root);

#endif
