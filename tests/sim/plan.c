/* What a rehearsal of the schedules (collectives/rehearsal) takes against the engine over the
 * simulator: links of one latency, machines of one speed or one slower, and ranks that take no time
 * to compute. Every verb and every algorithm is rehearsed: of few ranks and many, short messages
 * and long ones, in one slice and in many, to two percent. What is too long to be rehearsed is held
 * against the formula (collectives/choose/cost.h) by
 * tests/unit/collectives/rehearsal/rehearsal_test.c. In haste 5 and 8 ranks, and 256 where it
 * is else 4,096. */
#include <math.h>
#include <stdio.h>

#include "collectives/algorithms/table.h"
#include "collectives/rehearsal/rehearsal.h"
#include "rig/haste.h"
#include "rig/test.h"
#include "sim/engine_sim.h"
#include "transport/stream/frame.h"

#define LATENCY_NS  5000
#define KIB_PS      819200 /* 10 Gbit/s */
#define SLOW_KIB_PS 8192000
#define SLOW_RANK   1

static const struct gyre_sim_link wire = {.latency_ns = LATENCY_NS, .bytes_per_second = 1250000000};

static struct gyre_tuning prices(void)
{
    struct gyre_tuning tuning = gyre_tuning_built_in;
    tuning.link[GYRE_LINK_NETWORK] = (struct gyre_price){LATENCY_NS, 0, LATENCY_NS, KIB_PS};
    tuning.fold_kib_ps = 0;
    tuning.spill_percent = 0;
    return tuning;
}

/* The time of what the engines' plan says. */
static uint64_t rehearse(const struct sim *sim, const struct sim_run *run, bool slow)
{
    const struct gyre_plan *plan = sim->rank[0].op->plan;
    struct gyre_tuning tuning = prices();
    const struct gyre_link_kinds kinds = {.near = GYRE_LINK_SHM,
                                          .far = GYRE_LINK_NETWORK,
                                          .tuning = &tuning,
                                          .slow_node = SLOW_RANK,
                                          .slow_kib_ps = slow ? SLOW_KIB_PS : 0};
    const struct gyre_rehearsal rehearsal = {.algorithm = plan->algorithm,
                                             .whole = {.verb = run->verb,
                                                       .n = run->n,
                                                       .root = run->root,
                                                       .element = 4,
                                                       .count = run->count,
                                                       .stride = run->count,
                                                       .small = plan->small,
                                                       .layout = sim->layout},
                                             .slice_count = plan->slice_count,
                                             .lanes = plan->steps.lanes,
                                             .link_kinds = &kinds,
                                             .unasked = GYRE_EAGER_MAX,
                                             .work_most = UINT64_C(1) << 40};
    uint64_t ps, work;
    assert_int_equal(gyre_rehearse(&rehearsal, &ps, &work), 0);
    return ps;
}

static void expect_near(struct sim_run run, bool slow)
{
    char layout[16];
    struct sim sim;
    snprintf(layout, sizeof layout, "%ux1", run.n);
    run.layout = layout;
    run.link = &wire;
    sim_open(&sim, &run);
    if (slow)
        gyre_sim_world_set_ways(sim.world, SLOW_RANK, wire.bytes_per_second / 10);
    sim_start(&sim, &run);
    double rehearsed = (double)rehearse(&sim, &run, slow) / 1e3;
    sim_play(&sim);
    for (uint32_t r = 0; r < run.n; r++)
        assert_int_equal(sim.rank[r].op->status, 0);
    double simulated = (double)gyre_sim_world_now(sim.world);
    if (fabs(rehearsed - simulated) > 0.02 * simulated)
        fail_msg("%s %s, %u ranks, %llu elements%s: rehearsed %.1f us, simulated %.1f us",
                 run.algorithm, gyre_verb_word[run.verb], run.n, (unsigned long long)run.count,
                 slow ? ", one slow" : "", rehearsed / 1e3, simulated / 1e3);
    sim_close(&sim);
}

/* Every algorithm of the verb. */
static void expect_all_near(enum gyre_verb verb, uint32_t n, uint64_t count, uint64_t slice_bytes,
                            bool slow)
{
    const struct gyre_slice slice = {
        .verb = verb, .n = n, .element = 4, .count = count, .stride = count};
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        if (gyre_algorithm_builds(*it, &slice))
            expect_near((struct sim_run){.algorithm = (*it)->name,
                                         .verb = verb,
                                         .n = n,
                                         .root = gyre_verb_has_root(verb) ? n / 3 : 0,
                                         .count = count,
                                         .slice_bytes = slice_bytes},
                        slow);
}

/* Short messages, those that lack credit, long ones, and long ones in slices that follow each
 * other. */
static const struct {
    uint64_t count, slice_bytes;
} cuts[] = {{250, 1 << 30}, {20000, 16 << 10}, {100000, 1 << 30}, {600000, 64 << 10}};

static void the_engine_takes_what_is_rehearsed(void **state)
{
    const uint32_t ranks[] = {2, 13, 16, 5, 8};
    (void)state;
    for (size_t i = in_haste() ? 3 : 0; i < sizeof ranks / sizeof *ranks; i++)
        for (int verb = 0; verb < GYRE_VERBS; verb++)
            for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
                uint64_t blocks = gyre_verb_has_blocks(verb) ? ranks[i] : 1;
                expect_all_near(verb, ranks[i], cuts[c].count / blocks,
                                cuts[c].slice_bytes / blocks, false);
            }
}

static void a_slow_machine_costs_what_is_rehearsed(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
        expect_all_near(GYRE_VERB_ALL_REDUCE, 7, cuts[c].count, cuts[c].slice_bytes, true);
}

static void thousands_take_what_is_rehearsed(void **state)
{
    const uint32_t n = in_haste() ? 256 : 4096;
    const char *algorithm[] = {"doubling", "halving_doubling", "tree"};
    (void)state;
    for (size_t i = 0; i < sizeof algorithm / sizeof *algorithm; i++)
        expect_near((struct sim_run){.algorithm = algorithm[i],
                                     .verb = GYRE_VERB_ALL_REDUCE,
                                     .n = n,
                                     .count = 1 << 10,
                                     .slice_bytes = 1 << 30},
                    false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_engine_takes_what_is_rehearsed),
                                       cmocka_unit_test(a_slow_machine_costs_what_is_rehearsed),
                                       cmocka_unit_test(thousands_take_what_is_rehearsed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
