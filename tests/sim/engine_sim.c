/* Engines over the simulator: the object code of real runs, in virtual time; see engine_sim.h.
 *
 * A rank's buffers are as its slice of the whole operation says, and every other rank works in
 * place, which the seed turns round. Element i of a rank's INPUT is value(rank, i), so what any
 * OUTPUT has to be is computed, not kept. */
#include "sim/engine_sim.h"

#include <stdlib.h>
#include <string.h>

#include "transport/link/driver.h"
#include "rig/test.h"
#include "collectives/algorithms/table.h"

static const struct gyre_algorithm *wanted(const struct sim_run *run)
{
    return run->algorithm ? gyre_algorithm_find(run->algorithm) : NULL;
}

static const char *name_of(const struct sim_run *run)
{
    return run->algorithm ? run->algorithm : "auto";
}

void sim_open(struct sim *sim, const struct sim_run *run)
{
    struct gyre_sim_options options = sim_rough(run->n, run->seed, run->piece_bytes);
    uint32_t n;
    if (run->link)
        options = (struct gyre_sim_options){.seed = run->seed,
                                            .n = run->n,
                                            .link = *run->link,
                                            .window_bytes = 1 << 30,
                                            .shared_ways = true};
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
                                             .near = GYRE_LINK_SHM,
                                             .far = GYRE_LINK_NETWORK,
                                             .algorithm = wanted(run),
                                             .preference = run->preference,
                                             .slice_bytes = run->slice_bytes};
        assert_int_equal(gyre_engine_create(&engine, &sim->rank[r].engine, NULL), 0);
    }
}

void sim_close(struct sim *sim)
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

static struct gyre_shape shape_of(struct sim *sim, const struct sim_run *run)
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

void sim_start(struct sim *sim, const struct sim_run *run)
{
    /* Within a link's latency, or so late that what others send is there before it starts. */
    const uint64_t apart = run->link ? 0 : run->seed % 2 ? 1000 : 40000;
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
        gyre_sim_world_wake(sim->world, r, r % 7 * apart);
    }
}

bool sim_poll(const struct sim *sim, const struct sim_rank *rank)
{
    struct gyre_completion done[64];
    bool moved = gyre_engine_run(rank->engine);
    if (rank->engine->fault.status)
        return moved;
    int count = gyre_links_poll(rank->links, gyre_sim_world_now(sim->world), done, 64);
    for (int i = 0; i < count; i++)
        gyre_engine_complete(rank->engine, &done[i]);
    return moved || count > 0;
}

/* Until nothing happens any more; whoever finishes does so in virtual time. */
void sim_play(struct sim *sim)
{
    int64_t r;
    uint64_t steps = 0;
    while (sim->left && (r = gyre_sim_world_step(sim->world)) >= 0) {
        struct sim_rank *rank = &sim->rank[r];
        assert_true(++steps < 100000000);
        bool running = rank->op->status == GYRE_AGAIN;
        while (sim_poll(sim, rank))
            continue;
        sim->left -= running && rank->op->status != GYRE_AGAIN;
    }
}

/* What element i of this block of the rank's OUTPUT has to be: the table in
 * collectives/schedule/schedule.h. */
static int32_t expected(const struct sim *sim, const struct gyre_slice *whole, uint32_t block,
                        uint64_t i)
{
    uint64_t at = gyre_verb_scatters(whole->verb) ? whole->rank * whole->count + i : i;
    if (gyre_verb_reduces(whole->verb))
        return (int32_t)(sim->ranks + (int64_t)sim->n * (int64_t)(at % 1009));
    return value(gyre_verb_gathers(whole->verb) ? block : whole->root, at);
}

static void check_block(const struct sim *sim, const struct sim_run *run, uint32_t r,
                        uint32_t block)
{
    const struct gyre_slice *whole = &sim->rank[r].whole;
    struct gyre_span span = gyre_slice_block(whole, GYRE_OUTPUT, block);
    const int32_t *got = sim->rank[r].output + span.at / 4;
    for (uint64_t i = 0; i < span.bytes / 4; i++)
        if (got[i] != expected(sim, whole, block, i))
            fail_msg("%s %s n %u count %llu seed %llu: rank %u block %u element %llu is %d, "
                     "expected %d",
                     name_of(run), gyre_verb_word[run->verb], run->n,
                     (unsigned long long)run->count, (unsigned long long)run->seed, r, block,
                     (unsigned long long)i, got[i], expected(sim, whole, block, i));
}

void sim_check_rank(const struct sim *sim, const struct sim_run *run, uint32_t r)
{
    uint32_t blocks = gyre_slice_blocks(&sim->rank[r].whole, GYRE_OUTPUT);
    for (uint32_t block = 0; block < blocks; block++)
        check_block(sim, run, r, block);
}

uint64_t sim_run(const struct sim_run *run)
{
    struct sim sim;
    sim_open(&sim, run);
    sim_start(&sim, run);
    sim_play(&sim);
    for (uint32_t r = 0; r < sim.n; r++) {
        if (sim.rank[r].op->status)
            fail_msg("%s %s n %u count %llu seed %llu: rank %u ended with %d", name_of(run),
                     gyre_verb_word[run->verb], run->n, (unsigned long long)run->count,
                     (unsigned long long)run->seed, r, sim.rank[r].op->status);
        sim_check_rank(&sim, run, r);
    }
    uint64_t trace = gyre_sim_world_trace(sim.world);
    sim_close(&sim);
    return trace;
}

/* Can the engine run it: is it in the table, and built for such ranks and blocks? */
static bool is_built(const struct sim_run *run)
{
    static const uint64_t none[SIM_UNEVEN_MAX];
    struct gyre_slice slice = {.verb = run->verb, .n = run->n, .element = 4, .stride = run->count};
    slice.count = run->count;
    if (run->uneven)
        slice.out = (struct gyre_blocks){none, none};
    return !run->algorithm || gyre_algorithm_builds(wanted(run), &slice);
}

void sim_run_built(struct sim_run run, uint32_t root)
{
    run.root = gyre_verb_has_root(run.verb) ? root % run.n : 0;
    if (is_built(&run))
        sim_run(&run);
    run.uneven = true;
    if (run.verb == GYRE_VERB_ALL_GATHER && is_built(&run))
        sim_run(&run);
}
