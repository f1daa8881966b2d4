/* A node without processes: the domain of plain memory, its ranks, and what they compute; see
 * mesh_sim.h. */
#include "sim/mesh_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "rig/test.h"

/* -- a domain of plain memory ------------------------------------------------------------------ */

struct gyre_domain mesh_sim_world[MESH_SIM_RANKS];

void gyre_domain_ring(struct gyre_domain *domain)
{
    domain->rings++;
}

uint32_t gyre_domain_locate(struct gyre_domain *domain, enum gyre_memory_kind kind,
                            const void *memory, uint64_t length, uint64_t *offset)
{
    (void)kind;
    for (uint32_t id = 1; id < 3 && length; id++)
        if (domain->region[id] && (const uint8_t *)memory >= domain->region[id] &&
            (const uint8_t *)memory + length <= domain->region[id] + domain->length) {
            *offset = (uint64_t)((const uint8_t *)memory - domain->region[id]);
            return id;
        }
    return 0;
}

void *gyre_domain_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                       enum gyre_memory_kind kind, uint64_t offset, uint64_t length)
{
    (void)kind;
    (void)domain;
    return id < 3 && mesh_sim_world[peer].region[id] &&
                   offset + length <= mesh_sim_world[peer].length
               ? mesh_sim_world[peer].region[id] + offset
               : NULL;
}

int gyre_domain_detach(struct gyre_domain *domain, uint32_t id)
{
    (void)id;
    domain->detached++;
    return 0;
}

bool gyre_domain_peer_ended(struct gyre_domain *domain, uint32_t peer)
{
    (void)domain;
    (void)peer;
    return false;
}

/* Lanes' scratch is the heap's here: the engines have no keeper. */

void *gyre_domain_keep(struct gyre_domain *domain, uint64_t length)
{
    (void)domain;
    (void)length;
    return NULL;
}

int gyre_domain_unshare(struct gyre_domain *domain, void *memory)
{
    (void)domain;
    (void)memory;
    return GYRE_INVALID;
}

/* Nor do they share a device's memory. */

int gyre_domain_share(struct gyre_domain *domain, enum gyre_memory_kind kind, uint64_t length,
                      enum gyre_share share, void **base, uint32_t *id,
                      struct gyre_trouble *trouble)
{
    (void)domain, (void)kind, (void)length, (void)share, (void)base, (void)id;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "this world has no devices");
}

bool gyre_domain_try_copies(struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

void gyre_domain_forsake(struct gyre_domain *domain, void *base)
{
    (void)domain, (void)base;
}

bool gyre_domain_has_cuda(const struct gyre_domain *domain, uint32_t rank)
{
    (void)domain, (void)rank;
    return false;
}

bool gyre_domain_take_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                           struct gyre_region *region)
{
    (void)domain, (void)peer, (void)id, (void)region;
    return false;
}

bool gyre_domain_forked(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

/* -- a node of n ranks ------------------------------------------------------------------------- */

void mesh_sim_open(struct node *node, uint32_t n, uint64_t seed)
{
    memset(node, 0, sizeof(*node));
    node->n = n;
    gyre_rng_seed(&node->rng, seed);
    for (uint32_t r = 0; r < n; r++) {
        struct rank *rank = &node->rank[r];
        rank->board = aligned_alloc(4096, gyre_round_up(sizeof(*rank->board), 4096));
        rank->inbox = aligned_alloc(4096, sizeof(*rank->inbox));
        memset(rank->board, 0, offsetof(struct gyre_board, stage));
        mesh_sim_world[r] = (struct gyre_domain){.rank = r};
    }
    for (uint32_t r = 0; r < n; r++) {
        struct rank *rank = &node->rank[r];
        rank->mesh = (struct gyre_mesh){
            .domain = &mesh_sim_world[r], .rank = r, .n = n, .mine = rank->board};
        for (uint32_t p = 0; p < n; p++) {
            rank->mesh.board[p] = node->rank[p].board;
            rank->mesh.inbox[p] = node->rank[p].inbox;
        }
        struct gyre_engine_options options = {.rank = r, .n = n, .mesh = &rank->mesh};
        assert_int_equal(gyre_engine_create(&options, &rank->engine, NULL), 0);
    }
}

void mesh_sim_close(struct node *node)
{
    for (uint32_t r = 0; r < node->n; r++) {
        gyre_engine_destroy(node->rank[r].engine);
        free(node->rank[r].board);
        free(node->rank[r].inbox);
    }
}

/* Small integers, different per rank and place in INPUT, so that every sum is exact. */
#define PERIOD 101

static uint64_t phase(uint64_t i, uint64_t turn)
{
    return i * 7 + turn * 13;
}

static int32_t value(uint32_t rank, uint64_t i, uint64_t turn)
{
    return (int32_t)((rank * 31 + phase(i, turn)) % PERIOD);
}

/* Each rank decides for itself whether it runs in place and which of its memory peers can map. */
static void place(struct node *node, uint32_t r, const struct gyre_shape *shape)
{
    struct rank *rank = &node->rank[r];
    bool both =
        gyre_shape_input_bytes(shape, node->n, r) && gyre_shape_output_bytes(shape, node->n, r);
    bool in_place = gyre_rng_below(&node->rng, 2) && both;
    uint64_t skew = gyre_rng_below(&node->rng, 3), apart = gyre_shape_displacement(shape, r);
    bool gathers = gyre_verb_gathers(shape->verb), scatters = gyre_verb_scatters(shape->verb);
    rank->input = rank->memory[0] + skew;
    rank->output = rank->memory[1] + skew;
    if (in_place && gathers && !scatters)
        rank->input = rank->output + apart;
    else if (in_place)
        rank->output = rank->input + apart;
    mesh_sim_world[r].region[1] = gyre_rng_below(&node->rng, 2) ? rank->memory[0] : NULL;
    mesh_sim_world[r].region[2] = gyre_rng_below(&node->rng, 2) ? rank->memory[1] : NULL;
}

void mesh_sim_fill(struct node *node, const struct gyre_shape *shape, uint64_t turn)
{
    for (uint32_t r = 0; r < node->n; r++) {
        struct rank *rank = &node->rank[r];
        uint64_t in_bytes = gyre_shape_input_bytes(shape, node->n, r);
        uint64_t out_bytes = gyre_shape_output_bytes(shape, node->n, r);
        uint64_t bytes = (in_bytes > out_bytes ? in_bytes : out_bytes) + 16;
        rank->memory[0] = malloc(bytes);
        rank->memory[1] = malloc(bytes);
        memset(rank->memory[0], 0xee, bytes);
        memset(rank->memory[1], 0xee, bytes);
        mesh_sim_world[r].length = bytes;
        place(node, r, shape);
        for (uint64_t i = 0; i < in_bytes / 4; i++) {
            int32_t v = value(r, i, turn);
            memcpy(rank->input + 4 * i, &v, 4);
        }
    }
}

void mesh_sim_empty(struct node *node)
{
    for (uint32_t r = 0; r < node->n; r++) {
        free(node->rank[r].memory[0]);
        free(node->rank[r].memory[1]);
    }
}

void mesh_sim_start(struct node *node, const struct gyre_shape *shape)
{
    for (uint32_t r = 0; r < node->n; r++) {
        struct rank *rank = &node->rank[r];
        struct gyre_plan *plan;
        assert_int_equal(gyre_engine_plan(rank->engine, shape, &plan, NULL), 0);
        assert_true(plan->form != GYRE_FORM_STEPS);
        rank->op = gyre_engine_start(rank->engine, plan, rank->input, rank->output);
        assert_non_null(rank->op);
    }
}

/* Steps ranks at random until all have ended; a bound in steps instead of time. */
void mesh_sim_play(struct node *node)
{
    uint32_t left = node->n;
    for (uint64_t steps = 0; left; steps++) {
        assert_true(steps < 10000000);
        struct rank *rank = &node->rank[gyre_rng_below(&node->rng, node->n)];
        if (rank->op->status != GYRE_AGAIN)
            continue;
        gyre_engine_run(rank->engine);
        assert_int_equal(rank->engine->fault.status, 0);
        left -= rank->op->status != GYRE_AGAIN;
    }
}

/* Added up over all ranks once for each phase, not for each element of each rank. */
static int32_t sum_at(const struct node *node, const struct gyre_shape *shape, uint64_t i,
                      uint64_t turn)
{
    static int64_t sums[PERIOD];
    static uint32_t ranks;
    for (uint64_t k = 0; ranks != node->n && k < PERIOD; k++) {
        sums[k] = 0;
        for (uint32_t r = 0; r < node->n; r++)
            sums[k] += (int64_t)((r * 31 + k) % PERIOD);
    }
    ranks = node->n;
    int64_t sum = sums[phase(i, turn) % PERIOD];
    return (int32_t)(shape->op == GYRE_AVG ? sum / node->n : sum);
}

/* The block that element i of OUTPUT is in, or n: between unequal blocks. */
static uint32_t block_of(const struct node *node, const struct gyre_shape *shape, uint64_t i,
                         uint64_t *within)
{
    const struct gyre_blocks *blocks = &shape->blocks;
    uint32_t block = 0;
    if (!blocks->count) {
        *within = i % shape->count;
        return (uint32_t)(i / shape->count);
    }
    for (uint64_t behind = 0; block < node->n; behind += blocks->count[block++]) {
        uint64_t at = blocks->at ? blocks->at[block] : behind;
        *within = i - at;
        if (i >= at && *within < blocks->count[block])
            break;
    }
    return block;
}

static int32_t expected(const struct node *node, const struct gyre_shape *shape, uint32_t rank,
                        uint64_t i, uint64_t turn)
{
    uint64_t own = rank * shape->count, within = 0;
    uint32_t block;
    switch (shape->verb) {
    case GYRE_VERB_BROADCAST:
        return value(shape->root, i, turn);
    case GYRE_VERB_SCATTER:
        return value(shape->root, own + i, turn);
    case GYRE_VERB_REDUCE_SCATTER:
        return sum_at(node, shape, own + i, turn);
    case GYRE_VERB_ALL_GATHER:
    case GYRE_VERB_GATHER:
        block = block_of(node, shape, i, &within);
        return block < node->n ? value(block, within, turn) : (int32_t)0xeeeeeeee;
    case GYRE_VERB_ALL_TO_ALL:
        block = block_of(node, shape, i, &within);
        return value(block, own + within, turn);
    default:
        return sum_at(node, shape, i, turn);
    }
}

void mesh_sim_check(struct node *node, const struct gyre_shape *shape, uint64_t turn)
{
    for (uint32_t r = 0; r < node->n; r++) {
        uint64_t elements = gyre_shape_output_bytes(shape, node->n, r) / 4;
        assert_int_equal(node->rank[r].op->status, 0);
        for (uint64_t i = 0; i < elements; i++) {
            int32_t got, right = expected(node, shape, r, i, turn);
            memcpy(&got, node->rank[r].output + 4 * i, 4);
            if (got != right)
                fail_msg("%s op %d root %u turn %llu: n %u rank %u count %llu element %llu: %d, "
                         "expected %d",
                         gyre_verb_word[shape->verb], (int)shape->op, shape->root,
                         (unsigned long long)turn, node->n, r, (unsigned long long)shape->count,
                         (unsigned long long)i, got, right);
        }
        gyre_engine_release(node->rank[r].engine, node->rank[r].op);
    }
}

void mesh_sim_run(struct node *node, struct gyre_shape shape, uint64_t turn)
{
    mesh_sim_fill(node, &shape, turn);
    mesh_sim_start(node, &shape);
    mesh_sim_play(node);
    mesh_sim_check(node, &shape, turn);
    mesh_sim_empty(node);
}
