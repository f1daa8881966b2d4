/* Every algorithm of the table is proved. A new line in the table is covered without an edit here.
 *
 *     ranks          roots     counts
 *     1 … 16         all       all where cuts go wrong; elements of 4 bytes, to 9 ranks of 1, 2, 8
 *     17, 31 … 33    one       7 of them: empty, one, n - 1, n, n + 1, a prime, many
 *     64, 100, 127   one       3: n - 1, a prime, many
 *     257, 500       one       2 and 1
 *     1,024          one       1: less than one element for each rank
 *
 * In haste all to 7 ranks, then 17, 33 and 64. */
#include "rig/haste.h"

#include "collectives/algorithms/table.h"
#include "collectives/prove/check.h"
#include "rig/test.h"

#include <stdlib.h>

#define MANY 257

static const uint32_t large_n[] = {17, 33, 64, 31, 32, 100, 127, 257, 500, 1024};
static uint32_t every_n = 16, larges = sizeof large_n / sizeof *large_n;

static void spare_time(void)
{
    if (!in_haste())
        return;
    every_n = 7;
    larges = 3;
}

/* Every other rank in place, of so many that three proofs of an all-to-all would take long. */
static int check_mixed(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                       struct gyre_trouble *trouble)
{
    static struct gyre_slice of_rank[1024];
    for (uint32_t rank = 0; rank < slice->n; rank++) {
        of_rank[rank] = *slice;
        of_rank[rank].rank = rank;
        of_rank[rank].in_place = rank % 2 == 1;
    }
    return gyre_check_ranks(algorithm, of_rank, trouble);
}

static void prove(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    struct gyre_trouble trouble = {0};
    int status = slice.n > MANY ? check_mixed(algorithm, &slice, &trouble)
                                : gyre_check_schedule(algorithm, &slice, &trouble);
    if (status != 0)
        fail_msg("%s", trouble.text);
}

/* Blocks side by side, and a slice from the middle of longer ones. */
static void prove_cuts(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    bool blocks = gyre_verb_gathers(slice.verb) || gyre_verb_scatters(slice.verb);
    slice.stride = slice.count;
    prove(algorithm, slice);
    slice.stride += 1000;
    slice.first = 300;
    if (blocks && slice.n < MANY)
        prove(algorithm, slice);
}

/* Empty, fewer elements than ranks, uneven cuts, both sides of 4 and 16 KiB (at 4 bytes), several
 * segments, beyond 2^32. */
static void prove_counts(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    const uint64_t n = slice.n;
    const uint64_t counts[] = {0,     1,     2,      3,       n - 1,      n,
                               n + 1, 97,    1009,   1024,    1025,       4096,
                               4097,  16411, 131101, 1000003, 3000000019, UINT64_C(1) << 33};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        slice.count = counts[i];
        prove_cuts(algorithm, slice);
    }
}

static void prove_all_roots(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    uint32_t roots = gyre_verb_has_root(slice.verb) ? slice.n : 1;
    for (slice.root = 0; slice.root < roots; slice.root++)
        prove_counts(algorithm, slice);
}

static void for_each_algorithm(void (*prove_one)(const struct gyre_algorithm *, struct gyre_slice),
                               uint32_t n)
{
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        for (unsigned verb = 0; verb < GYRE_VERBS; verb++)
            if (gyre_algorithm_builds(*it, &(struct gyre_slice){.verb = verb, .n = n}))
                prove_one(*it, (struct gyre_slice){.verb = verb, .n = n, .element = 4});
}

static void test_every_n_to_16(void **state)
{
    for (uint32_t n = 1; n <= every_n; n++)
        for_each_algorithm(prove_all_roots, n);
}

static void prove_elements(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    static const uint32_t elements[] = {1, 2, 8};
    for (size_t i = 0; i < 3; i++) {
        slice.element = elements[i];
        slice.small = i == 1 ? 65536 : 0;
        prove_counts(algorithm, slice);
    }
}

static void test_element_sizes(void **state)
{
    for (uint32_t n = 1; n <= every_n / 2 + 1; n++)
        for_each_algorithm(prove_elements, n);
}

/* Rings have n rounds, and an exchange with all has n messages of each rank. */
static bool grows_with_square(const struct gyre_algorithm *algorithm,
                              const struct gyre_slice *slice)
{
    bool all_to_all = gyre_verb_gathers(slice->verb) && gyre_verb_scatters(slice->verb);
    return algorithm->extent(slice).rounds > slice->n / 2 || (slice->n > 500 && all_to_all);
}

/* Many ranks have few counts: from 64 on three, then two, one large for 500, one below the number
 * of ranks for 1,024. What grows with the square of n is left out from 500 on. */
static void prove_sample(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    const uint64_t n = slice.n, counts[] = {n - 1, 4099, 1000003, 0, 1, n, n + 1};
    size_t first = n == 500 ? 2 : 0, last = n == 1024 ? 0 : n >= 64 ? 2 : 6;
    slice.root = gyre_verb_has_root(slice.verb) ? slice.n * 2 / 3 : 0;
    if (slice.n >= 500 && grows_with_square(algorithm, &slice))
        return;
    for (size_t i = first; i <= last; i += slice.n >= MANY ? 2 : 1) {
        slice.count = counts[i];
        prove_cuts(algorithm, slice);
    }
}

static void test_samples_to_1024(void **state)
{
    for (size_t i = 0; i < larges; i++)
        for_each_algorithm(prove_sample, large_n[i]);
}

static void test_find(void **state)
{
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        assert_ptr_equal(gyre_algorithm_find((*it)->name), *it);
    assert_null(gyre_algorithm_find("rin"));
    assert_null(gyre_algorithm_find(""));
}

/* A round that is given more than it has room for says so, and writes nothing behind its arrays. */
static void test_overflow(void **state)
{
    struct gyre_step step[2] = {0};
    struct gyre_place source[2] = {0};
    struct gyre_round round = {.step = step, .source = source, .step_max = 1, .source_max = 1};

    gyre_round_reduce(&round, gyre_at(GYRE_OUTPUT, 0), 4, 0);
    gyre_round_source(&round, gyre_at(GYRE_INPUT, 0));
    assert_false(round.overflow);
    gyre_round_source(&round, gyre_at(GYRE_INPUT, 4));
    assert_true(round.overflow);
    assert_int_equal(round.sources, 1);

    gyre_round_clear(&round);
    assert_false(round.overflow);
    gyre_round_send(&round, 1, gyre_at(GYRE_INPUT, 0), 4);
    gyre_round_copy(&round, gyre_at(GYRE_OUTPUT, 0), gyre_at(GYRE_INPUT, 8), 4);
    assert_true(round.overflow);
    assert_int_equal(round.steps, 1);
    assert_int_equal(step[0].sources, 0);
    assert_int_equal(step[1].length, 0);
    assert_int_equal(source[1].offset, 0);
}

int main(void)
{
    spare_time();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_every_n_to_16),
        cmocka_unit_test(test_element_sizes),
        cmocka_unit_test(test_samples_to_1024),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
