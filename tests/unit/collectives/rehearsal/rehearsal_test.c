/* A rehearsal of schedules: times that can be worked out by hand, what many slices take against all
 * of them, what is too much, and how far the formula (collectives/choose/cost.h), which prices what
 * is not rehearsed, is from a rehearsal. tests/sim/plan.c holds rehearsals against the engine. */
#include "collectives/rehearsal/rehearsal.h"

#include "collectives/algorithms/table.h"
#include "collectives/choose/choose.h"
#include "collectives/schedule/layout.h"
#include "rig/test.h"

#define HEAD       36u /* bytes of a frame before the payload */
#define LATENCY_NS 5000u
#define BYTE_PS    800u /* 10 Gbit/s */
#define MUCH       (UINT64_C(1) << 40)

struct cluster {
    struct gyre_tuning tuning;
    struct gyre_link_kinds kinds;
    struct gyre_layout *layout;
    uint32_t n;
};

/* Machines with a network between them; nothing costs a core time. */
static struct cluster cluster_of(const char *layout)
{
    struct cluster c = {.tuning = gyre_tuning_built_in};
    assert_int_equal(gyre_layout_read("layout", layout, &c.layout, &c.n, NULL), 0);
    c.tuning.link[GYRE_LINK_NETWORK] =
        (struct gyre_price){LATENCY_NS, 0, LATENCY_NS, BYTE_PS * 1024};
    c.tuning.link[GYRE_LINK_SHM] = (struct gyre_price){1000, 0, 1000, 1024000};
    c.tuning.fold_kib_ps = 0;
    c.tuning.spill_percent = 0;
    c.kinds = (struct gyre_link_kinds){.near = GYRE_LINK_SHM, .far = GYRE_LINK_NETWORK};
    return c;
}

static struct gyre_rehearsal ask(struct cluster *c, const char *algorithm, enum gyre_verb verb,
                                 uint64_t bytes)
{
    c->kinds.tuning = &c->tuning;
    return (struct gyre_rehearsal){.algorithm = gyre_algorithm_find(algorithm),
                                   .whole = {.verb = verb,
                                             .n = c->n,
                                             .element = 1,
                                             .count = bytes,
                                             .stride = bytes,
                                             .layout = c->layout},
                                   .slice_count = bytes,
                                   .lanes = 1,
                                   .link_kinds = &c->kinds,
                                   .work_most = MUCH};
}

static uint64_t rehearsed_ns(const struct gyre_rehearsal *rehearsal)
{
    uint64_t ps, work;
    assert_int_equal(gyre_rehearse(rehearsal, &ps, &work), 0);
    return ps == GYRE_COST_NEVER ? 0 : ps / 1000;
}

static uint64_t bytes_ns(uint64_t bytes)
{
    return (bytes * BYTE_PS + 999) / 1000;
}

/* Both send at once, as ways out and in do not share anything. */
static void an_exchange_takes_its_bytes_and_a_latency(void **state)
{
    struct cluster c = cluster_of("2x1");
    struct gyre_rehearsal t = ask(&c, "doubling", GYRE_VERB_ALL_REDUCE, 1000);
    (void)state;
    assert_int_equal(rehearsed_ns(&t), LATENCY_NS + bytes_ns(1000 + HEAD));
    /* A long message: the grant first. */
    t = ask(&c, "doubling", GYRE_VERB_ALL_REDUCE, 100000);
    assert_int_equal(rehearsed_ns(&t),
                     2 * LATENCY_NS + bytes_ns(HEAD + 8) + bytes_ns(100000 + HEAD));
    gyre_layout_destroy(c.layout);
}

/* Three messages reach the root at once: its way in takes one after the other. */
static void messages_to_one_rank_come_one_by_one(void **state)
{
    struct cluster c = cluster_of("4x1");
    struct gyre_rehearsal t = ask(&c, "direct", GYRE_VERB_GATHER, 1000);
    (void)state;
    assert_int_equal(rehearsed_ns(&t), LATENCY_NS + 3 * bytes_ns(1000 + HEAD));
    /* And so do two ranks of a machine, by its way out. */
    gyre_layout_destroy(c.layout);
    c = cluster_of("1+2");
    t = ask(&c, "direct", GYRE_VERB_GATHER, 1000);
    assert_int_equal(rehearsed_ns(&t), LATENCY_NS + 2 * bytes_ns(1000 + HEAD));
    gyre_layout_destroy(c.layout);
}

/* Where several send to one, each KiB costs that much more; two that exchange pay nothing. */
static void an_incast_has_a_price(void **state)
{
    struct cluster c = cluster_of("4x1");
    struct gyre_rehearsal t = ask(&c, "direct", GYRE_VERB_GATHER, 1000);
    uint64_t without = rehearsed_ns(&t);
    (void)state;
    c.tuning.incast_kib_ps = 500 * 1024; /* half a ns for each byte */
    /* The first is there when the second begins to come in, and the third comes beside that. */
    assert_int_equal(rehearsed_ns(&t), without + (1000 + HEAD) / 2);
    t = ask(&c, "doubling", GYRE_VERB_ALL_REDUCE, 1000);
    assert_int_equal(rehearsed_ns(&t), 2 * (LATENCY_NS + bytes_ns(1000 + HEAD)));
    gyre_layout_destroy(c.layout);
}

/* What a way could have carried while it was idle passes at once, up to the burst. */
static void a_burst_passes_at_once_after_a_pause(void **state)
{
    struct cluster c = cluster_of("2x1");
    struct gyre_rehearsal t = ask(&c, "ring", GYRE_VERB_ALL_REDUCE, 2000); /* two rounds */
    (void)state;
    assert_int_equal(rehearsed_ns(&t), 2 * (LATENCY_NS + bytes_ns(1000 + HEAD)));
    c.tuning.burst_bytes = 1000 + HEAD;
    assert_int_equal(rehearsed_ns(&t), 2 * LATENCY_NS + bytes_ns(1000 + HEAD));
    c.tuning.burst_bytes = 500;
    assert_int_equal(rehearsed_ns(&t), 2 * (LATENCY_NS + bytes_ns(1000 + HEAD)) - bytes_ns(500));
    gyre_layout_destroy(c.layout);
}

/* Inside a machine the sender's core is busy for two thirds of a KiB's price. */
static void cores_move_the_bytes_of_a_machine(void **state)
{
    struct cluster c = cluster_of("2");
    struct gyre_rehearsal t = ask(&c, "tree", GYRE_VERB_BROADCAST, 3000 - HEAD);
    (void)state;
    assert_int_equal(rehearsed_ns(&t), 1000 + 2000);
    /* Both ways at once: each core sends and receives. */
    t = ask(&c, "doubling", GYRE_VERB_ALL_REDUCE, 3000 - HEAD);
    assert_int_equal(rehearsed_ns(&t), 1000 + 3000);
    c.tuning.fold_kib_ps = 102400; /* two sources are read and one sum is written */
    assert_int_equal(rehearsed_ns(&t), 1000 + 3000 + 3 * (3000 - HEAD) / 10);
    gyre_layout_destroy(c.layout);
}

static void a_slow_machine_slows_what_passes_it(void **state)
{
    struct cluster c = cluster_of("2x1");
    struct gyre_rehearsal t = ask(&c, "doubling", GYRE_VERB_ALL_REDUCE, 1000);
    (void)state;
    c.kinds.slow_node = 1;
    c.kinds.slow_kib_ps = 10 * BYTE_PS * 1024;
    assert_int_equal(rehearsed_ns(&t), LATENCY_NS + 10 * bytes_ns(1000 + HEAD) - 2);
    gyre_layout_destroy(c.layout);
}

/* A chain of slices is a pipeline: its pace, found early, holds to the end. */
static void many_slices_follow_at_the_pace_of_the_first(void **state)
{
    const char *names[] = {"chain", "ring", "double_tree", "knomial", "two_level"};
    struct cluster c = cluster_of("8x1");
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct gyre_rehearsal t = ask(&c, names[i], GYRE_VERB_ALL_REDUCE, 12 << 18);
        t.slice_count = 1 << 18;
        t.lanes = 2;
        uint64_t ns = rehearsed_ns(&t); /* of 12 slices */
        t.whole.count = t.whole.stride = 24 << 18;
        uint64_t all = rehearsed_ns(&t);
        t.whole.count = t.whole.stride = 48 << 18;
        uint64_t followed = rehearsed_ns(&t);
        assert_true(ns < all && all < followed);
        assert_true(followed - all > 19 * (all - ns) / 10 && followed - all < 21 * (all - ns) / 10);
    }
    gyre_layout_destroy(c.layout);
}

static void too_much_is_not_rehearsed(void **state)
{
    struct cluster c = cluster_of("16x1");
    struct gyre_rehearsal t = ask(&c, "direct", GYRE_VERB_ALL_REDUCE, 16000);
    uint64_t ps, work;
    (void)state;
    assert_int_not_equal(rehearsed_ns(&t), 0);
    assert_int_equal(gyre_rehearse(&t, &ps, &work), 0);
    assert_in_range(work, 2 * 16 * 15, 2 * 16 * 15 + 4 * 16); /* messages, and rounds of ranks */
    t.work_most = work - 1;
    assert_int_equal(rehearsed_ns(&t), 0);
    t.work_most = work;
    assert_int_not_equal(rehearsed_ns(&t), 0);
    c.kinds.near = GYRE_LINK_MAPPED;
    assert_int_equal(rehearsed_ns(&t), 0);
    gyre_layout_destroy(c.layout);
}

/* What the formula says, in percent of what is rehearsed. */
static double formulas_share(struct cluster *c, const char *algorithm, uint64_t bytes)
{
    struct gyre_rehearsal t = ask(c, algorithm, GYRE_VERB_ALL_REDUCE, bytes);
    struct gyre_walk walk = {0};
    struct gyre_cost cost;
    assert_int_equal(
        gyre_cost_slice(t.algorithm, &t.whole, &c->kinds, GYRE_COST_NEVER - 1, &walk, &cost), 0);
    gyre_walk_deinit(&walk);
    return 100.0 * (double)cost.path / ((double)rehearsed_ns(&t) * 1e3);
}

/* One slice, machines of one rank. Where a rank talks with one peer at a time the formula is near.
 * It prices each round by its slowest rank, as if all waited for that one, and a rank's messages as
 * if none waited for another rank's. */
static void the_formula_is_as_near_as_the_documents_say(void **state)
{
    static const struct {
        const char *algorithm;
        double least, most;
    } promised[] = {{"ring", 98, 101},      {"doubling", 98, 101}, {"halving_doubling", 98, 101},
                    {"two_level", 98, 101}, {"tree", 98, 101},     {"direct", 94, 101},
                    {"chain", 98, 118},     {"knomial", 66, 98},   {"double_tree", 87, 108}};
    static const char *const layouts[] = {"4x1", "16x1", "64x1"};
    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        struct cluster c = cluster_of(layouts[l]);
        for (size_t i = 0; i < sizeof promised / sizeof *promised; i++)
            for (uint64_t bytes = 1 << 10; bytes <= 1 << 20; bytes <<= 5) {
                double share = formulas_share(&c, promised[i].algorithm, bytes);
                if (share < promised[i].least || share > promised[i].most)
                    fail_msg("%s of %s, %llu bytes: the formula says %.1f %%",
                             promised[i].algorithm, layouts[l], (unsigned long long)bytes, share);
            }
        gyre_layout_destroy(c.layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exchange_takes_its_bytes_and_a_latency),
        cmocka_unit_test(messages_to_one_rank_come_one_by_one),
        cmocka_unit_test(an_incast_has_a_price),
        cmocka_unit_test(a_burst_passes_at_once_after_a_pause),
        cmocka_unit_test(cores_move_the_bytes_of_a_machine),
        cmocka_unit_test(a_slow_machine_slows_what_passes_it),
        cmocka_unit_test(many_slices_follow_at_the_pace_of_the_first),
        cmocka_unit_test(too_much_is_not_rehearsed),
        cmocka_unit_test(the_formula_is_as_near_as_the_documents_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
