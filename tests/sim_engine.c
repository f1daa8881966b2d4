/* The engine over the simulator: the object code of real runs, in virtual time, one thread, from
 * one seed.
 *
 * Every algorithm, with few and with many ranks, over links that delay, cut and merge; then worlds
 * of thousands; then a death, after which nobody returns wrong data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "collectives/engine.h"
#include "collectives/layout.h"
#include "transport/drivers/driver.h"
#include "transport/sim_world.h"

struct sim_rank {
    struct gyre_links *links;
    struct gyre_engine *engine;
    struct gyre_operation *op;
    int32_t *input, *output;
};

struct sim {
    uint32_t n, left;
    struct gyre_sim_world *world;
    struct gyre_layout *layout;
    struct sim_rank *rank;
};

struct plan_of_run {
    const char *algorithm;
    enum gyre_verb verb;
    uint32_t n, root;
    uint64_t count, slice_bytes, seed;
    uint32_t piece_bytes;
    const char *layout; /* NULL: one node */
};

static void sim_open(struct sim *sim, const struct plan_of_run *run)
{
    struct gyre_sim_options options = {.seed = run->seed,
                                       .n = run->n,
                                       .link = {.latency_ns = 10000,
                                                .jitter_ns = 5000,
                                                .bytes_per_second = 1000000000,
                                                .piece_bytes = run->piece_bytes,
                                                .coalesce_ns = run->seed % 3 ? 0 : 20000}};
    uint32_t n;
    *sim = (struct sim){.n = run->n, .left = run->n};
    if (run->layout)
        assert_int_equal(gyre_layout_read("layout", run->layout, &sim->layout, &n, NULL), 0);
    assert_int_equal(gyre_sim_world_create(&options, &sim->world), 0);
    sim->rank = calloc(run->n, sizeof(*sim->rank));
    for (uint32_t r = 0; r < run->n; r++) {
        struct gyre_wire_options wire_options = {
            .rank = r, .n = run->n, .peers = 64, .world = sim->world};
        struct gyre_wire *wire;
        assert_int_equal(gyre_links_create(64, &sim->rank[r].links), 0);
        assert_int_equal(gyre_driver_sim.open(&wire_options, &wire, NULL), 0);
        gyre_links_attach_lazily(sim->rank[r].links,
                                 gyre_links_add_wire(sim->rank[r].links, &gyre_driver_sim, wire));
        struct gyre_engine_options engine = {.rank = r,
                                             .n = run->n,
                                             .links = sim->rank[r].links,
                                             .layout = sim->layout,
                                             .algorithm = gyre_algorithm_find(run->algorithm),
                                             .slice_bytes = run->slice_bytes};
        assert_int_equal(gyre_engine_create(&engine, &sim->rank[r].engine, NULL), 0);
    }
}

static void sim_close(struct sim *sim)
{
    for (uint32_t r = 0; r < sim->n; r++) {
        gyre_links_destroy(sim->rank[r].links);
        gyre_engine_destroy(sim->rank[r].engine);
        free(sim->rank[r].input);
        free(sim->rank[r].output);
    }
    gyre_sim_world_destroy(sim->world);
    gyre_layout_destroy(sim->layout);
    free(sim->rank);
}

static int32_t value(uint32_t rank, uint64_t i)
{
    return (int32_t)((rank % 97) * 3 + i % 1009);
}

static void start(struct sim *sim, const struct plan_of_run *run)
{
    struct gyre_shape shape = {
        .verb = run->verb, .type = GYRE_I32, .root = run->root, .count = run->count};
    for (uint32_t r = 0; r < sim->n; r++) {
        struct sim_rank *rank = &sim->rank[r];
        struct gyre_plan *plan;
        bool in_place = (r + run->seed) % 2;
        rank->input = malloc(run->count * 4 + 4);
        rank->output = in_place ? NULL : malloc(run->count * 4 + 4);
        for (uint64_t i = 0; i < run->count; i++)
            rank->input[i] = value(r, i);
        assert_int_equal(gyre_engine_plan(rank->engine, &shape, &plan, NULL), 0);
        rank->op = gyre_engine_start(rank->engine, plan, rank->input,
                                     in_place ? rank->input : rank->output);
        gyre_sim_world_wake(sim->world, r, r % 7 * 1000);
    }
}

/* Until nothing happens any more; whoever finishes does so in virtual time. */
static void play(struct sim *sim)
{
    int64_t r;
    uint64_t steps = 0;
    while (sim->left && (r = gyre_sim_world_step(sim->world)) >= 0) {
        struct sim_rank *rank = &sim->rank[r];
        assert_true(++steps < 100000000);
        bool running = rank->op->status == GYRE_AGAIN;
        while (gyre_engine_poll(rank->engine, gyre_sim_world_now(sim->world)))
            continue;
        sim->left -= running && rank->op->status != GYRE_AGAIN;
    }
}

static void check_rank(const struct sim *sim, const struct plan_of_run *run, uint32_t r)
{
    const int32_t *got = sim->rank[r].output ? sim->rank[r].output : sim->rank[r].input;
    int64_t ranks = 0;
    for (uint32_t p = 0; p < sim->n; p++)
        ranks += value(p, 0);
    for (uint64_t i = 0; i < run->count; i++) {
        int64_t expected = run->verb == GYRE_VERB_BROADCAST
                               ? value(run->root, i)
                               : ranks + (int64_t)sim->n * (int64_t)(i % 1009);
        if (got[i] != (int32_t)expected)
            fail_msg(
                "%s verb %d n %u count %llu seed %llu: rank %u element %llu is %d, expected %d",
                run->algorithm, (int)run->verb, run->n, (unsigned long long)run->count,
                (unsigned long long)run->seed, r, (unsigned long long)i, got[i], (int)expected);
    }
}

static uint64_t run_one(const struct plan_of_run *run)
{
    struct sim sim;
    sim_open(&sim, run);
    start(&sim, run);
    play(&sim);
    for (uint32_t r = 0; r < sim.n; r++) {
        if (sim.rank[r].op->status)
            fail_msg("%s verb %d n %u count %llu seed %llu: rank %u ended with %d", run->algorithm,
                     (int)run->verb, run->n, (unsigned long long)run->count,
                     (unsigned long long)run->seed, r, sim.rank[r].op->status);
        check_rank(&sim, run, r);
    }
    uint64_t trace = gyre_sim_world_trace(sim.world);
    sim_close(&sim);
    return trace;
}

static void every_algorithm_is_right(void **state)
{
    static const uint64_t counts[] = {0, 1, 5, 16, 17, 1000, 1025, 6000, 40001};
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t n = 2; n <= 9; n++)
            for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
                for (int verb = 0; verb <= GYRE_VERB_BROADCAST; verb++) {
                    if (!(gyre_algorithms[a]->verbs >> verb & 1))
                        continue;
                    run_one(&(struct plan_of_run){.algorithm = gyre_algorithms[a]->name,
                                                  .verb = (enum gyre_verb)verb,
                                                  .n = n,
                                                  .root = verb == GYRE_VERB_BROADCAST ? c % n : 0,
                                                  .count = counts[c],
                                                  .slice_bytes = c % 2 ? 16384 : 0,
                                                  .seed = 100 * n + c,
                                                  .piece_bytes = c == 5 ? 1 : c * 997});
                }
}

static void every_layout_is_right(void **state)
{
    static const struct {
        const char *text;
        uint32_t n;
    } layouts[] = {{"2x2", 4}, {"4+2", 6}, {"5+1", 6}, {"1+7+3", 11}, {"4x4", 16}, {"8x8", 64}};
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
            if (gyre_algorithms[a]->verbs & 1u << GYRE_VERB_ALL_REDUCE)
                run_one(&(struct plan_of_run){.algorithm = gyre_algorithms[a]->name,
                                              .verb = GYRE_VERB_ALL_REDUCE,
                                              .n = layouts[i].n,
                                              .count = i % 2 ? 30011 : 5003,
                                              .slice_bytes = i % 3 ? 16384 : 0,
                                              .seed = i,
                                              .piece_bytes = i * 997,
                                              .layout = layouts[i].text});
}

static void same_seed_same_run(void **state)
{
    struct plan_of_run run = {.algorithm = "ring",
                              .n = 5,
                              .count = 20000,
                              .slice_bytes = 16384,
                              .seed = 42,
                              .piece_bytes = 700};
    (void)state;
    uint64_t first = run_one(&run);
    assert_true(first == run_one(&run));
    run.seed = 43;
    assert_true(first != run_one(&run));
}

static void large_worlds_work(void **state)
{
    const char *wish = getenv("GYRE_SIM_RANKS");
    uint32_t many = wish ? (uint32_t)atoi(wish) : 5000;
    (void)state;
    run_one(&(struct plan_of_run){
        .algorithm = "tree", .verb = GYRE_VERB_ALL_REDUCE, .n = many, .count = 3, .seed = 5});
    run_one(&(struct plan_of_run){.algorithm = "tree",
                                  .verb = GYRE_VERB_BROADCAST,
                                  .n = many,
                                  .root = 77,
                                  .count = 3,
                                  .seed = 6});
    run_one(&(struct plan_of_run){
        .algorithm = "ring", .verb = GYRE_VERB_ALL_REDUCE, .n = 257, .count = 1000, .seed = 7});
}

/* Killed at every of many moments: neighbours learn it, and whoever ends well has the right data.
 */
static void death_gives_no_wrong_data(void **state)
{
    (void)state;
    for (uint64_t moment = 0; moment < 60; moment++) {
        struct plan_of_run run = {.algorithm = moment % 2 ? "ring" : "direct",
                                  .n = 4,
                                  .count = 9000,
                                  .slice_bytes = 16384,
                                  .seed = moment};
        struct sim sim;
        uint32_t failed = 0, ended = 0;
        sim_open(&sim, &run);
        start(&sim, &run);
        for (uint64_t i = 0; i < moment * 3; i++) {
            int64_t r = gyre_sim_world_step(sim.world);
            if (r >= 0)
                gyre_engine_poll(sim.rank[r].engine, gyre_sim_world_now(sim.world));
        }
        bool early = sim.rank[2].op->status == GYRE_AGAIN;
        gyre_sim_world_kill(sim.world, 2);
        play(&sim);
        for (uint32_t r = 0; r < 4; r++) {
            if (r != 2 && sim.rank[r].op->status == 0)
                check_rank(&sim, &run, r);
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
        struct plan_of_run run = {.algorithm = "direct", .n = 2, .count = 700, .seed = skip};
        struct sim sim;
        sim_open(&sim, &run);
        gyre_sim_world_corrupt(sim.world, 0, 1, skip);
        start(&sim, &run);
        play(&sim);
        if (sim.rank[1].op->status == 0)
            check_rank(&sim, &run, 1);
        else
            assert_true(sim.rank[1].engine->fault.status < 0);
        sim_close(&sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right),  cmocka_unit_test(every_layout_is_right),
        cmocka_unit_test(same_seed_same_run),        cmocka_unit_test(large_worlds_work),
        cmocka_unit_test(death_gives_no_wrong_data), cmocka_unit_test(corruption_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
