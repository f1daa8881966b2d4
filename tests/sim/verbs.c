/* Every verb over the simulator's links: with every algorithm that builds it and with the one that
 * the model chooses, at 2 to 64 ranks, on one node, on nodes of several ranks and of one.
 *
 * Counts are fewer than ranks, odd, and several slices; links delay, cut and merge; every other
 * rank works in place. Every algorithm meets all of 2 to 9 ranks at nine counts, 10 to 16 at two of
 * three, then 17, 31, 33, 37 and 64; in haste 2 to 5, and every third or fourth of what follows. */
#include <stdio.h>

#include "sim/engine_sim.h"
#include "rig/test.h"
#include "collectives/algorithms/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void every_verb(struct sim_run run, uint32_t root)
{
    for (int verb = 0; verb < GYRE_VERBS; verb++) {
        run.verb = (enum gyre_verb)verb;
        sim_run_built(run, root);
    }
}

static void every_algorithm_is_right(void **state)
{
    static const uint64_t counts[] = {0, 1, 5, 16, 17, 1000, 1025, 6000, 40001};
    const uint32_t most = in_haste() ? 5 : 9;
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t n = 2; n <= most; n++)
            for (uint32_t c = 0; c < sizeof(counts) / sizeof(counts[0]) - (n % 3 != 0); c++)
                for (int verb = 0; verb < GYRE_VERBS; verb++)
                    sim_run_built((struct sim_run){.algorithm = gyre_algorithms[a]->name,
                                                   .verb = (enum gyre_verb)verb,
                                                   .n = n,
                                                   .count = counts[c],
                                                   .slice_bytes = c % 2 ? 16384 : 0,
                                                   .seed = 100 * n + c,
                                                   .piece_bytes = c == 5 ? 1 : c * 997},
                                  c);
}

/* Beyond 32 ranks an exchange with all has several rounds. */
static void every_algorithm_is_right_with_many_ranks(void **state)
{
    static const uint32_t ns[] = {33, 33, 64};
    const uint32_t runs = in_haste() ? 1 : 3;
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t i = 0; i < runs; i++)
            for (int verb = 0; verb < GYRE_VERBS; verb++)
                sim_run_built((struct sim_run){.algorithm = gyre_algorithms[a]->name,
                                               .verb = (enum gyre_verb)verb,
                                               .n = ns[i],
                                               .count = i == 1 ? 3001 : 7 * i,
                                               .slice_bytes = i == 1 ? 4096 : 0,
                                               .seed = i,
                                               .piece_bytes = i * 997},
                              i * 11);
}

static void every_layout_is_right(void **state)
{
    static const struct {
        const char *text;
        uint32_t n;
    } layouts[] = {{"2x2", 4}, {"4+2", 6}, {"5+1", 6}, {"1+7+3", 11}, {"4x4", 16}, {"8x8", 64}};
    const uint32_t step = in_haste() ? 3 : 1;
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t i = 0; i < COUNT(layouts); i += step)
            for (int verb = 0; verb < GYRE_VERBS; verb++)
                sim_run_built((struct sim_run){.algorithm = gyre_algorithms[a]->name,
                                               .verb = (enum gyre_verb)verb,
                                               .n = layouts[i].n,
                                               .count = i % 2 ? 1511 : 503,
                                               .slice_bytes = i % 3 ? 16384 : 0,
                                               .seed = i,
                                               .piece_bytes = i * 997,
                                               .layout = layouts[i].text},
                              i * 7);
}

/* From 10 ranks on fewer counts, two for each n: fewer than ranks, as many and one, several slices.
 */
static void every_algorithm_is_right_up_to_16_ranks(void **state)
{
    static const uint64_t counts[] = {3, 17, 9001};
    const uint32_t step = in_haste() ? 3 : 1;
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t n = 10; n <= 16; n += step)
            for (uint32_t c = n % 3 == 0; c < COUNT(counts); c += 1 + (c + 1 == n % 3))
                every_verb((struct sim_run){.algorithm = gyre_algorithms[a]->name,
                                            .n = n,
                                            .count = counts[c],
                                            .slice_bytes = c == 2 ? 8192 : 0,
                                            .seed = 1000 * n + c,
                                            .piece_bytes = (n + c) % 5 * 997},
                           n + 3 * c);
}

/* Sizes beside powers of two and of three, primes, and many divisors. */
static void every_algorithm_is_right_at_sampled_sizes(void **state)
{
    static const uint32_t ns[] = {17, 31, 37};
    const uint32_t step = in_haste() ? 4 : 1;
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t i = 0; i < COUNT(ns); i += step)
            every_verb((struct sim_run){.algorithm = gyre_algorithms[a]->name,
                                        .n = ns[i],
                                        .count = i % 2 ? ns[i] + 1 : 701,
                                        .slice_bytes = i % 2 ? 0 : 1024,
                                        .seed = 77 + i,
                                        .piece_bytes = i % 3 * 997},
                       5 * i + 1);
}

/* n ranks on nodes of `each`, the last one smaller where that does not divide. */
static const char *nodes_of(uint32_t n, uint32_t each, char *text, size_t size)
{
    int at = 0;
    for (uint32_t first = 0; first < n; first += each)
        at += snprintf(text + at, size - (size_t)at, "%s%u", first ? "+" : "",
                       n - first < each ? n - first : each);
    return text;
}

/* As the model chooses, on one node, on nodes of one, of three and of eight ranks; between the
 * corners each n and count meets two of the four, in haste 64 ranks but one. */
static void whatever_is_chosen_is_right(void **state)
{
    static const uint32_t ns[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21, 64};
    static const uint64_t counts[] = {50, 1, 3001};
    static const uint32_t nodes[] = {0, 1, 3, 8};
    const uint32_t step = in_haste() ? 4 : 1;
    (void)state;
    for (uint32_t i = 0; i < COUNT(ns); i += step)
        for (uint32_t c = 0; c < (ns[i] > 16 ? 1 : COUNT(counts)); c++)
            for (uint32_t k = 0; k < COUNT(nodes); k++) {
                if ((ns[i] > 4 && ns[i] != 16 && (i + c + k) % 2) ||
                    (in_haste() && ns[i] > 16 && k != 2))
                    continue;
                char text[256];
                const char *layout =
                    nodes[k] ? nodes_of(ns[i], nodes[k], text, sizeof(text)) : NULL;
                every_verb((struct sim_run){.n = ns[i],
                                            .count = counts[c],
                                            .seed = i + 10 * c + k,
                                            .piece_bytes = (i + k) % 4 * 997,
                                            .layout = layout},
                           i + k);
            }
}

/* What peers sent is there before a rank starts, or before its own blocks have their grant: whoever
 * works in place has to have put these aside. */
static void in_place_keeps_what_has_not_gone_out(void **state)
{
    static const uint32_t ns[] = {2, 3, 4, 7};
    (void)state;
    for (int a = 0; gyre_algorithms[a]; a++)
        for (uint32_t i = 0; i < COUNT(ns); i++)
            for (uint64_t seed = 0; seed < 4; seed++)
                sim_run_built((struct sim_run){.algorithm = gyre_algorithms[a]->name,
                                               .verb = GYRE_VERB_ALL_TO_ALL,
                                               .n = ns[i],
                                               .count = seed % 3 ? 60013 : 50,
                                               .slice_bytes = UINT64_C(1) << 30,
                                               .seed = seed},
                              0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right),
        cmocka_unit_test(every_algorithm_is_right_up_to_16_ranks),
        cmocka_unit_test(every_algorithm_is_right_at_sampled_sizes),
        cmocka_unit_test(every_algorithm_is_right_with_many_ranks),
        cmocka_unit_test(every_layout_is_right),
        cmocka_unit_test(whatever_is_chosen_is_right),
        cmocka_unit_test(in_place_keeps_what_has_not_gone_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
