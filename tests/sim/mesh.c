/* Operations on shared memory, simulated (mesh_sim.h): every verb, in every mixture of mapped and
 * staged memory, in place and out of place, at 2 to 64 ranks (2 to 9 all, then some; in haste 2, 5
 * and 8, and fewer; under sanitizers 2 and 8, and every other count); then what may go wrong. */
#include <stdlib.h>
#include <string.h>

#include "rig/haste.h"
#include "sim/mesh_sim.h"
#include "rig/test.h"

#define FEW 9 /* ranks: all sizes up to here */

/* To the next size, of those up to FEW. */
static uint32_t after(uint32_t n)
{
    return n + (all_is_slow() ? 6 : in_haste() ? 3 : 1);
}

/* To the next count of a list. */
static uint32_t next_count(void)
{
    return all_is_slow() ? 2 : 1;
}

static void all_reduce_and_broadcast(struct node *node, uint64_t count, uint64_t *turn)
{
    for (uint32_t repeat = 0; repeat < (count > 100000 ? 1 : 6); repeat++) {
        struct gyre_shape shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I32, .count = count};
        mesh_sim_run(node, shape, ++*turn);
        shape.op = GYRE_AVG;
        mesh_sim_run(node, shape, ++*turn);
        shape = (struct gyre_shape){.verb = GYRE_VERB_BROADCAST,
                                    .type = GYRE_I32,
                                    .root = repeat % node->n,
                                    .count = count};
        mesh_sim_run(node, shape, ++*turn);
    }
}

static void mixed_memory_gives_the_same(void **state)
{
    static const uint64_t counts[] = {0,    1,    2,    12,     13,     100,
                                      1024, 1025, 5000, 131071, 131072, 300001};
    (void)state;
    for (uint32_t n = 2; n <= FEW; n = after(n)) {
        struct node node;
        uint64_t turn = 0;
        mesh_sim_open(&node, n, 1000 + n);
        for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c += next_count())
            all_reduce_and_broadcast(&node, counts[c], &turn);
        mesh_sim_close(&node);
    }
}

/* More slices than a stage and an outbox have slots: none is written again too early. */
static void slots_are_used_again(void **state)
{
    uint64_t turn = 0;
    (void)state;
    for (uint32_t n = 2; n <= 4; n++) {
        struct node node;
        mesh_sim_open(&node, n, 7000 + n);
        for (uint32_t repeat = 0; repeat < 6; repeat++)
            for (enum gyre_verb verb = GYRE_VERB_ALL_REDUCE; verb <= GYRE_VERB_REDUCE; verb++)
                mesh_sim_run(&node,
                             (struct gyre_shape){.verb = verb,
                                                 .type = GYRE_I32,
                                                 .root = gyre_verb_has_root(verb) ? n - 1 : 0,
                                                 .count = 900001},
                             ++turn);
        mesh_sim_close(&node);
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
            mesh_sim_run(node, shape, ++*turn);
        }
}

static void every_verb_on_mixed_memory(void **state)
{
    static const uint64_t counts[] = {0, 1, 5, 113, 114, 1024, 1025, 20011, 70001};
    (void)state;
    for (uint32_t n = 2; n <= FEW; n = after(n)) {
        struct node node;
        uint64_t turn = 0;
        mesh_sim_open(&node, n, 2000 + n);
        for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c += next_count())
            verbs_with_roots_and_blocks(&node, counts[c], &turn);
        mesh_sim_close(&node);
    }
}

/* Peers read this one where it stands, or through its stage if it works in place. */
static void settle_place(struct rank *rank, struct gyre_domain *domain, bool in_place,
                         uint64_t bytes)
{
    memmove(rank->memory[0], rank->input, bytes);
    rank->input = rank->memory[0];
    rank->output = in_place ? rank->input : rank->memory[1];
    domain->region[1] = rank->memory[0];
    domain->region[2] = in_place ? NULL : rank->memory[1];
}

/* A rank in place overwrites what its peers have still to read: not before it stands in the stage,
 * however far ahead it could run. */
static void in_place_waits(uint32_t n, uint64_t count)
{
    struct node node;
    struct gyre_shape shape = {.verb = GYRE_VERB_ALL_TO_ALL, .type = GYRE_I32, .count = count};
    mesh_sim_open(&node, n, 17);
    mesh_sim_fill(&node, &shape, 1);
    for (uint32_t r = 0; r < n; r++)
        settle_place(&node.rank[r], &mesh_sim_world[r], r == 0, 4 * n * count);
    mesh_sim_start(&node, &shape);
    for (uint32_t r = 0; r < n; r++) /* the lines, then rank 0 as far as it gets */
        gyre_engine_run(node.rank[r].engine);
    while (gyre_engine_run(node.rank[0].engine))
        continue;
    mesh_sim_play(&node);
    mesh_sim_check(&node, &shape, 1);
    mesh_sim_empty(&node);
    mesh_sim_close(&node);
}

static void in_place_waits_for_its_stage(void **state)
{
    (void)state;
    in_place_waits(2, 400003);
    in_place_waits(3, 1001);
    in_place_waits(9, 30011);
    in_place_waits(64, 1013);
}

/* Blocks of which some are empty, in any order of places, with holes between them or not. */
static void unequal(struct node *node, uint64_t turn, uint64_t most)
{
    struct gyre_shape shape = {.verb = GYRE_VERB_ALL_GATHER, .type = GYRE_I32};
    uint64_t count[MESH_SIM_RANKS], at[MESH_SIM_RANKS], end = 0;
    for (uint32_t r = node->n; r-- > 0;) {
        count[r] = gyre_rng_below(&node->rng, 4) ? gyre_rng_below(&node->rng, most) : 0;
        at[r] = end + gyre_rng_below(&node->rng, 5);
        end = at[r] + count[r];
        shape.count = count[r] > shape.count ? count[r] : shape.count;
    }
    shape.blocks = (struct gyre_blocks){turn % 2 ? at : NULL, count};
    mesh_sim_run(node, shape, turn);
}

static void unequal_blocks(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= FEW; n = after(n)) {
        struct node node;
        mesh_sim_open(&node, n, 3000 + n);
        for (uint64_t turn = 1; turn <= 60; turn++)
            unequal(&node, turn, turn % 3 ? 300 : 40000);
        mesh_sim_close(&node);
    }
}

/* In the lines, pushed in one slice, in several; up to all the ranks that a mesh takes. */
static void many_ranks(void **state)
{
    static const uint32_t ns[] = {10, 13, 16, 17, 31, 48, 64};
    static const uint64_t counts[] = {1, 17, 303, 5003};
    const uint32_t step = in_haste() ? 4 : 1;
    (void)state;
    for (uint32_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i += step) {
        struct node node;
        uint64_t turn = 0;
        mesh_sim_open(&node, ns[i], 5000 + ns[i]);
        for (uint32_t c = 0; c < (ns[i] > 17 ? 3 : 4); c += next_count())
            for (int verb = 0; verb < GYRE_VERBS; verb++) {
                struct gyre_shape shape = {
                    .verb = (enum gyre_verb)verb, .type = GYRE_I32, .count = counts[c]};
                if (gyre_verb_has_root(shape.verb))
                    shape.root = (uint32_t)gyre_rng_below(&node.rng, node.n);
                if (gyre_verb_reduces(shape.verb))
                    shape.op = c % 2 ? GYRE_AVG : GYRE_SUM;
                mesh_sim_run(&node, shape, ++turn);
            }
        for (uint64_t most = 20; most <= 2000; most *= 50)
            unequal(&node, ++turn, most);
        mesh_sim_close(&node);
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
    mesh_sim_open(&node, 2, 7);
    struct gyre_engine *root = node.rank[0].engine, *leaf = node.rank[1].engine;
    assert_int_equal(gyre_engine_plan(root, &shape, &plan, NULL), 0);
    for (int32_t i = 0; i < 32; i++) {
        for (int32_t k = 0; k < 4; k++)
            data[i][k] = 100 * i + k;
        assert_non_null(gyre_engine_start(root, plan, data[i], data[i]));
    }
    while (gyre_engine_run(root))
        continue;
    assert_int_equal(root->orders, 32 - GYRE_BOARD_SLOTS);
    for (int32_t i = 0; i < 32; i++) {
        assert_int_equal(gyre_engine_plan(leaf, &shape, &plan, NULL), 0);
        struct gyre_operation *op = gyre_engine_start(leaf, plan, NULL, got);
        for (int polls = 0; polls < 10 && op->status == GYRE_AGAIN; polls++) {
            gyre_engine_run(leaf);
            gyre_engine_run(root);
        }
        assert_int_equal(op->status, 0);
        gyre_engine_release(leaf, op);
        for (int32_t k = 0; k < 4; k++)
            assert_int_equal(got[k], 100 * i + k);
    }
    mesh_sim_close(&node);
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
        mesh_sim_open(&node, 2, 3);
        gyre_engine_plan(node.rank[0].engine, &one_shape, &plan, NULL);
        gyre_engine_start(node.rank[0].engine, plan, a, a);
        gyre_engine_plan(node.rank[1].engine, &other, &plan, NULL);
        gyre_engine_start(node.rank[1].engine, plan, b, b);
        for (int i = 0; i < 8; i++)
            gyre_engine_run(node.rank[i % 2].engine);
        assert_int_equal(node.rank[0].engine->fault.status, GYRE_MISMATCH);
        assert_int_equal(node.rank[1].engine->fault.status, GYRE_MISMATCH);
        mesh_sim_close(&node);
    }
}

/* A failure in the middle of a push takes the announced output away from the peers, and ends the
 * operation. */
static void failure_detaches_announced_outputs(void **state)
{
    struct node node;
    struct gyre_shape shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I32, .count = 50000};
    (void)state;
    mesh_sim_open(&node, 2, 11);
    mesh_sim_fill(&node, &shape, 1);
    mesh_sim_world[0].region[1] = node.rank[0].memory[0];
    mesh_sim_world[0].region[2] = node.rank[0].memory[1];
    mesh_sim_start(&node, &shape);
    for (int i = 0; i < 5; i++)
        gyre_engine_run(node.rank[0].engine);
    assert_int_equal(node.rank[0].op->status, GYRE_AGAIN);
    gyre_engine_fail(node.rank[0].engine, GYRE_PEER_LOST);
    assert_int_equal(node.rank[0].op->status, GYRE_PEER_LOST);
    assert_int_equal(mesh_sim_world[0].detached, 1);
    mesh_sim_empty(&node);
    mesh_sim_close(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_memory_gives_the_same),
        cmocka_unit_test(slots_are_used_again),
        cmocka_unit_test(every_verb_on_mixed_memory),
        cmocka_unit_test(in_place_waits_for_its_stage),
        cmocka_unit_test(unequal_blocks),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(root_stops_when_lines_are_used_up),
        cmocka_unit_test(different_operations_are_noticed),
        cmocka_unit_test(failure_detaches_announced_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
