/* The engine over the simulator: the object code of real runs, in virtual time, one thread, from
 * one seed.
 *
 * The same run twice; worlds of 5,000 ranks, in haste of 1,000; a death, after which nobody returns
 * wrong data; a flipped bit. Every verb and algorithm is verbs.c. */
#include <stdlib.h>

#include "rig/haste.h"
#include "sim/engine_sim.h"
#include "rig/test.h"

static void same_seed_same_run(void **state)
{
    struct sim_run run = {.algorithm = "ring",
                          .n = 5,
                          .count = 20000,
                          .slice_bytes = 16384,
                          .seed = 42,
                          .piece_bytes = 700};
    (void)state;
    uint64_t first = sim_run(&run);
    assert_true(first == sim_run(&run));
    run.seed = 43;
    assert_true(first != sim_run(&run));
}

static void large_worlds_work(void **state)
{
    const char *wish = getenv("GYRE_SIM_RANKS");
    uint32_t many = wish ? (uint32_t)atoi(wish) : in_haste() ? 1000 : 5000;
    (void)state;
    sim_run(&(struct sim_run){
        .algorithm = "tree", .verb = GYRE_VERB_ALL_REDUCE, .n = many, .count = 3, .seed = 5});
    sim_run(&(struct sim_run){.algorithm = "tree",
                              .verb = GYRE_VERB_BROADCAST,
                              .n = many,
                              .root = 77,
                              .count = 3,
                              .seed = 6});
    sim_run(&(struct sim_run){
        .algorithm = "ring", .verb = GYRE_VERB_ALL_REDUCE, .n = 257, .count = 1000, .seed = 7});
}

/* Killed at every of many moments: neighbours learn it, and whoever ends well has the right data.
 */
static void death_gives_no_wrong_data(void **state)
{
    (void)state;
    for (uint64_t moment = 0; moment < 60; moment++) {
        struct sim_run run = {.algorithm = moment % 2 ? "ring" : "direct",
                              .n = 4,
                              .count = 9000,
                              .slice_bytes = 16384,
                              .seed = moment};
        struct sim sim;
        uint32_t failed = 0, ended = 0;
        sim_open(&sim, &run);
        sim_start(&sim, &run);
        for (uint64_t i = 0; i < moment * 3; i++) {
            int64_t r = gyre_sim_world_step(sim.world);
            if (r >= 0)
                sim_poll(&sim, &sim.rank[r]);
        }
        bool early = sim.rank[2].op->status == GYRE_AGAIN;
        gyre_sim_world_kill(sim.world, 2);
        sim_play(&sim);
        for (uint32_t r = 0; r < 4; r++) {
            if (r != 2 && sim.rank[r].op->status == 0)
                sim_check_rank(&sim, &run, r);
            ended += r != 2 && sim.rank[r].op->status == 0;
            failed += r != 2 && sim.rank[r].engine->fault.status == GYRE_PEER_LOST;
        }
        assert_true(!early || failed > 0 || ended == 3); /* it may have given all it owed */
        sim_close(&sim);
    }
}

static void corruption_is_noticed(void **state)
{
    (void)state;
    for (uint64_t skip = 0; skip < 3000; skip += 37) {
        struct sim_run run = {.algorithm = "direct", .n = 2, .count = 700, .seed = skip};
        struct sim sim;
        sim_open(&sim, &run);
        gyre_sim_world_corrupt(sim.world, 0, 1, skip);
        sim_start(&sim, &run);
        sim_play(&sim);
        if (sim.rank[1].op->status == 0)
            sim_check_rank(&sim, &run, 1);
        else
            assert_true(sim.rank[1].engine->fault.status < 0);
        sim_close(&sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_run),
        cmocka_unit_test(large_worlds_work),
        cmocka_unit_test(death_gives_no_wrong_data),
        cmocka_unit_test(corruption_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
