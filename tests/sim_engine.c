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
    struct gyre_slice whole; /* where the blocks of its buffers are */
    int32_t *memory[2];
    int32_t *input, *output; /* NULL where it has none; in place one lies in the other */
};

#define UNEVEN_MAX 64

struct sim {
    uint32_t n, left;
    struct gyre_sim_world *world;
    struct gyre_layout *layout;
    struct sim_rank *rank;
    int64_t ranks;                               /* the sum of everybody's element 0 */
    uint64_t at[UNEVEN_MAX], length[UNEVEN_MAX]; /* of uneven blocks */
};

struct plan_of_run {
    const char *algorithm;
    enum gyre_verb verb;
    uint32_t n, root;
    uint64_t count, slice_bytes, seed;
    uint32_t piece_bytes;
    const char *layout; /* NULL: one node */
    bool uneven;        /* all_gather: blocks of all lengths to count, some empty */
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
        free(sim->rank[r].memory[0]);
        free(sim->rank[r].memory[1]);
    }
    gyre_sim_world_destroy(sim->world);
    gyre_layout_destroy(sim->layout);
    free(sim->rank);
}

static int32_t value(uint32_t rank, uint64_t i)
{
    return (int32_t)((rank % 97) * 3 + i % 1009);
}

static uint64_t elements_of(const struct gyre_slice *whole, enum gyre_buffer buffer)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < gyre_slice_blocks(whole, buffer); i++) {
        struct gyre_span span = gyre_slice_block(whole, buffer, i);
        end = span.at + span.bytes > end ? span.at + span.bytes : end;
    }
    return end / 4;
}

/* Two buffers, or in place one of them inside the other. */
static void make_buffers(struct sim_rank *rank, bool in_place)
{
    const struct gyre_slice *whole = &rank->whole;
    int64_t shift = gyre_slice_shift(whole) / 4;
    uint64_t in = elements_of(whole, GYRE_INPUT), out = elements_of(whole, GYRE_OUTPUT);
    rank->memory[0] = malloc((in + 1) * 4);
    rank->memory[1] = malloc((out + 1) * 4);
    memset(rank->memory[1], 0xee, (out + 1) * 4);
    rank->input = gyre_slice_blocks(whole, GYRE_INPUT) ? rank->memory[0] : NULL;
    rank->output = gyre_slice_blocks(whole, GYRE_OUTPUT) ? rank->memory[1] : NULL;
    if (in_place && rank->input && rank->output) {
        if (shift < 0)
            rank->output = rank->input - shift;
        else
            rank->input = (in > out ? (rank->output = rank->input) : rank->output) + shift;
    }
    for (uint64_t i = 0; rank->input && i < in; i++)
        rank->input[i] = value(whole->rank, i);
}

static struct gyre_shape shape_of(struct sim *sim, const struct plan_of_run *run)
{
    struct gyre_shape shape = {
        .verb = run->verb, .type = GYRE_I32, .root = run->root, .count = run->count};
    for (uint32_t r = 0; run->uneven && r < run->n; r++) {
        sim->length[r] = r + 1 == run->n ? run->count : r % 3 == 1 ? 0 : run->count * r / run->n;
        sim->at[r] = r == 0 ? 0 : sim->at[r - 1] + sim->length[r - 1] + r % 2;
    }
    if (run->uneven)
        shape.blocks = (struct gyre_blocks){sim->at, sim->length};
    return shape;
}

static void start(struct sim *sim, const struct plan_of_run *run)
{
    struct gyre_shape shape = shape_of(sim, run);
    for (uint32_t r = 0; r < sim->n; r++) {
        struct sim_rank *rank = &sim->rank[r];
        struct gyre_plan *plan;
        rank->whole = (struct gyre_slice){.verb = run->verb,
                                          .n = run->n,
                                          .rank = r,
                                          .root = run->root,
                                          .element = 4,
                                          .count = run->count,
                                          .stride = run->count,
                                          .out = shape.blocks};
        sim->ranks += value(r, 0);
        make_buffers(rank, (r + run->seed) % 2);
        assert_int_equal(gyre_engine_plan(rank->engine, &shape, &plan, NULL), 0);
        rank->op = gyre_engine_start(rank->engine, plan, rank->input, rank->output);
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

/* What element i of this block of the rank's OUTPUT has to be: the table in schedule.h. */
static int32_t expected(const struct sim *sim, const struct gyre_slice *whole, uint32_t block,
                        uint64_t i)
{
    uint64_t at = gyre_verb_scatters(whole->verb) ? whole->rank * whole->count + i : i;
    if (gyre_verb_reduces(whole->verb))
        return (int32_t)(sim->ranks + (int64_t)sim->n * (int64_t)(at % 1009));
    return value(gyre_verb_gathers(whole->verb) ? block : whole->root, at);
}

static void check_block(const struct sim *sim, const struct plan_of_run *run, uint32_t r,
                        uint32_t block)
{
    const struct gyre_slice *whole = &sim->rank[r].whole;
    struct gyre_span span = gyre_slice_block(whole, GYRE_OUTPUT, block);
    const int32_t *got = sim->rank[r].output + span.at / 4;
    for (uint64_t i = 0; i < span.bytes / 4; i++)
        if (got[i] != expected(sim, whole, block, i))
            fail_msg("%s %s n %u count %llu seed %llu: rank %u block %u element %llu is %d, "
                     "expected %d",
                     run->algorithm, gyre_verb_word[run->verb], run->n,
                     (unsigned long long)run->count, (unsigned long long)run->seed, r, block,
                     (unsigned long long)i, got[i], expected(sim, whole, block, i));
}

static void check_rank(const struct sim *sim, const struct plan_of_run *run, uint32_t r)
{
    uint32_t blocks = gyre_slice_blocks(&sim->rank[r].whole, GYRE_OUTPUT);
    for (uint32_t block = 0; block < blocks; block++)
        check_block(sim, run, r, block);
}

static uint64_t run_one(const struct plan_of_run *run)
{
    struct sim sim;
    sim_open(&sim, run);
    start(&sim, run);
    play(&sim);
    for (uint32_t r = 0; r < sim.n; r++) {
        if (sim.rank[r].op->status)
            fail_msg("%s %s n %u count %llu seed %llu: rank %u ended with %d", run->algorithm,
                     gyre_verb_word[run->verb], run->n, (unsigned long long)run->count,
                     (unsigned long long)run->seed, r, sim.rank[r].op->status);
        check_rank(&sim, run, r);
    }
    uint64_t trace = gyre_sim_world_trace(sim.world);
    sim_close(&sim);
    return trace;
}

/* Can the engine run it: is it in the table, and built for such ranks and blocks? */
static bool is_built(const struct plan_of_run *run)
{
    static const uint64_t none[UNEVEN_MAX];
    struct gyre_slice slice = {.verb = run->verb, .n = run->n, .element = 4, .stride = run->count};
    slice.count = run->count;
    if (run->uneven)
        slice.out = (struct gyre_blocks){none, none};
    return gyre_algorithm_builds(gyre_algorithm_find(run->algorithm), &slice);
}

static void run_built(struct plan_of_run run, uint32_t root)
{
    run.root = gyre_verb_has_root(run.verb) ? root % run.n : 0;
    if (is_built(&run))
        run_one(&run);
    run.uneven = true;
    if (run.verb == GYRE_VERB_ALL_GATHER && is_built(&run))
        run_one(&run);
}

/* Sanitizers and coverage are ten times slower. */
static bool in_haste(void)
{
    return getenv("GYRE_TEST_SLOW") != NULL;
}

static void every_algorithm_is_right(void **state)
{
    static const uint64_t counts[] = {0, 1, 5, 16, 17, 1000, 1025, 6000, 40001};
    const uint32_t most = in_haste() ? 5 : 9;
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t n = 2; n <= most; n++)
            for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]) - (n % 3 != 0); c++)
                for (int verb = 0; verb < GYRE_VERBS; verb++)
                    run_built((struct plan_of_run){.algorithm = gyre_algorithms[a]->name,
                                                   .verb = (enum gyre_verb)verb,
                                                   .n = n,
                                                   .count = counts[c],
                                                   .slice_bytes = c % 2 ? 16384 : 0,
                                                   .seed = 100 * n + c,
                                                   .piece_bytes = c == 5 ? 1 : c * 997},
                              c);
}

/* Beyond 32 ranks an exchange with all has several rounds. */
static void every_algorithm_is_right_with_many_ranks(void **state)
{
    static const uint32_t ns[] = {33, 64};
    const uint32_t runs = in_haste() ? 2 : 4;
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t i = 0; i < runs; i++)
            for (int verb = 0; verb < GYRE_VERBS; verb++)
                run_built((struct plan_of_run){.algorithm = gyre_algorithms[a]->name,
                                               .verb = (enum gyre_verb)verb,
                                               .n = ns[i / 2],
                                               .count = i == 1 ? 3001 : 7 * i,
                                               .slice_bytes = i == 1 ? 4096 : 0,
                                               .seed = i,
                                               .piece_bytes = i * 997},
                          i * 11);
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
            for (int verb = 0; verb < GYRE_VERBS; verb++)
                run_built((struct plan_of_run){.algorithm = gyre_algorithms[a]->name,
                                               .verb = (enum gyre_verb)verb,
                                               .n = layouts[i].n,
                                               .count = i % 2 ? 1511 : 503,
                                               .slice_bytes = i % 3 ? 16384 : 0,
                                               .seed = i,
                                               .piece_bytes = i * 997,
                                               .layout = layouts[i].text},
                          i * 7);
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
        cmocka_unit_test(every_algorithm_is_right),
        cmocka_unit_test(every_algorithm_is_right_with_many_ranks),
        cmocka_unit_test(every_layout_is_right),
        cmocka_unit_test(same_seed_same_run),
        cmocka_unit_test(large_worlds_work),
        cmocka_unit_test(death_gives_no_wrong_data),
        cmocka_unit_test(corruption_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
