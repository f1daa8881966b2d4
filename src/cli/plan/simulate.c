/* gyre plan --simulate: the engine that real ranks run, over the simulator. Every rank has a
 * machine and a way to the network of its own; time is the simulator's, so nothing that a core does
 * takes any. All ranks read one INPUT and write one OUTPUT: what is in them is of no interest.
 *
 *     rank 0   engine ─ links ─┐
 *     rank 1   engine ─ links ─┼─ world: latency, speed, virtual time
 *     …                        ┘
 *
 * Tested by tests/program/cli/plan.sh. */
#include "cli/plan/inside.h"

#include "collectives/engine/engine.h"
#include "transport/link/driver.h"
#include "transport/link/sim/world.h"
#include "transport/stream/frame.h"

#include <errno.h>
#include <stdlib.h>

#define STORES_MOST (UINT64_C(4) << 30) /* bytes that all ends of connections may keep */
#define ROUNDS_MOST (1u << 20)          /* of all ranks together: some ten seconds */
#define EAGER_LEAST 4096
#define POSTS       16 /* on a pipe: twice the lanes of an engine */
#define WINDOW      (1u << 30)
#define COMPLETIONS 64
#define PEERS_MORE  64 /* beyond twice those of the ranks looked at */

struct simulated_rank {
    struct gyre_links *links;
    struct gyre_engine *engine;
    struct gyre_operation *op;
};

struct simulation {
    const struct gyre_plan_asked *asked;
    const struct gyre_plan_row *row;
    struct gyre_preference prices;
    struct gyre_shape shape;
    struct gyre_sim_world *world;
    struct simulated_rank *rank;
    void *input, *output;
    uint64_t small; /* as in struct gyre_slice, of the plan that ran */
    uint32_t n;
};

/* -- what is simulated ------------------------------------------------------------------------- */

/* The prices of a cluster whose cores take no time. */
static void take_prices(struct simulation *sim)
{
    struct gyre_price *network = &sim->prices.tuning.link[GYRE_LINK_NETWORK];
    sim->prices = sim->asked->preference;
    network->message_ns = 0;
    sim->prices.tuning.incast_kib_ps = sim->prices.tuning.burst_bytes = 0;
    sim->prices.tuning.fold_kib_ps = 0;
    sim->prices.tuning.spill_percent = 0;
}

static enum gyre_type type_of_bytes(uint32_t element)
{
    return element == 1 ? GYRE_U8 : element == 2 ? GYRE_U16 : element == 4 ? GYRE_I32 : GYRE_I64;
}

static void take_simulated_shape(struct simulation *sim)
{
    const struct gyre_slice *whole = &sim->asked->question.whole;
    sim->n = whole->n;
    sim->shape = (struct gyre_shape){.verb = whole->verb,
                                     .type = type_of_bytes(whole->element),
                                     .op = GYRE_SUM,
                                     .count = whole->count};
}

static uint64_t bytes_per_second(uint64_t bits_per_second)
{
    return bits_per_second < 8 ? 1 : bits_per_second / 8;
}

/* -- opening and closing ----------------------------------------------------------------------- */

/* A link's store is four of the longest messages sent unasked: as short as the data allow. */
static uint32_t eager_bytes(const struct gyre_plan_asked *a)
{
    const struct gyre_slice *whole = &a->question.whole;
    const uint64_t bytes = a->bytes * (gyre_verb_has_blocks(whole->verb) ? whole->n : 1);
    if (bytes >= GYRE_COST_UNASKED)
        return GYRE_COST_UNASKED;
    return bytes < EAGER_LEAST ? EAGER_LEAST : (uint32_t)bytes;
}

static int open_simulated_world(struct simulation *sim)
{
    const struct gyre_plan_asked *a = sim->asked;
    const struct gyre_sim_options options = {
        .n = sim->n,
        .link = {.latency_ns = a->link.latency_ns,
                 .bytes_per_second = bytes_per_second(a->link.bits_per_second)},
        .posts = POSTS,
        .window_bytes = WINDOW,
        .eager_bytes = eager_bytes(a),
        .shared_ways = true};
    int status = gyre_sim_world_create(&options, &sim->world);
    if (status == 0 && a->slow_bits_per_second != 0)
        gyre_sim_world_set_ways(sim->world, a->question.link_kinds.slow_node,
                                bytes_per_second(a->slow_bits_per_second));
    return status;
}

/* The peers that a rank may have: rows tell those of a sample of ranks. */
static uint32_t peers_most(const struct simulation *sim)
{
    const uint64_t peers = 2 * sim->row->far + PEERS_MORE;
    return peers < sim->n ? (uint32_t)peers : sim->n;
}

static int open_rank(struct simulation *sim, uint32_t r, struct gyre_trouble *trouble)
{
    struct simulated_rank *rank = &sim->rank[r];
    struct gyre_wire_options wire_options = {
        .rank = r, .n = sim->n, .peers = peers_most(sim), .world = sim->world};
    const struct gyre_engine_options engine = {.rank = r,
                                               .n = sim->n,
                                               .layout = sim->asked->layout,
                                               .near = GYRE_LINK_SHM,
                                               .far = GYRE_LINK_NETWORK,
                                               .algorithm = sim->row->choice.algorithm,
                                               .preference = &sim->prices,
                                               .slice_bytes = sim->row->choice.slice_bytes,
                                               .lanes = sim->row->choice.lanes};
    struct gyre_engine_options with_links = engine;
    struct gyre_wire *wire;
    int status = gyre_links_create(peers_most(sim), &rank->links);
    if (status == 0)
        status = gyre_driver_sim.open(&wire_options, &wire, trouble);
    if (status != 0)
        return status;
    gyre_links_attach_lazily(rank->links, gyre_links_add_wire(rank->links, &gyre_driver_sim, wire));
    with_links.links = rank->links;
    return gyre_engine_create(&with_links, &rank->engine, trouble);
}

static int make_buffers(struct simulation *sim)
{
    uint64_t input = 1, output = 1;
    for (uint32_t r = 0; r < sim->n; r++) {
        uint64_t in = gyre_shape_input_bytes(&sim->shape, sim->n, r);
        uint64_t out = gyre_shape_output_bytes(&sim->shape, sim->n, r);
        input = in > input ? in : input;
        output = out > output ? out : output;
    }
    sim->input = calloc(1, input);
    sim->output = calloc(1, output);
    return sim->input != NULL && sim->output != NULL ? 0 : -ENOMEM;
}

static int open_simulation(struct simulation *sim, struct gyre_trouble *trouble)
{
    int status = open_simulated_world(sim);
    sim->rank = calloc(sim->n, sizeof *sim->rank);
    if (status == 0)
        status = sim->rank == NULL ? -ENOMEM : make_buffers(sim);
    for (uint32_t r = 0; status == 0 && r < sim->n; r++)
        status = open_rank(sim, r, trouble);
    return status;
}

static void close_simulation(struct simulation *sim)
{
    for (uint32_t r = 0; sim->rank != NULL && r < sim->n; r++) {
        gyre_links_destroy(sim->rank[r].links);
        gyre_engine_destroy(sim->rank[r].engine);
    }
    gyre_sim_world_destroy(sim->world);
    free(sim->rank);
    free(sim->input);
    free(sim->output);
}

/* -- running ----------------------------------------------------------------------------------- */

static int start_simulated(struct simulation *sim, uint32_t r, struct gyre_trouble *trouble)
{
    struct simulated_rank *rank = &sim->rank[r];
    const bool reads = gyre_shape_input_bytes(&sim->shape, sim->n, r) != 0;
    const bool writes = gyre_shape_output_bytes(&sim->shape, sim->n, r) != 0;
    struct gyre_plan *plan;
    int status = gyre_engine_plan(rank->engine, &sim->shape, &plan, trouble);
    if (status != 0)
        return status;
    sim->small = plan->small;
    rank->op = gyre_engine_start(rank->engine, plan, reads ? sim->input : NULL,
                                 writes ? sim->output : NULL);
    gyre_sim_world_wake(sim->world, r, 0);
    return rank->op != NULL ? 0 : -ENOMEM;
}

/* Moves what a rank can move. True: something did. */
static bool poll_rank(struct simulation *sim, struct simulated_rank *rank)
{
    struct gyre_completion done[COMPLETIONS];
    bool moved = gyre_engine_run(rank->engine);
    if (rank->engine->fault.status != 0)
        return false;
    int count = gyre_links_poll(rank->links, gyre_sim_world_now(sim->world), done, COMPLETIONS);
    for (int i = 0; i < count; i++)
        gyre_engine_complete(rank->engine, &done[i]);
    return moved || count > 0;
}

static int play_simulation(struct simulation *sim, struct gyre_trouble *trouble)
{
    uint32_t left = sim->n;
    int64_t r;
    while (left != 0 && (r = gyre_sim_world_step(sim->world)) >= 0) {
        struct simulated_rank *rank = &sim->rank[r];
        const bool ran = rank->op->status == GYRE_AGAIN;
        while (poll_rank(sim, rank))
            continue;
        left -= ran && rank->op->status != GYRE_AGAIN;
    }
    for (uint32_t i = 0; i < sim->n; i++)
        if (sim->rank[i].op->status != 0)
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s does not end in the simulator: rank %u has status %d",
                                    sim->row->choice.algorithm->name, i, sim->rank[i].op->status);
    return 0;
}

/* The plan's price of the schedule that ran. */
static int price_alike(const struct simulation *sim, struct gyre_plan_row *row)
{
    struct gyre_question question = sim->asked->question;
    struct gyre_choice choice = row->choice;
    question.link_kinds.tuning = &sim->prices.tuning;
    question.unasked = eager_bytes(sim->asked);
    choice.small = sim->small;
    int status = gyre_choice_rehearse(&question, &choice, GYRE_PLAN_WORK);
    row->alike_ps = choice.cost_ps;
    return status != 0 || choice.work != 0
               ? status
               : gyre_plan_reprice(&question, &choice, &question.link_kinds, &row->alike_ps);
}

static int simulate_row(struct simulation *sim, struct gyre_plan_row *row,
                        struct gyre_trouble *trouble)
{
    int status = open_simulation(sim, trouble);
    for (uint32_t r = 0; status == 0 && r < sim->n; r++)
        status = start_simulated(sim, r, trouble);
    if (status == 0)
        status = play_simulation(sim, trouble);
    if (status == 0)
        status = price_alike(sim, row);
    if (status == 0)
        row->simulated_ps = gyre_sim_world_now(sim->world) * 1000;
    close_simulation(sim);
    return status;
}

static bool is_small_enough(const struct simulation *sim)
{
    const uint64_t store = (uint64_t)GYRE_UNEXPECTED_TIMES * eager_bytes(sim->asked);
    return sim->row->far * sim->n * store <= STORES_MOST &&
           sim->row->rounds * sim->n <= ROUNDS_MOST;
}

int gyre_plan_simulate(const struct gyre_plan_asked *asked, struct gyre_plan_answer *answer,
                       struct gyre_trouble *trouble)
{
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < answer->rows; i++) {
        struct simulation sim = {.asked = asked, .row = &answer->row[i]};
        take_prices(&sim);
        take_simulated_shape(&sim);
        if (is_small_enough(&sim))
            status = simulate_row(&sim, &answer->row[i], trouble);
    }
    return status != -ENOMEM ? status
                             : gyre_trouble_set(trouble, status, "no memory to simulate %u ranks",
                                                asked->question.whole.n);
}
