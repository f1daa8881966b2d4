/* What `gyre plan` predicts against the engine over the simulator: the same schedules, links of one
 * latency and one speed, and ranks that take no time to compute. Algorithms of one peer at a time
 * are compared, because the simulator limits connections, not ranks. Messages of 16 to 64 KiB are
 * left out: the simulator's wait for a grant, and TCP's, whose limit the model has, do not. In
 * haste at most 1,024 ranks, not 4,096, and 2 million elements of all together, not 16 million. */
#include <math.h>
#include <stdio.h>

#include "collectives/choose/preference.h"
#include "rig/haste.h"
#include "rig/test.h"
#include "sim/engine_sim.h"
#include "transport/stream/frame.h"

#define LATENCY_NS 5000
#define KIB_PS     819200 /* 10 Gbit/s */

static const struct gyre_sim_link wire = {.latency_ns = LATENCY_NS, .bytes_per_second = 1250000000};

static struct gyre_preference prices(void)
{
    struct gyre_preference preference = {.tuning = gyre_tuning_built_in};
    preference.tuning.link[GYRE_LINK_NETWORK] =
        (struct gyre_price){LATENCY_NS, 0, LATENCY_NS, KIB_PS};
    preference.tuning.fold_kib_ps = 0;
    preference.tuning.spill_percent = 0;
    return preference;
}

/* How far the prediction is off, in percent of the simulated time. */
static double run_and_compare(const char *algorithm, uint32_t n, uint64_t count)
{
    char layout[16];
    struct gyre_preference preference = prices();
    struct gyre_choice choice;
    struct sim sim;
    snprintf(layout, sizeof layout, "%ux1", n);
    struct sim_run run = {.algorithm = algorithm,
                          .n = n,
                          .count = count,
                          .slice_bytes = UINT64_C(1) << 40,
                          .layout = layout,
                          .link = &wire,
                          .preference = &preference};
    const struct gyre_shape shape = {
        .verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I32, .count = count};
    sim_open(&sim, &run);
    assert_int_equal(gyre_select_priced(&shape, &sim.rank[0].engine->planning, &choice, NULL), 0);
    sim_start(&sim, &run);
    sim_play(&sim);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(sim.rank[r].op->status, 0);
    double simulated = (double)gyre_sim_world_now(sim.world);
    double off = 100 * ((double)choice.cost_ps / 1e3 - simulated) / simulated;
    sim_close(&sim);
    return off;
}

/* Whether a message between these lengths is one for which the grants differ. */
static bool grants_differ(uint64_t shortest, uint64_t longest)
{
    return shortest <= GYRE_COST_UNASKED && longest > GYRE_EAGER_MAX;
}

static void expect_near(const char *algorithm, uint32_t n, uint64_t count)
{
    double off = run_and_compare(algorithm, n, count);
    if (fabs(off) > 2)
        fail_msg("%s, %u ranks, %llu elements: %.2f %% off", algorithm, n,
                 (unsigned long long)count, off);
}

static void the_engine_takes_what_is_predicted(void **state)
{
    const uint64_t most = in_haste() ? 1 << 21 : 1 << 24;
    (void)state;
    for (uint32_t n = 2; n <= 256; n *= 4)
        for (uint64_t count = 1 << 8; count <= 1 << 20 && n * count <= most; count *= 4) {
            uint64_t bytes = count * 4;
            if (!grants_differ(bytes / n, bytes / n))
                expect_near("ring", n, count);
            if (!grants_differ(bytes, bytes))
                expect_near("doubling", n, count);
            if (!grants_differ(bytes / n, bytes / 2))
                expect_near("halving_doubling", n, count);
        }
}

static void thousands_take_what_is_predicted(void **state)
{
    const uint32_t n = in_haste() ? 1024 : 4096;
    (void)state;
    expect_near("doubling", n, 1 << 8);
    expect_near("halving_doubling", n, 1 << 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_engine_takes_what_is_predicted),
                                       cmocka_unit_test(thousands_take_what_is_predicted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
