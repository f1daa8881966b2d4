/* Operations on shared memory, simulated: n engines in one thread, stepped in a random order that a
 * seed decides.
 *
 * The domain is replaced by this file: a rank's views are its neighbours' plain pointers, and each
 * buffer is "mapped" or not at random, so every mixture of in-place memory and staging, in place
 * and out of place, is met. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/size.h"
#include "collectives/engine.h"
#include "collectives/mesh.h"

#define RANKS_MAX 9

/* -- a domain of plain memory ------------------------------------------------------------------ */

struct gyre_domain {
    uint32_t rank;
    uint8_t *region[3]; /* 1: inputs, 2: outputs; NULL: peers cannot map it */
    uint64_t length;
    uint32_t rings, detached;
};

static struct gyre_domain world[RANKS_MAX];

void gyre_domain_ring(struct gyre_domain *domain)
{
    domain->rings++;
}

uint32_t gyre_domain_locate(struct gyre_domain *domain, const void *memory, uint64_t length,
                            uint64_t *offset)
{
    for (uint32_t id = 1; id < 3 && length; id++)
        if (domain->region[id] && (const uint8_t *)memory >= domain->region[id] &&
            (const uint8_t *)memory + length <= domain->region[id] + domain->length) {
            *offset = (uint64_t)((const uint8_t *)memory - domain->region[id]);
            return id;
        }
    return 0;
}

void *gyre_domain_view(struct gyre_domain *domain, uint32_t peer, uint32_t id, uint64_t offset,
                       uint64_t length)
{
    (void)domain;
    return id < 3 && world[peer].region[id] && offset + length <= world[peer].length
               ? world[peer].region[id] + offset
               : NULL;
}

void gyre_domain_detach(struct gyre_domain *domain, uint32_t id)
{
    (void)id;
    domain->detached++;
}

bool gyre_domain_peer_ended(struct gyre_domain *domain, uint32_t peer)
{
    (void)domain;
    (void)peer;
    return false;
}

/* -- a node of n ranks ------------------------------------------------------------------------- */

struct rank {
    struct gyre_engine *engine;
    struct gyre_mesh mesh;
    struct gyre_board *board;
    struct gyre_outbox *outbox;
    uint8_t *input, *output;
    uint8_t *memory[2];
    struct gyre_operation *op;
};

struct node {
    uint32_t n;
    struct rank rank[RANKS_MAX];
    struct gyre_rng rng;
};

static void node_open(struct node *node, uint32_t n, uint64_t seed)
{
    memset(node, 0, sizeof(*node));
    node->n = n;
    gyre_rng_seed(&node->rng, seed);
    for (uint32_t r = 0; r < n; r++) {
        struct rank *rank = &node->rank[r];
        rank->board = aligned_alloc(4096, gyre_round_up(sizeof(*rank->board), 4096));
        rank->outbox = aligned_alloc(4096, sizeof(*rank->outbox));
        memset(rank->board, 0, sizeof(*rank->board));
        world[r] = (struct gyre_domain){.rank = r};
    }
    for (uint32_t r = 0; r < n; r++) {
        struct rank *rank = &node->rank[r];
        rank->mesh =
            (struct gyre_mesh){.domain = &world[r], .rank = r, .n = n, .mine = rank->board};
        for (uint32_t p = 0; p < n; p++) {
            rank->mesh.board[p] = node->rank[p].board;
            rank->mesh.outbox[p] = node->rank[p].outbox;
        }
        struct gyre_engine_options options = {.rank = r, .n = n, .mesh = &rank->mesh};
        assert_int_equal(gyre_engine_create(&options, &rank->engine, NULL), 0);
    }
}

static void node_close(struct node *node)
{
    for (uint32_t r = 0; r < node->n; r++) {
        gyre_engine_destroy(node->rank[r].engine);
        free(node->rank[r].board);
        free(node->rank[r].outbox);
    }
}

/* Small integers, different per rank and place in INPUT, so that every sum is exact. */
static int32_t value(uint32_t rank, uint64_t i, uint64_t turn)
{
    return (int32_t)((rank * 31 + i * 7 + turn * 13) % 101);
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
    world[r].region[1] = gyre_rng_below(&node->rng, 2) ? rank->memory[0] : NULL;
    world[r].region[2] = gyre_rng_below(&node->rng, 2) ? rank->memory[1] : NULL;
}

static void buffers_make(struct node *node, const struct gyre_shape *shape, uint64_t turn)
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
        world[r].length = bytes;
        place(node, r, shape);
        for (uint64_t i = 0; i < in_bytes / 4; i++) {
            int32_t v = value(r, i, turn);
            memcpy(rank->input + 4 * i, &v, 4);
        }
    }
}

static void buffers_free(struct node *node)
{
    for (uint32_t r = 0; r < node->n; r++) {
        free(node->rank[r].memory[0]);
        free(node->rank[r].memory[1]);
    }
}

static void start_all(struct node *node, const struct gyre_shape *shape)
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
static void run_all(struct node *node)
{
    uint32_t left = node->n;
    for (uint64_t steps = 0; left; steps++) {
        assert_true(steps < 10000000);
        struct rank *rank = &node->rank[gyre_rng_below(&node->rng, node->n)];
        if (rank->op->status != GYRE_AGAIN)
            continue;
        gyre_engine_poll(rank->engine, 0);
        assert_int_equal(rank->engine->fault.status, 0);
        left -= rank->op->status != GYRE_AGAIN;
    }
}

static int32_t sum_at(const struct node *node, const struct gyre_shape *shape, uint64_t i,
                      uint64_t turn)
{
    int64_t sum = 0;
    for (uint32_t r = 0; r < node->n; r++)
        sum += value(r, i, turn);
    return (int32_t)(shape->op == GYRE_AVG ? sum / node->n : sum);
}

/* The block that element i of OUTPUT is in, or n: between unequal blocks. */
static uint32_t block_of(const struct node *node, const struct gyre_shape *shape, uint64_t i,
                         uint64_t *within)
{
    uint32_t block = 0;
    for (; block < node->n; block++) {
        bool unequal = shape->blocks.count != NULL;
        uint64_t at = unequal ? gyre_shape_block_at(shape, block) : block * shape->count;
        uint64_t count = unequal ? shape->blocks.count[block] : shape->count;
        *within = i - at;
        if (i >= at && *within < count)
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

static void check_all(struct node *node, const struct gyre_shape *shape, uint64_t turn)
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

static void one(struct node *node, struct gyre_shape shape, uint64_t turn)
{
    buffers_make(node, &shape, turn);
    start_all(node, &shape);
    run_all(node);
    check_all(node, &shape, turn);
    buffers_free(node);
}

static void all_reduce_and_broadcast(struct node *node, uint64_t count, uint64_t *turn)
{
    for (uint32_t repeat = 0; repeat < (count > 100000 ? 1 : 6); repeat++) {
        struct gyre_shape shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I32, .count = count};
        one(node, shape, ++*turn);
        shape.op = GYRE_AVG;
        one(node, shape, ++*turn);
        shape = (struct gyre_shape){.verb = GYRE_VERB_BROADCAST,
                                    .type = GYRE_I32,
                                    .root = repeat % node->n,
                                    .count = count};
        one(node, shape, ++*turn);
    }
}

static void mixed_memory_gives_the_same(void **state)
{
    static const uint64_t counts[] = {0,    1,    2,    12,     13,     100,
                                      1024, 1025, 5000, 131071, 131072, 300001};
    (void)state;
    for (uint32_t n = 2; n <= RANKS_MAX; n++) {
        struct node node;
        uint64_t turn = 0;
        node_open(&node, n, 1000 + n);
        for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            all_reduce_and_broadcast(&node, counts[c], &turn);
        node_close(&node);
    }
}

/* Up to 4 KiB of INPUT, a little more, one slice, several. */
static void verbs_with_roots_and_blocks(struct node *node, uint64_t count, uint64_t *turn)
{
    for (enum gyre_verb verb = GYRE_VERB_REDUCE; verb < GYRE_VERBS; verb++)
        for (uint32_t repeat = 0; repeat < (count > 10000 ? 2 : 6); repeat++) {
            struct gyre_shape shape = {.verb = verb, .type = GYRE_I32, .count = count};
            if (gyre_verb_has_root(verb))
                shape.root = (uint32_t)gyre_rng_below(&node->rng, node->n);
            if (gyre_verb_reduces(verb))
                shape.op = repeat % 2 ? GYRE_AVG : GYRE_SUM;
            one(node, shape, ++*turn);
        }
}

static void every_verb_on_mixed_memory(void **state)
{
    static const uint64_t counts[] = {0, 1, 5, 113, 114, 1024, 1025, 20011, 70001};
    (void)state;
    for (uint32_t n = 2; n <= RANKS_MAX; n++) {
        struct node node;
        uint64_t turn = 0;
        node_open(&node, n, 2000 + n);
        for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            verbs_with_roots_and_blocks(&node, counts[c], &turn);
        node_close(&node);
    }
}

/* A rank in place overwrites what its peer has still to read: not before it stands in the stage,
 * however far ahead it could run. */
static void in_place_waits_for_its_stage(void **state)
{
    struct node node;
    struct gyre_shape shape = {.verb = GYRE_VERB_ALL_TO_ALL, .type = GYRE_I32, .count = 400003};
    (void)state;
    node_open(&node, 2, 17);
    buffers_make(&node, &shape, 1);
    memmove(node.rank[0].memory[0], node.rank[0].input, 8 * shape.count);
    node.rank[0].input = node.rank[0].output = node.rank[0].memory[0];
    memmove(node.rank[1].memory[0], node.rank[1].input, 8 * shape.count);
    node.rank[1].input = node.rank[1].memory[0];
    node.rank[1].output = node.rank[1].memory[1];
    world[1].region[1] = node.rank[1].memory[0];
    start_all(&node, &shape);
    for (uint32_t r = 0; r < 2; r++) /* the lines, then rank 0 as far as it gets */
        gyre_engine_poll(node.rank[r].engine, 0);
    while (gyre_engine_poll(node.rank[0].engine, 0))
        continue;
    run_all(&node);
    check_all(&node, &shape, 1);
    buffers_free(&node);
    node_close(&node);
}

/* Blocks of which some are empty, in any order of places, with holes between them or not. */
static void unequal_blocks(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= RANKS_MAX; n++) {
        struct node node;
        uint64_t count[RANKS_MAX], at[RANKS_MAX];
        node_open(&node, n, 3000 + n);
        for (uint64_t turn = 1; turn <= 60; turn++) {
            struct gyre_shape shape = {.verb = GYRE_VERB_ALL_GATHER, .type = GYRE_I32};
            uint64_t most = turn % 3 ? 300 : 40000, end = 0;
            for (uint32_t r = n; r-- > 0;) {
                count[r] = gyre_rng_below(&node.rng, 4) ? gyre_rng_below(&node.rng, most) : 0;
                at[r] = end + gyre_rng_below(&node.rng, 5);
                end = at[r] + count[r];
                shape.count = count[r] > shape.count ? count[r] : shape.count;
            }
            shape.blocks = (struct gyre_blocks){turn % 2 ? at : NULL, count};
            one(&node, shape, turn);
        }
        node_close(&node);
    }
}

/* A root runs ahead of its leaves until the lines are used up, then stops; nothing is overwritten.
 */
static void root_stops_when_lines_are_used_up(void **state)
{
    struct node node;
    struct gyre_shape shape = {
        .verb = GYRE_VERB_BROADCAST, .type = GYRE_I32, .root = 0, .count = 4};
    int32_t data[GYRE_OPS_MAX][4], got[4];
    struct gyre_plan *plan;
    (void)state;
    node_open(&node, 2, 7);
    struct gyre_engine *root = node.rank[0].engine, *leaf = node.rank[1].engine;
    assert_int_equal(gyre_engine_plan(root, &shape, &plan, NULL), 0);
    for (int32_t i = 0; i < 32; i++) {
        for (int32_t k = 0; k < 4; k++)
            data[i][k] = 100 * i + k;
        assert_non_null(gyre_engine_start(root, plan, data[i], data[i]));
    }
    while (gyre_engine_poll(root, 0))
        continue;
    assert_int_equal(root->orders, 32 - GYRE_BOARD_SLOTS);
    for (int32_t i = 0; i < 32; i++) {
        assert_int_equal(gyre_engine_plan(leaf, &shape, &plan, NULL), 0);
        struct gyre_operation *op = gyre_engine_start(leaf, plan, NULL, got);
        for (int polls = 0; polls < 10 && op->status == GYRE_AGAIN; polls++) {
            gyre_engine_poll(leaf, 0);
            gyre_engine_poll(root, 0);
        }
        assert_int_equal(op->status, 0);
        gyre_engine_release(leaf, op);
        for (int32_t k = 0; k < 4; k++)
            assert_int_equal(got[k], 100 * i + k);
    }
    node_close(&node);
}

static void different_operations_are_noticed(void **state)
{
    struct node node;
    int32_t a[8] = {0}, b[8] = {0};
    struct gyre_plan *plan;
    (void)state;
    for (uint64_t count = 4; count <= 2000; count += 1996) {
        struct gyre_shape one_shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I32, .count = 4};
        struct gyre_shape other = {
            .verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I32, .op = GYRE_MAX, .count = 4};
        node_open(&node, 2, 3);
        gyre_engine_plan(node.rank[0].engine, &one_shape, &plan, NULL);
        gyre_engine_start(node.rank[0].engine, plan, a, a);
        gyre_engine_plan(node.rank[1].engine, &other, &plan, NULL);
        gyre_engine_start(node.rank[1].engine, plan, b, b);
        for (int i = 0; i < 8; i++)
            gyre_engine_poll(node.rank[i % 2].engine, 0);
        assert_int_equal(node.rank[0].engine->fault.status, GYRE_MISMATCH);
        assert_int_equal(node.rank[1].engine->fault.status, GYRE_MISMATCH);
        node_close(&node);
    }
}

/* A failure in the middle of a push takes the announced output away from the peers, and ends the
 * operation. */
static void failure_detaches_announced_outputs(void **state)
{
    struct node node;
    struct gyre_shape shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I32, .count = 50000};
    (void)state;
    node_open(&node, 2, 11);
    buffers_make(&node, &shape, 1);
    world[0].region[1] = node.rank[0].memory[0];
    world[0].region[2] = node.rank[0].memory[1];
    start_all(&node, &shape);
    for (int i = 0; i < 5; i++)
        gyre_engine_poll(node.rank[0].engine, 0);
    assert_int_equal(node.rank[0].op->status, GYRE_AGAIN);
    gyre_engine_fail(node.rank[0].engine, GYRE_PEER_LOST);
    assert_int_equal(node.rank[0].op->status, GYRE_PEER_LOST);
    assert_int_equal(world[0].detached, 1);
    buffers_free(&node);
    node_close(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_memory_gives_the_same),
        cmocka_unit_test(every_verb_on_mixed_memory),
        cmocka_unit_test(in_place_waits_for_its_stage),
        cmocka_unit_test(unequal_blocks),
        cmocka_unit_test(root_stops_when_lines_are_used_up),
        cmocka_unit_test(different_operations_are_noticed),
        cmocka_unit_test(failure_detaches_announced_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
