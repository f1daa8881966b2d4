/* The deep tree of a job of many nodes, or with large ones, in virtual time: every survivor ends
 * with the same failure as in a flat job, whoever of the tree is lost, and nobody is accused
 * falsely.
 *
 * Fan-outs of 1 (a chain) to 5, jobs of 2 to 60 ranks, drawn from seeds; in a third nodes are
 * large, of 2 ranks to all. In haste an eighth of the seeds, under sanitizers a sixteenth. */
#include "unit/transport/watch/detect/detector_story.h"

#include <stdio.h>
#include <string.h>

#define FLOOR (10 * GYRE_MS) /* a floor of the tree adds a beat and some messages */

static struct sim deep_sim(struct gyre_rng *dice, uint64_t seed)
{
    gyre_rng_seed(dice, seed * 7717);
    uint32_t per_node = gyre_rng_below(dice, 2) ? 1 : 1 + (uint32_t)gyre_rng_below(dice, 4);
    struct sim sim = sim_of(2 + (uint32_t)gyre_rng_below(dice, 58), per_node, seed);
    sim.fan_out = 1 + (uint32_t)gyre_rng_below(dice, 5);
    sim.large = gyre_rng_below(dice, 3) == 0;
    if (sim.large)
        sim.ranks_per_node = 2 + (uint32_t)gyre_rng_below(dice, sim.n - 1);
    return sim;
}

/* The floors of a chain of all nodes, and less for a tree. */
static uint64_t climbing(const struct sim *sim)
{
    return sim->n * FLOOR;
}

static uint32_t open_channels(const struct sim *sim, uint32_t rank)
{
    const struct gyre_failure_detector *detector = sim->rank[rank].detector;
    uint32_t count = 0;

    for (uint32_t i = 0; i < gyre_detector_channels(detector); i++)
        count += !gyre_detector_closed(detector, i);
    return count;
}

static void test_a_rank_has_few_channels(void **state)
{
    for (int large = 0; large < 2; large++) {
        struct sim sim = sim_of(1024, large ? 1024 : 1, 1);
        sim.fan_out = 16;
        sim.large = large;
        sim_open(&sim);
        assert_int_equal(open_channels(&sim, 0), 16);
        assert_int_equal(open_channels(&sim, 1), 17);
        assert_int_equal(open_channels(&sim, 63), 16); /* 15 below: 1009 … 1023 */
        assert_int_equal(open_channels(&sim, 1023), 1);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            assert_true(open_channels(&sim, rank) <= 17);
        sim_close(&sim);
    }
}

/* The lowest rank of a large node stands in both trees. */
static void test_large_nodes_are_trees_in_a_tree(void **state)
{
    struct sim sim = sim_of(24 * 8, 24, 1);
    sim.fan_out = 2;
    sim.large = true;
    sim_open(&sim);
    assert_int_equal(open_channels(&sim, 0), 4);
    assert_int_equal(open_channels(&sim, 24), 5);
    assert_int_equal(open_channels(&sim, 24 + 3), 3);
    assert_int_equal(open_channels(&sim, 24 + 23), 1);
    sim_close(&sim);
}

static void test_one_fault_of_any_kind_is_agreed_on(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(400); seed++) {
        struct gyre_rng dice;
        struct sim sim = deep_sim(&dice, seed);
        sim.lateness_max = gyre_rng_below(&dice, 40) * GYRE_MS;
        sim_open(&sim);
        sim_run(&sim, gyre_rng_below(&dice, 2 * GYRE_SECOND) + 50 * GYRE_MS);
        uint32_t culprit = (uint32_t)gyre_rng_below(&dice, sim.n);
        uint64_t at = sim.now;
        if (seed % 3 == 0)
            sim_kill(&sim, culprit);
        else if (seed % 3 == 1)
            sim_kill_open(&sim, culprit);
        else
            sim_pause(&sim, culprit, SIM_FOREVER);
        sim_run(&sim, 4 * GYRE_SECOND);
        assert_agreed(&sim, culprit, at + DEAD + BOUND + climbing(&sim));
        sim_close(&sim);
    }
}

/* Whoever dies: those below it hear at once, and so does rank 0. */
static void test_a_death_is_told_everywhere_at_once(void **state)
{
    for (uint32_t culprit = 0; culprit < 40; culprit++) {
        static const uint32_t ranks_per_node[] = {1, 2, 40, 13};
        struct sim sim = sim_of(40, ranks_per_node[culprit % 4], culprit + 1);
        sim.fan_out = 3;
        sim.large = culprit % 4 > 1;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        sim_kill(&sim, culprit);
        uint64_t limit = sim.now + (culprit == 0 ? GRACE : 0) + 30 * GYRE_MS;
        sim_run(&sim, GYRE_SECOND);
        assert_agreed(&sim, culprit, limit);
        sim_close(&sim);
    }
}

/* An orphan's own story goes past the rank that is lost, and rank 0 decides for one of both. */
static void test_several_deaths_make_one_story(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(400); seed++) {
        struct gyre_rng dice;
        struct sim sim = deep_sim(&dice, seed);
        sim.n += 4;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        for (uint32_t i = 2 + seed % 3; i > 0; i--) {
            uint32_t victim = 1 + (uint32_t)gyre_rng_below(&dice, sim.n - 1);
            if (!sim.rank[victim].dead)
                sim_kill(&sim, victim);
            sim_run(&sim, gyre_rng_below(&dice, 2 * GYRE_MS));
        }
        sim_run(&sim, 2 * GYRE_SECOND);
        const struct gyre_detector_record *record = sim_failure(&sim, 0);
        assert_non_null(record);
        assert_true(sim.rank[record->rank].dead);
        assert_agreed(&sim, record->rank, sim.now);
        sim_close(&sim);
    }
}

/* A rank tells its failure although the rank above it ends at the same time. */
static void test_an_orphan_is_heard(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(100); seed++) {
        struct sim sim = sim_of(15, 1, seed);
        sim.fan_out = 2;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        sim_pause(&sim, 1, SIM_FOREVER); /* 3 and 4 are below it, and below these 7 to 10 */
        sim_run(&sim, 100 * GYRE_MS);
        sim_report(&sim, 3 + seed % 2, GYRE_ABORTED, 3 + seed % 2, false, "aborted");
        sim_run(&sim, 2 * GYRE_SECOND);
        const struct gyre_detector_record *near = sim_failure(&sim, 7 + 2 * (seed % 2));
        assert_int_equal(near->status, GYRE_ABORTED);
        assert_non_null(sim_failure(&sim, 0));
        assert_non_null(sim_failure(&sim, 14));
        sim_close(&sim);
    }
}

/* Rank 3 is late itself, so it has not missed rank 1 when rank 0 decides. Rank 0 calls it. */
static void test_orphans_of_a_stopped_rank_are_called(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(60); seed++) {
        struct sim sim = sim_of(15, 1, seed);
        sim.fan_out = 2;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        uint64_t at = sim.now;
        sim_pause(&sim, 1, SIM_FOREVER);
        sim_pause(&sim, 3, DEAD * 9 / 10);
        sim_run(&sim, 2 * GYRE_SECOND);
        assert_agreed(&sim, 1, at + DEAD + 60 * GYRE_MS);
        sim_close(&sim);
    }
}

static void test_pauses_and_lateness_are_no_deaths(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(60); seed++) {
        struct gyre_rng dice;
        struct sim sim = deep_sim(&dice, seed);
        sim.lateness_max = DEAD / 8;
        sim_open(&sim);
        for (uint32_t turn = 0; turn < 20; turn++) {
            sim_pause(&sim, (uint32_t)gyre_rng_below(&dice, sim.n), DEAD * 7 / 10);
            sim_run(&sim, GYRE_SECOND);
        }
        assert_calm(&sim);
        sim_close(&sim);
    }
}

/* -- resets ------------------------------------------------------------------------------------ */

/* Resets an open connection to a rank above that is no Unix socket, if the rank has one; some ends
 * notice. */
static void reset_above(struct sim *sim, struct gyre_rng *dice)
{
    uint32_t rank = (uint32_t)gyre_rng_below(dice, sim->n), who = (uint32_t)gyre_rng_below(dice, 3);
    const struct gyre_failure_detector *detector = sim->rank[rank].detector;

    for (uint32_t i = 0; i < gyre_detector_channels(detector); i++) {
        uint32_t peer = gyre_detector_peer(detector, i);
        if (peer > rank || gyre_detector_closed(detector, i) || gyre_detector_near(detector, i))
            continue;
        sim_reset(sim, peer, rank, who != 1, who != 0);
        return;
    }
}

static void test_resets_fail_no_job(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct gyre_rng dice;
        struct sim sim = deep_sim(&dice, seed);
        sim_open(&sim);
        for (int i = 0; i < 20; i++) {
            reset_above(&sim, &dice);
            sim_run(&sim, gyre_rng_below(&dice, 100 * GYRE_MS));
        }
        sim_run(&sim, 2 * GYRE_SECOND);
        assert_calm(&sim);
        sim_close(&sim);
    }
}

static void test_goodbyes_climb_and_outlive_resets(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(200); seed++) {
        struct gyre_rng dice;
        struct sim sim = deep_sim(&dice, seed);
        sim_open(&sim);
        sim_run(&sim, gyre_rng_below(&dice, GYRE_SECOND));
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            sim_leave(&sim, rank);
            sim_run(&sim, gyre_rng_below(&dice, GYRE_MS));
            if (seed % 2)
                reset_above(&sim, &dice);
        }
        sim_run(&sim, 2 * GYRE_SECOND);
        assert_calm(&sim);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            if (!gyre_detector_all_left(sim.rank[rank].detector))
                fail_msg("seed %lu: rank %u of %u waits", seed, rank, sim.n);
        sim_close(&sim);
    }
}

/* The goodbye of a rank that another passes on, while a way past that other one is open already: it
 * is not the other's. Nobody speaks for ranks that are not below it. */
static void test_a_goodbye_passed_on_is_not_its_bearers(void **state)
{
    struct sim sim = sim_of(4, 1, 3);
    sim.fan_out = 1;
    sim_open(&sim);
    sim_run(&sim, 100 * GYRE_MS);
    struct gyre_failure_detector *detector = sim.rank[1].detector;
    const uint32_t two = (uint32_t)gyre_detector_channel(detector, 2);
    const uint32_t three = (uint32_t)gyre_detector_channel(detector, 3);
    uint8_t payload[GYRE_WATCH_STATE_BYTES];
    const struct gyre_watch_message bye = {.kind = GYRE_WATCH_BYE,
                                           .epoch = 7,
                                           .rank = 2,
                                           .payload = payload,
                                           .payload_bytes = sizeof payload};
    gyre_detector_resumed(detector, sim.now, three);
    gyre_watch_state_encode(&(struct gyre_watch_state){.rank = 3, .parting = 1}, payload);
    gyre_detector_receive(detector, sim.now, two, &bye);
    assert_true(gyre_detector_has_left(detector, three));
    assert_false(gyre_detector_has_left(detector, two));
    gyre_watch_state_encode(&(struct gyre_watch_state){.rank = 0, .parting = 1}, payload);
    gyre_detector_receive(detector, sim.now, two, &bye);
    assert_true(gyre_detector_has_left(detector, two));
    sim_close(&sim);
}

/* A rank that has left ends before the ranks below hear that all have: they end their wait. */
static void test_a_rank_above_that_left_may_end(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(60); seed++) {
        struct sim sim = sim_of(15, 1, seed);
        sim.fan_out = 2;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            if (rank != 14)
                sim_leave(&sim, rank);
        sim_run(&sim, 100 * GYRE_MS);
        sim_kill(&sim, 1);
        sim_run(&sim, 500 * GYRE_MS);
        assert_calm(&sim);
        assert_true(gyre_detector_all_left(sim.rank[3].detector));
        sim_close(&sim);
    }
}

/* Rank 0 leaves before the others, which are told of nothing on other nodes from then on: those far
 * below it know so, too. */
static void test_all_know_that_rank_0_has_left(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(60); seed++) {
        struct sim sim = sim_of(15, 1, seed);
        sim.fan_out = seed % 2 ? 2 : 0;
        sim_open(&sim);
        sim_run(&sim, GYRE_SECOND);
        sim_leave(&sim, 0);
        sim_run(&sim, GYRE_SECOND);
        for (uint32_t rank = 0; rank < sim.n; rank++)
            assert_false(gyre_detector_rootless(sim.rank[rank].detector));
        sim_kill(&sim, 0);
        sim_run(&sim, GYRE_SECOND);
        assert_calm(&sim);
        for (uint32_t rank = 1; rank < sim.n; rank++)
            assert_true(gyre_detector_rootless(sim.rank[rank].detector));
        sim_close(&sim);
    }
}

/* -- calls ------------------------------------------------------------------------------------- */

static void assert_all_told(struct sim *sim, int status, const char *words)
{
    for (uint32_t rank = 0; rank < sim->n; rank++) {
        const struct gyre_detector_record *record = sim_failure(sim, rank);
        if (record == NULL || record->status != status || strstr(record->text, words) == NULL)
            fail_msg("seed %lu, n %u, fan-out %u: rank %u says \"%s\"", sim->seed, sim->n,
                     sim->fan_out, rank, record != NULL ? record->text : "nothing");
    }
}

/* States climb: rank 0 sees calls that differ, of ranks that share no link with each other. */
static void test_calls_that_differ_are_seen(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(60); seed++) {
        struct gyre_rng dice;
        struct sim sim = deep_sim(&dice, seed);
        sim_open(&sim);
        sim_run(&sim, 500 * GYRE_MS);
        uint32_t odd = (uint32_t)gyre_rng_below(&dice, sim.n);
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            sim.rank[rank].state.sequence = 1;
            sim.rank[rank].state.signature = rank == odd ? 2 : 1;
            sim.rank[rank].state.fingerprint = rank == odd ? 2 : 1;
        }
        sim_run(&sim, GYRE_SECOND + climbing(&sim));
        assert_all_told(&sim, GYRE_MISMATCH, "called");
        sim_close(&sim);
    }
}

/* A link saw a mismatch: rank 0 asks both ranks, down the tree, and all tell both calls. */
static void test_an_inquiry_goes_down_the_tree(void **state)
{
    for (uint64_t seed = 1; seed <= seeds(60); seed++) {
        struct gyre_rng dice;
        struct sim sim = deep_sim(&dice, seed);
        char words[64];
        sim.n = 6 + sim.n % 20;
        sim.dead_ns = 4 * GYRE_SECOND; /* beats alone would come too late */
        sim_open(&sim);
        sim_run(&sim, 500 * GYRE_MS);
        uint32_t one = (uint32_t)gyre_rng_below(&dice, sim.n);
        uint32_t two = (one + 1 + (uint32_t)gyre_rng_below(&dice, sim.n - 1)) % sim.n;
        for (uint32_t rank = 0; rank < sim.n; rank++) {
            sim.rank[rank].state.sequence = rank == one || rank == two;
            sim.rank[rank].state.signature = rank == one ? 1 : 2;
            sim.rank[rank].state.fingerprint = rank == one ? 1 : 2;
        }
        uint64_t limit = sim.now + 50 * GYRE_MS + climbing(&sim) / 4;
        sim_report(&sim, one, GYRE_MISMATCH, two, true, "a link saw two calls");
        sim_run(&sim, limit - sim.now);
        snprintf(words, sizeof words, "rank %u called", one);
        assert_all_told(&sim, GYRE_MISMATCH, words);
        sim_close(&sim);
    }
}

/* Rank 0's warning reaches those that wait, however far below, and nobody else. */
static void test_a_warning_is_for_those_that_wait(void **state)
{
    struct sim sim = sim_of(15, 1, 3);
    sim.fan_out = 2;
    sim.patience_ns = GYRE_SECOND;
    sim_open(&sim);
    sim_run(&sim, 500 * GYRE_MS);
    sim.rank[9].state.sequence = sim.rank[13].state.sequence = 1; /* below 4 and 6 */
    sim_run(&sim, 3 * GYRE_SECOND);
    assert_calm(&sim);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        assert_int_equal(sim.rank[rank].warnings, rank == 0 || rank == 9 || rank == 13);
    sim_close(&sim);
}

/* Only rank 0 warns. Another's warning reaches neither rank 0 nor the ranks above the sender. */
static void test_a_warning_from_below_is_not_heard(void **state)
{
    static const uint8_t words[] = "wait on";
    const struct gyre_watch_message warning = {.kind = GYRE_WATCH_WARNING,
                                               .epoch = 7,
                                               .region_length = 1,
                                               .payload = words,
                                               .payload_bytes = sizeof words - 1};
    struct sim sim = sim_of(15, 1, 3);
    sim.fan_out = 2;
    sim_open(&sim);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        sim.rank[rank].state.sequence = 1;
    sim_run(&sim, 500 * GYRE_MS);
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct gyre_failure_detector *detector = sim.rank[rank].detector;
        for (uint32_t i = 0; i < gyre_detector_channels(detector); i++)
            if (gyre_detector_peer(detector, i) > rank)
                gyre_detector_receive(detector, sim.now, i, &warning);
        assert_null(gyre_detector_take_warning(detector));
    }
    sim_run(&sim, 500 * GYRE_MS);
    for (uint32_t rank = 0; rank < sim.n; rank++)
        assert_int_equal(sim.rank[rank].warnings, 0);
    sim_close(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_has_few_channels),
        cmocka_unit_test(test_large_nodes_are_trees_in_a_tree),
        cmocka_unit_test(test_one_fault_of_any_kind_is_agreed_on),
        cmocka_unit_test(test_a_death_is_told_everywhere_at_once),
        cmocka_unit_test(test_several_deaths_make_one_story),
        cmocka_unit_test(test_an_orphan_is_heard),
        cmocka_unit_test(test_orphans_of_a_stopped_rank_are_called),
        cmocka_unit_test(test_pauses_and_lateness_are_no_deaths),
        cmocka_unit_test(test_resets_fail_no_job),
        cmocka_unit_test(test_a_goodbye_passed_on_is_not_its_bearers),
        cmocka_unit_test(test_goodbyes_climb_and_outlive_resets),
        cmocka_unit_test(test_a_rank_above_that_left_may_end),
        cmocka_unit_test(test_all_know_that_rank_0_has_left),
        cmocka_unit_test(test_calls_that_differ_are_seen),
        cmocka_unit_test(test_an_inquiry_goes_down_the_tree),
        cmocka_unit_test(test_a_warning_is_for_those_that_wait),
        cmocka_unit_test(test_a_warning_from_below_is_not_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
