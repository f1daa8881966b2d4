/* Selection: the model's choices on the machines we know, what a preference does to them, and that
 * a price depends on nothing but what it is given. */
#include <stdlib.h>
#include <string.h>

#include "collectives/algorithms/table.h"
#include "collectives/choose/choose.h"
#include "collectives/schedule/layout.h"
#include "collectives/choose/preference.h"
#include "transport/link/tcp/inside.h"
#include "transport/stream/frame.h"
#include "rig/test.h"

static struct gyre_question ask(enum gyre_verb verb, uint32_t n, uint64_t bytes,
                                enum gyre_link_kind kind)
{
    return (struct gyre_question){
        .whole = {.verb = verb, .n = n, .element = 4, .count = bytes / 4, .stride = bytes / 4},
        .link_kinds = {kind, kind, &gyre_tuning_built_in}};
}

static struct gyre_choice choose(const struct gyre_question *question)
{
    struct gyre_trouble trouble = {0};
    struct gyre_choice choice;
    if (gyre_choose(question, &choice, NULL, &trouble))
        fail_msg("%s", trouble.text);
    return choice;
}

static const char *chosen(enum gyre_verb verb, uint32_t n, uint64_t bytes)
{
    struct gyre_question question = ask(verb, n, bytes, GYRE_LINK_LOOPBACK);
    return choose(&question).algorithm->name;
}

/* -- the model --------------------------------------------------------------------------------- */

/* Few messages for small data, few bytes for large, and no crowd around a rank. */
static void loopback_is_served_as_measured(void **state)
{
    for (uint64_t bytes = 4; bytes <= 4096; bytes *= 2) {
        assert_string_equal(chosen(GYRE_VERB_ALL_REDUCE, 2, bytes), "direct");
        assert_string_equal(chosen(GYRE_VERB_ALL_REDUCE, 4, bytes), "doubling");
        assert_string_equal(chosen(GYRE_VERB_ALL_REDUCE, 64, bytes), "doubling");
    }
    for (uint64_t bytes = 16 << 20; bytes <= 256 << 20; bytes *= 4) {
        assert_string_equal(chosen(GYRE_VERB_ALL_REDUCE, 2, bytes), "direct");
        assert_string_equal(chosen(GYRE_VERB_ALL_REDUCE, 4, bytes), "direct");
        assert_string_not_equal(chosen(GYRE_VERB_ALL_REDUCE, 64, bytes), "direct");
        assert_string_not_equal(chosen(GYRE_VERB_BROADCAST, 64, bytes), "direct");
        assert_string_not_equal(chosen(GYRE_VERB_BROADCAST, 64, bytes), "tree");
    }
}

static void mapped_memory_takes_direct_at_once(void **state)
{
    for (uint64_t bytes = 0; bytes <= 64 << 20; bytes = bytes * 2 + 4) {
        struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 8, bytes, GYRE_LINK_SHM);
        question.mapped = true;
        struct gyre_choice choice = choose(&question);
        assert_string_equal(choice.algorithm->name, "direct");
        assert_int_equal(choice.small, 4096);
        assert_true(choice.slice_bytes <= 256 * 1024);
    }
}

/* What is chosen costs no more than any algorithm that a user settles, each in its best cut. */
static void expect_cheapest(struct gyre_question question)
{
    uint64_t cost = choose(&question).cost_ps;
    const char *why;
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it; it++) {
        if (!gyre_choosable(&question, *it, &why))
            continue;
        question.algorithm = *it;
        if (choose(&question).cost_ps < cost)
            fail_msg("%s of %llu elements, %u ranks: %s is cheaper",
                     gyre_verb_word[question.whole.verb], (unsigned long long)question.whole.count,
                     question.whole.n, (*it)->name);
        question.algorithm = NULL;
    }
}

static void of_large_data_nothing_is_cheaper(void **state)
{
    static const uint32_t ns[] = {3, 8, 14, 16, 33, 127};
    for (int i = 0; i < 6; i++)
        for (int verb = 0; verb < GYRE_VERBS; verb++)
            for (uint64_t bytes = 8 << 20; bytes <= 1 << 30; bytes *= 8) {
                expect_cheapest(ask(verb, ns[i], bytes, GYRE_LINK_LOOPBACK));
                expect_cheapest(ask(verb, ns[i], bytes, GYRE_LINK_NETWORK));
            }
}

/* A wire without latency takes what sends least; one that is nothing but latency, what has the
 * fewest rounds. */
static void prices_decide(void **state)
{
    struct gyre_tuning tuning = gyre_tuning_built_in;
    struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 16, 1 << 20, GYRE_LINK_NETWORK);
    question.link_kinds.tuning = &tuning;
    tuning.link[GYRE_LINK_NETWORK] = (struct gyre_price){1000000000, 0, 0, 1};
    struct gyre_choice slow = choose(&question);
    assert_string_equal(slow.algorithm->name, "direct");
    assert_true(slow.small > 1 << 20); /* one-shot */
    tuning.link[GYRE_LINK_NETWORK] = (struct gyre_price){0, 0, 0, 1000000};
    struct gyre_choice thin = choose(&question);
    question.algorithm = thin.algorithm;
    struct gyre_slice slice = question.whole;
    slice.small = thin.small;
    assert_true(thin.algorithm->sent_bytes(&slice) <= 2 << 20);
    assert_true(thin.cost_ps < slow.cost_ps);
}

/* The price of a ring on a wire without latency is its formula: 2 (n-1)/n bytes. */
static void a_ring_costs_its_formula(void **state)
{
    struct gyre_tuning tuning = gyre_tuning_built_in;
    struct gyre_link_kinds link_kinds = {GYRE_LINK_NETWORK, GYRE_LINK_NETWORK, &tuning};
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    tuning.fold_kib_ps = 0;
    for (uint32_t n = 2; n <= 64; n *= 2) {
        struct gyre_slice slice = {.n = n, .element = 4, .count = 1 << 18};
        tuning.link[GYRE_LINK_NETWORK] = (struct gyre_price){0, 0, 0, 1024};
        assert_int_equal(gyre_cost_slice(gyre_algorithm_find("ring"), &slice, &link_kinds,
                                         GYRE_COST_NEVER, &walk, &cost),
                         0);
        assert_int_equal(cost.path, 2 * (n - 1) * (UINT64_C(1) << 20) / n);
        assert_int_equal(cost.busy, cost.path);
        tuning.link[GYRE_LINK_NETWORK] = (struct gyre_price){7, 2, 0, 0};
        gyre_cost_slice(gyre_algorithm_find("ring"), &slice, &link_kinds, GYRE_COST_NEVER, &walk,
                        &cost);
        assert_int_equal(cost.path, 2 * (n - 1) * 9000);
        gyre_cost_slice(gyre_algorithm_find("ring"), &slice, &link_kinds, 9000, &walk, &cost);
        assert_true(cost.path == GYRE_COST_NEVER || n == 2);
    }
    gyre_walk_deinit(&walk);
}

/* On a path whose bytes a core moves, one way is cheaper than both at once. */
static void one_way_spares_cores(void **state)
{
    struct gyre_tuning tuning = gyre_tuning_built_in;
    struct gyre_walk walk = {0};
    tuning.fold_kib_ps = 0;
    for (int kind = GYRE_LINK_NETWORK; kind <= GYRE_LINK_SHM; kind++) {
        struct gyre_link_kinds link_kinds = {kind, kind, &tuning};
        struct gyre_slice slice = {.verb = GYRE_VERB_BROADCAST, .n = 2, .element = 4};
        struct gyre_cost one, both;
        slice.count = slice.stride = 3 << 16;
        slice.small = UINT64_MAX;
        tuning.link[kind] = (struct gyre_price){0, 0, 0, 1024};
        const struct gyre_algorithm *direct = gyre_algorithm_find("direct");
        gyre_cost_slice(direct, &slice, &link_kinds, GYRE_COST_NEVER, &walk, &one);
        slice.verb = GYRE_VERB_ALL_TO_ALL;
        gyre_cost_slice(direct, &slice, &link_kinds, GYRE_COST_NEVER, &walk, &both);
        assert_int_equal(both.path, slice.count * 4);
        assert_int_equal(one.path,
                         kind == GYRE_LINK_NETWORK ? slice.count * 4 : slice.count * 4 / 3 * 2);
    }
    gyre_walk_deinit(&walk);
}

/* Where cores move the bytes, what comes from three peers costs the root half of what goes to
 * them. */
static void receiving_costs_half_of_sending(void **state)
{
    static const enum gyre_verb verb[] = {GYRE_VERB_GATHER, GYRE_VERB_SCATTER};
    struct gyre_tuning tuning = gyre_tuning_built_in;
    struct gyre_walk walk = {0};
    struct gyre_cost cost[2];
    struct gyre_link_kinds link_kinds = {GYRE_LINK_LOOPBACK, GYRE_LINK_LOOPBACK, &tuning};
    tuning.fold_kib_ps = 0;
    tuning.link[GYRE_LINK_LOOPBACK] = (struct gyre_price){0, 0, 0, 1024};
    for (int i = 0; i < 2; i++) {
        struct gyre_slice slice = {.verb = verb[i], .n = 4, .element = 4};
        slice.count = slice.stride = 3 << 16;
        slice.small = UINT64_MAX;
        gyre_cost_slice(gyre_algorithm_find("direct"), &slice, &link_kinds, GYRE_COST_NEVER, &walk,
                        &cost[i]);
    }
    assert_int_equal(cost[0].path, 3 * (4 * (3 << 16)) / 3);
    assert_int_equal(cost[1].path, 2 * cost[0].path);
    gyre_walk_deinit(&walk);
}

/* Ranks of a node share its way out: the same bytes from all of them at once take as many times
 * as long. */
static void a_node_has_one_door(void **state)
{
    uint32_t node[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct gyre_layout *layout;
    struct gyre_walk walk = {0};
    struct gyre_cost apart, together;
    struct gyre_tuning tuning = gyre_tuning_built_in;
    struct gyre_link_kinds link_kinds = {GYRE_LINK_SHM, GYRE_LINK_NETWORK, &tuning};
    struct gyre_slice slice = {.n = 8, .element = 4, .count = 1 << 18};
    const struct gyre_algorithm *doubling = gyre_algorithm_find("doubling");
    memset(tuning.link, 0, sizeof tuning.link);
    tuning.link[GYRE_LINK_NETWORK].kib_ps = 1024;
    tuning.fold_kib_ps = 0;
    assert_int_equal(gyre_layout_create(node, 8, &layout, NULL), 0);
    link_kinds.near = GYRE_LINK_NETWORK;
    gyre_cost_slice(doubling, &slice, &link_kinds, GYRE_COST_NEVER, &walk, &apart);
    assert_int_equal(apart.path, UINT64_C(3) << 20); /* three swaps of a MiB */
    link_kinds.near = GYRE_LINK_SHM;
    slice.layout = layout;
    gyre_cost_slice(doubling, &slice, &link_kinds, GYRE_COST_NEVER, &walk, &together);
    assert_int_equal(together.path, UINT64_C(4) << 20); /* one goes out, of four ranks at once */
    gyre_walk_deinit(&walk);
    gyre_layout_destroy(layout);
}

/* What comes from more than `crowd` peers at once costs twice from there on. */
static void a_crowd_is_dear(void **state)
{
    struct gyre_tuning tuning = gyre_tuning_built_in;
    struct gyre_link_kinds link_kinds = {GYRE_LINK_NETWORK, GYRE_LINK_NETWORK, &tuning};
    struct gyre_slice slice = {.n = 13, .element = 4, .count = 1, .small = 4};
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    tuning.link[GYRE_LINK_NETWORK] = (struct gyre_price){0, 1, 0, 0};
    tuning.fold_kib_ps = 0;
    for (tuning.crowd = 4; tuning.crowd <= 16; tuning.crowd += 4) {
        uint64_t extra = tuning.crowd < 12 ? 12 - tuning.crowd : 0;
        gyre_cost_slice(gyre_algorithm_find("direct"), &slice, &link_kinds, GYRE_COST_NEVER, &walk,
                        &cost);
        assert_int_equal(cost.path, (12 + extra) * 1000); /* one exchange with 12 peers */
    }
    gyre_walk_deinit(&walk);
}

/* Slices follow each other at the pace of what is scarcest. */
static void slices_follow_each_other(void **state)
{
    struct gyre_cost cost = {.path = 1000, .busy = 300, .work = 400};
    enum { SLICE = 100 };
    assert_int_equal(gyre_cost_total(&cost, 70, SLICE, 4), 1000);
    assert_int_equal(gyre_cost_total(&cost, 500, SLICE, 1), 5000);
    assert_int_equal(gyre_cost_total(&cost, 500, SLICE, 2), 3000);
    assert_int_equal(gyre_cost_total(&cost, 500, SLICE, 4), 1000 + 4 * 400);
    cost.busy = 600;
    assert_int_equal(gyre_cost_total(&cost, 500, SLICE, 4), 1000 + 4 * 600);
    assert_true(gyre_cost_total(&cost, UINT64_MAX, 1, 4) > UINT64_MAX / 2);
    cost.path = GYRE_COST_NEVER;
    assert_true(gyre_cost_total(&cost, 5, 1, 1) == GYRE_COST_NEVER);
}

/* The price of a ring, as a whole or the part of it that the slice is. */
static uint64_t price(const struct gyre_question *question, uint64_t parts)
{
    struct gyre_slice slice = question->whole;
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    slice.count /= parts;
    gyre_cost_slice(gyre_algorithm_find("ring"), &slice, &question->link_kinds, GYRE_COST_NEVER,
                    &walk, &cost);
    gyre_walk_deinit(&walk);
    return cost.path;
}

/* Of four ranks' buffers, INPUT and OUTPUT, what is beyond the window costs more, in whatever
 * slices, on loopback and in folds. Of a broadcast these are five: the root alone has an INPUT. */
static void what_outgrows_the_cache_spills(void **state)
{
    enum { MIB = 1 << 20 };
    const struct gyre_tuning tuning = {.crowd = 16,
                                       .link[GYRE_LINK_LOOPBACK].kib_ps = 102400,
                                       .fold_kib_ps = 102400,
                                       .window_kib = 8 << 10,
                                       .spill_percent = 40};
    struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 4, MIB, GYRE_LINK_LOOPBACK);
    struct gyre_slice cast = ask(GYRE_VERB_BROADCAST, 4, MIB, GYRE_LINK_LOOPBACK).whole;
    question.link_kinds.tuning = &tuning;
    const uint64_t in_cache = price(&question, 1); /* 8 MiB of buffers: no more fits */
    assert_int_equal(gyre_cost_spill(&question.whole, &question.link_kinds), 100);
    assert_int_equal(gyre_cost_spill(&cast, &question.link_kinds), 100);
    question.whole.count = question.whole.stride *= 2;
    assert_int_equal(gyre_cost_spill(&question.whole, &question.link_kinds), 120);
    assert_int_equal(price(&question, 1), 2 * in_cache * 120 / 100);
    assert_int_equal(price(&question, 2), in_cache * 120 / 100);
    cast.count = cast.stride *= 2;
    assert_int_equal(gyre_cost_spill(&cast, &question.link_kinds), 108);
    question.whole.count = question.whole.stride = UINT64_MAX / 16;
    assert_int_equal(gyre_cost_spill(&question.whole, &question.link_kinds), 139);
}

/* What only travels between machines takes as long whatever its buffers outgrow here. */
static void the_network_knows_no_cache(void **state)
{
    struct gyre_question far = ask(GYRE_VERB_ALL_REDUCE, 8, 4 << 20, GYRE_LINK_NETWORK);
    struct gyre_tuning tuning = gyre_tuning_built_in;
    far.link_kinds.tuning = &tuning;
    tuning.fold_kib_ps = 0;
    const uint64_t travels = price(&far, 1);
    tuning.window_kib = 1;
    assert_int_equal(price(&far, 1), travels);
    tuning.fold_kib_ps = gyre_tuning_built_in.fold_kib_ps;
    const uint64_t folded = price(&far, 1);
    tuning.window_kib = 1 << 20;
    assert_true(price(&far, 1) < folded);
}

/* Two ranks of 8 share a machine between machines, and all 8 do over loopback. */
static void only_ranks_of_one_machine_share_its_cache(void **state)
{
    static const uint32_t nodes[] = {0, 0, 1, 1, 2, 2, 3, 3};
    struct gyre_trouble trouble = {0};
    struct gyre_tuning tuning = {.window_kib = 16 << 10, .spill_percent = 40};
    struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 8, 4 << 20, GYRE_LINK_NETWORK);
    struct gyre_layout *layout;
    assert_int_equal(gyre_layout_create(nodes, 8, &layout, &trouble), 0);
    question.whole.layout = layout;
    question.link_kinds.tuning = &tuning;
    assert_int_equal(gyre_cost_spill(&question.whole, &question.link_kinds), 100);
    question.link_kinds.far = GYRE_LINK_LOOPBACK;
    assert_int_equal(gyre_cost_spill(&question.whole, &question.link_kinds), 130);
    gyre_layout_destroy(layout);
}

/* Below collectives nobody knows of prices, so no file of theirs can hold one to the other. */
static void what_goes_unasked_is_as_the_drivers_have_it(void **state)
{
    assert_int_equal(GYRE_COST_UNASKED, GYRE_TCP_EAGER);
    assert_int_equal(GYRE_COST_UNASKED_NEAR, GYRE_EAGER_MAX);
}

/* Where only some ranks are looked at, a chain from rank to rank still takes all its rounds. */
static void nobody_hides_between_the_sample(void **state)
{
    struct gyre_tuning tuning = gyre_tuning_built_in;
    struct gyre_link_kinds link_kinds = {GYRE_LINK_NETWORK, GYRE_LINK_NETWORK, &tuning};
    const struct gyre_algorithm *chain = gyre_algorithm_find("chain");
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    memset(&tuning.link[GYRE_LINK_NETWORK], 0, sizeof(struct gyre_price));
    tuning.link[GYRE_LINK_NETWORK].message_ns = 1;
    for (uint32_t n = 12; n <= 1024; n *= 3) {
        struct gyre_slice slice = {.n = n, .element = 4, .count = 1};
        gyre_cost_slice(chain, &slice, &link_kinds, GYRE_COST_NEVER, &walk, &cost);
        assert_in_range(cost.path, (n - 1) * 1000, 4 * n * 1000);
    }
    gyre_walk_deinit(&walk);
}

/* All-to-all keeps a round for those who work in place. Of two ranks bruck copies more. */
static void rounds_of_nobody_are_free(void **state)
{
    for (uint64_t bytes = 64; bytes <= 64 << 20; bytes *= 4)
        assert_string_equal(chosen(GYRE_VERB_ALL_TO_ALL, 2, bytes), "direct");
}

/* Nobody's own rank enters, so all choose alike; and the largest worlds are priced too. */
static void all_ranks_choose_alike(void **state)
{
    for (uint32_t n = 2; n <= 1024; n = n * 3 / 2 + 1)
        for (uint64_t bytes = 4; bytes <= 64 << 20; bytes *= 64) {
            struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, n, bytes, GYRE_LINK_NETWORK);
            struct gyre_choice mine = choose(&question);
            question.whole.rank = n - 1;
            question.whole.in_place = true;
            struct gyre_choice theirs = choose(&question);
            assert_ptr_equal(mine.algorithm, theirs.algorithm);
            assert_int_equal(mine.slice_bytes, theirs.slice_bytes);
            assert_int_equal(mine.lanes, theirs.lanes);
            assert_int_equal(mine.small, theirs.small);
            assert_int_equal(mine.cost_ps, theirs.cost_ps);
        }
}

/* Between machines the good ones are rehearsed, which decides. All ranks rehearse alike. */
static void a_rehearsal_decides_between_machines(void **state)
{
    struct gyre_layout *layout;
    uint32_t n, decided = 0;
    (void)state;
    assert_int_equal(gyre_layout_read("layout", "8x1", &layout, &n, NULL), 0);
    for (uint64_t bytes = 64; bytes <= 1 << 20; bytes *= 4) {
        struct gyre_question q = ask(GYRE_VERB_ALL_REDUCE, n, bytes, GYRE_LINK_NETWORK);
        struct gyre_choice best, second, again;
        q.whole.layout = layout;
        q.work_most = 100000;
        assert_int_equal(gyre_choose(&q, &best, &second, NULL), 0);
        assert_true(best.cost_ps <= second.cost_ps);
        if (best.work == 0)
            continue; /* nobody else is near */
        decided++;
        assert_true(second.work > 0);
        q.whole.rank = 5;
        q.whole.in_place = true;
        again = choose(&q);
        assert_ptr_equal(again.algorithm, best.algorithm);
        assert_int_equal(again.cost_ps, best.cost_ps);
        assert_int_equal(gyre_choice_rehearse(&q, &again, best.work), 0);
        assert_int_equal(again.cost_ps, best.cost_ps);
        /* Where there is time for one only, the formula's choice stands. */
        q.work_most = 0;
        struct gyre_choice formulas = choose(&q);
        assert_int_equal(formulas.work, 0);
        assert_int_equal(gyre_choice_rehearse(&q, &formulas, UINT64_MAX), 0);
        assert_true(formulas.cost_ps >= best.cost_ps);
        q.work_most = formulas.work;
        assert_ptr_equal(choose(&q).algorithm, formulas.algorithm);
        assert_int_equal(choose(&q).work, 0);
    }
    assert_true(decided > 3);
    gyre_layout_destroy(layout);
}

static void what_is_settled_stays(void **state)
{
    struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 4, 64 << 20, GYRE_LINK_LOOPBACK);
    question.algorithm = gyre_algorithm_find("tree");
    question.slice_bytes = 300 * 1024;
    question.lanes = 3;
    struct gyre_choice choice = choose(&question);
    assert_string_equal(choice.algorithm->name, "tree");
    assert_int_equal(choice.slice_bytes, 300 * 1024);
    assert_int_equal(choice.lanes, 3);
}

static void order_is_kept_where_it_counts(void **state)
{
    for (uint32_t n = 2; n <= 64; n *= 2)
        for (uint64_t bytes = 4; bytes <= 64 << 20; bytes *= 16) {
            struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, n, bytes, GYRE_LINK_NETWORK);
            question.in_order = true;
            assert_true(choose(&question).algorithm->rank_order);
        }
    struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 4, 4, GYRE_LINK_NETWORK);
    struct gyre_trouble trouble = {0};
    struct gyre_choice choice;
    question.in_order = true;
    question.algorithm = gyre_algorithm_find("ring");
    assert_int_equal(gyre_choose(&question, &choice, NULL, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "\"ring\" does not build all_reduce (it does not sum in "
                                         "the order of ranks)"));
}

/* The second is the best of the others. */
static void the_runner_up_is_dearer(void **state)
{
    for (int mapped = 0; mapped < 2; mapped++)
        for (uint64_t bytes = 4; bytes <= 64 << 20; bytes *= 4) {
            struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 4, bytes, GYRE_LINK_SHM);
            struct gyre_choice best, second;
            question.mapped = mapped;
            assert_int_equal(gyre_choose(&question, &best, &second, NULL), 0);
            assert_non_null(second.algorithm);
            assert_ptr_not_equal(best.algorithm, second.algorithm);
            assert_true(best.cost_ps <= second.cost_ps);
        }
}

/* On mapped memory the runner-up has the price of messages over shared memory, whatever links the
 * ranks have. */
static void the_runner_up_goes_by_messages(void **state)
{
    static const enum gyre_link_kind kinds[] = {GYRE_LINK_NETWORK, GYRE_LINK_LOOPBACK,
                                                GYRE_LINK_MAPPED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct gyre_question shm = ask(GYRE_VERB_ALL_REDUCE, 4, 1 << 20, GYRE_LINK_SHM);
        struct gyre_question other = ask(GYRE_VERB_ALL_REDUCE, 4, 1 << 20, kinds[i]);
        struct gyre_choice best[2], second[2];
        shm.mapped = other.mapped = true;
        assert_int_equal(gyre_choose(&shm, &best[0], &second[0], NULL), 0);
        assert_int_equal(gyre_choose(&other, &best[1], &second[1], NULL), 0);
        assert_ptr_equal(second[1].algorithm, second[0].algorithm);
        assert_int_equal(second[1].cost_ps, second[0].cost_ps);
        assert_int_equal(best[1].cost_ps, best[0].cost_ps);
    }
}

/* -- mapped memory ----------------------------------------------------------------------------- */

/* Without latencies: a rank of four fetches three lines, and sums four inputs into one output. */
static void what_comes_in_lines_has_its_price(void **state)
{
    struct gyre_tuning tuning = {.crowd = 16, .window_kib = 2048, .line_kib_ps = 1024000};
    struct gyre_question question = ask(GYRE_VERB_ALL_REDUCE, 4, 4096, GYRE_LINK_MAPPED);
    struct gyre_choice best, second;
    question.mapped = true;
    question.link_kinds.tuning = &tuning;
    assert_int_equal(gyre_choose(&question, &best, &second, NULL), 0);
    assert_int_equal(best.cost_ps, 3 * 4096 * 1000);
    tuning.link[GYRE_LINK_MAPPED] = (struct gyre_price){5, 0, 7, 1024};
    assert_int_equal(gyre_choose(&question, &best, &second, NULL), 0);
    assert_int_equal(best.cost_ps, 5000 + 3 * 4096 * 1000 + 5 * 4096);
    question = ask(GYRE_VERB_ALL_REDUCE, 4, 8192, GYRE_LINK_MAPPED); /* PUSH: two rounds, no line */
    question.mapped = true;
    question.link_kinds.tuning = &tuning;
    assert_int_equal(gyre_choose(&question, &best, &second, NULL), 0);
    assert_int_equal(best.cost_ps, 2 * (5000 + 7000) + 5 * 2048 + 3 * 2048 / 3);
}

static uint64_t mapped_price(const struct gyre_tuning *tuning, enum gyre_verb verb, uint64_t bytes)
{
    struct gyre_question question = ask(verb, 4, bytes, GYRE_LINK_MAPPED);
    struct gyre_choice best, second;
    question.mapped = true;
    question.link_kinds.tuning = tuning;
    assert_int_equal(gyre_choose(&question, &best, &second, NULL), 0);
    return best.cost_ps;
}

/* Of four ranks' buffers, INPUT and OUTPUT, bytes cost more from each size of caches on. Of a
 * broadcast these are five: the root alone has an INPUT. */
static void what_outgrows_caches_costs_more(void **state)
{
    enum { MIB = 1 << 20 };
    struct gyre_tuning tuning = {.crowd = 16,
                                 .window_kib = 2048,
                                 .link[GYRE_LINK_MAPPED].kib_ps = 1024,
                                 .shared_kib_ps = 2048,
                                 .own_cache_kib = 8 << 10,
                                 .memory_kib_ps = 4096,
                                 .shared_cache_kib = 32 << 10};
    const uint64_t in_cache = mapped_price(&tuning, GYRE_VERB_ALL_REDUCE, MIB);
    assert_int_equal(in_cache, 5 * MIB / 4 + MIB / 4); /* 8 MiB of buffers: no more fits */
    assert_int_equal(mapped_price(&tuning, GYRE_VERB_ALL_REDUCE, 2 * MIB),
                     2 * in_cache + 2 * in_cache * 2 / 2); /* half of 16 MiB is beyond */
    assert_int_equal(mapped_price(&tuning, GYRE_VERB_ALL_REDUCE, 8 * MIB),
                     8 * in_cache + 8 * in_cache * 2 * 7 / 8 + 8 * in_cache * 4 / 2);
    const uint64_t cast = mapped_price(&tuning, GYRE_VERB_BROADCAST, MIB);
    assert_int_equal(mapped_price(&tuning, GYRE_VERB_BROADCAST, 3 * MIB / 2), cast + cast / 2);
    assert_true(mapped_price(&tuning, GYRE_VERB_BROADCAST, 2 * MIB) > 2 * cast);
    assert_true(mapped_price(&tuning, GYRE_VERB_ALL_TO_ALL, UINT64_C(1) << 60) > cast);
}

/* -- rules ------------------------------------------------------------------------------------- */

static const char *ruled(const char *text, enum gyre_verb verb, uint64_t bytes)
{
    struct gyre_rules rules;
    struct gyre_trouble trouble = {0};
    if (gyre_rules_parse("GYRE_ALGO", text, &rules, &trouble))
        fail_msg("%s: %s", text, trouble.text);
    struct gyre_slice whole = {.verb = verb, .n = 4, .element = 1, .count = bytes};
    const struct gyre_algorithm *found = gyre_rules_find(&rules, &whole, false);
    return found ? found->name : "auto";
}

static void the_first_rule_that_fits_is_taken(void **state)
{
    static const char text[] = "all_reduce:ring:1M-;direct:-64K;broadcast:auto:4M-;tree";
    const enum gyre_verb sum = GYRE_VERB_ALL_REDUCE, spread = GYRE_VERB_BROADCAST;
    assert_string_equal(ruled(text, sum, 1 << 20), "ring");
    assert_string_equal(ruled(text, sum, (1 << 20) - 1), "tree");
    assert_string_equal(ruled(text, sum, 65536), "tree");
    assert_string_equal(ruled(text, sum, 65535), "direct");
    assert_string_equal(ruled(text, sum, 0), "direct");
    assert_string_equal(ruled(text, spread, 1 << 20), "tree");
    assert_string_equal(ruled(text, spread, 4 << 20), "auto");
    assert_string_equal(ruled("doubling;ring", spread, 5), "ring"); /* doubling has no broadcast */
    assert_string_equal(ruled("doubling:4-8;", sum, 8), "auto");
    assert_string_equal(ruled("all_reduce:doubling", spread, 8), "auto");
    assert_string_equal(ruled("doubling", spread, 8), "doubling"); /* one name: for everything */
    assert_string_equal(ruled("auto", spread, 8), "auto");
    assert_string_equal(ruled("all_reduce:ring:1M-; direct:-1M", sum, 1 << 20), "ring");
    assert_string_equal(ruled("all_reduce:ring:1M-; direct:-1M", sum, 8), "direct");
    assert_string_equal(ruled(" doubling:4-8 ;\n ring ;", sum, 8), "ring");
    assert_string_equal(ruled(" ring ", sum, 8), "ring");
}

/* A chain rounds partial sums, so it does not build sums of a narrow type. And a function of the
 * program's wants the order of ranks, which a ring does not keep. */
static void a_rule_that_does_not_suit_is_passed_over(void **state)
{
    struct gyre_rules rules;
    struct gyre_slice whole = {.n = 4, .element = 2, .count = 100, .rounds_partials = true};
    assert_int_equal(gyre_rules_parse("GYRE_ALGO", "all_reduce:chain;ring", &rules, NULL), 0);
    assert_string_equal(gyre_rules_find(&rules, &whole, false)->name, "ring");
    whole.rounds_partials = false;
    assert_string_equal(gyre_rules_find(&rules, &whole, false)->name, "chain");
    assert_int_equal(gyre_rules_parse("GYRE_ALGO", "ring;chain", &rules, NULL), 0);
    assert_string_equal(gyre_rules_find(&rules, &whole, false)->name, "ring");
    assert_string_equal(gyre_rules_find(&rules, &whole, true)->name, "chain");
    whole.verb = GYRE_VERB_BROADCAST;
    assert_string_equal(gyre_rules_find(&rules, &whole, true)->name, "ring");
}

/* Rules for all_gather are for both; blocks of unequal length may have their own. */
static void unequal_blocks_have_a_word(void **state)
{
    static const uint64_t at[] = {0, 5}, count[] = {5, 3};
    struct gyre_rules rules;
    struct gyre_slice whole = {.verb = GYRE_VERB_ALL_GATHER, .n = 2, .element = 4, .count = 5};
    assert_int_equal(
        gyre_rules_parse("GYRE_ALGO", "all_gather_v:bruck:-1K;all_gather:ring", &rules, NULL), 0);
    assert_string_equal(gyre_rules_find(&rules, &whole, false)->name, "ring");
    whole.out = (struct gyre_blocks){at, count};
    assert_string_equal(gyre_rules_find(&rules, &whole, false)->name, "bruck");
    whole.count = 256;
    assert_string_equal(gyre_rules_find(&rules, &whole, false)->name, "ring");
}

static void wrong_rules_are_told(void **state)
{
    static const char *const wrong[][2] = {
        {"rign", "GYRE_ALGO is \"rign\": expected"},
        {"all_redcue:ring", "did you mean \"all_reduce\"?"},
        {"all_reduce:rign:1M-", "did you mean \"ring\"?"},
        {"broadcast:doubling", "algorithm \"doubling\" has no broadcast"},
        {"ring:1M-64K", "the range \"1M-64K\" is empty"},
        {"ring:64K-64K", "the range \"64K-64K\" is empty"},
        {"ring:64X-", "GYRE_ALGO is \"64X\": expected a size"},
        {"ring:1M", "\"1M\" is out of place"},
        {"ring:1M-:more", "\"more\" is out of place"},
        {"1M-:ring", "\"1M-\" is out of place"},
        {"all_reduce:;ring", "\"\" is out of place"},
        {"all_reduce:broadcast", "\"broadcast\" is out of place"},
        {"all_gather_v:knomial", "algorithm \"knomial\" has no all_gather_v"},
        {"barrier:ring", "a barrier is an all_reduce of 1 byte"},
        {"all_to_all_v:direct:1M-", "all_to_all_v has one way only"},
        {"all_reduce:ring 1M-", "has blanks inside a rule"},
        {"ring; dir ect", "has blanks inside a rule"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gyre_rules rules;
        struct gyre_trouble trouble = {0};
        assert_int_equal(gyre_rules_parse("GYRE_ALGO", wrong[i][0], &rules, &trouble),
                         GYRE_INVALID);
        if (!strstr(trouble.text, wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], trouble.text);
    }
}

static void rules_have_bounds(void **state)
{
    char text[1000] = "";
    struct gyre_rules rules;
    struct gyre_trouble trouble = {0}, many = {0};
    for (int i = 0; i < GYRE_RULES_MAX + 1; i++)
        strcat(text, "ring;");
    assert_int_equal(gyre_rules_parse("GYRE_ALGO", text, &rules, &many), GYRE_INVALID);
    assert_non_null(strstr(many.text, "more than 32 rules"));
    for (int i = 0; i < 100; i++)
        strcat(text, "ring;");
    assert_int_equal(gyre_rules_parse("GYRE_ALGO", text, &rules, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "longer than 255 bytes"));
}

static int preference(const char *algorithm, const char *reproducible, struct gyre_trouble *trouble)
{
    struct gyre_preference read;
    setenv("GYRE_ALGO", algorithm, 1);
    setenv("GYRE_REPRODUCIBLE", reproducible, 1);
    int status = gyre_preference_read(&read, trouble);
    if (!status)
        assert_int_equal(read.reproducible, *reproducible == '1');
    unsetenv("GYRE_ALGO");
    unsetenv("GYRE_REPRODUCIBLE");
    return status;
}

static void reproducible_takes_no_other_order(void **state)
{
    static const char *const bad[] = {"ring", "all_reduce:tree:1M-", "direct:-1M;doubling"};
    static const char *const good[] = {"direct", "broadcast:ring", "auto", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gyre_trouble trouble = {0}, none = {0};
        assert_int_equal(preference(bad[i], "1", &trouble), GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "does not sum in the order of ranks"));
        assert_int_equal(preference(bad[i], "0", &none), 0);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct gyre_trouble trouble = {0};
        if (preference(good[i], "1", &trouble))
            fail_msg("%s: %s", good[i], trouble.text);
    }
    struct gyre_trouble trouble = {0};
    assert_int_equal(preference("", "yes", &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "GYRE_REPRODUCIBLE is \"yes\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_served_as_measured),
        cmocka_unit_test(mapped_memory_takes_direct_at_once),
        cmocka_unit_test(of_large_data_nothing_is_cheaper),
        cmocka_unit_test(prices_decide),
        cmocka_unit_test(a_ring_costs_its_formula),
        cmocka_unit_test(one_way_spares_cores),
        cmocka_unit_test(receiving_costs_half_of_sending),
        cmocka_unit_test(a_node_has_one_door),
        cmocka_unit_test(a_crowd_is_dear),
        cmocka_unit_test(slices_follow_each_other),
        cmocka_unit_test(what_outgrows_the_cache_spills),
        cmocka_unit_test(the_network_knows_no_cache),
        cmocka_unit_test(only_ranks_of_one_machine_share_its_cache),
        cmocka_unit_test(what_goes_unasked_is_as_the_drivers_have_it),
        cmocka_unit_test(nobody_hides_between_the_sample),
        cmocka_unit_test(rounds_of_nobody_are_free),
        cmocka_unit_test(all_ranks_choose_alike),
        cmocka_unit_test(a_rehearsal_decides_between_machines),
        cmocka_unit_test(what_is_settled_stays),
        cmocka_unit_test(order_is_kept_where_it_counts),
        cmocka_unit_test(the_runner_up_is_dearer),
        cmocka_unit_test(the_runner_up_goes_by_messages),
        cmocka_unit_test(what_comes_in_lines_has_its_price),
        cmocka_unit_test(what_outgrows_caches_costs_more),
        cmocka_unit_test(the_first_rule_that_fits_is_taken),
        cmocka_unit_test(a_rule_that_does_not_suit_is_passed_over),
        cmocka_unit_test(unequal_blocks_have_a_word),
        cmocka_unit_test(wrong_rules_are_told),
        cmocka_unit_test(rules_have_bounds),
        cmocka_unit_test(reproducible_takes_no_other_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
