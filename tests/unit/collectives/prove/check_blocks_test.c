/* Blocks of unequal length are proved and played: every algorithm that builds them, every n to 16
 * and some beyond, with blocks that are empty, in any order and with gaps between them, whole and
 * cut into slices. In haste 1 to 5, 8, 11 and 16 ranks, then 33 and 100. */
#include "rig/haste.h"

#include "collectives/algorithms/table.h"
#include "collectives/prove/check.h"
#include "collectives/prove/play.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 100

/* -- tables ------------------------------------------------------------------------------------ */

enum lengths { NOTHING, ONE_BLOCK, SOME_EMPTY, PRIMES, LARGE, LENGTHS };
enum order { PACKED, BACKWARDS, WITH_GAPS, ORDERS };

/* Elements that rank `from` has for rank `to`, the same backwards. */
static uint64_t length(enum lengths lengths, uint32_t from, uint32_t to)
{
    static const uint64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 97, 131, 1009, 4099};
    uint32_t mix = from * to + from + to;
    switch (lengths) {
    case NOTHING:
        return 0;
    case ONE_BLOCK:
        return from == 1 && to == 1 ? 7 : 0;
    case SOME_EMPTY:
        return mix % 3 == 0 ? 0 : mix % 5;
    case PRIMES:
        return primes[mix % 11];
    default:
        return mix % 4 == 0 ? 0 : 1000003 * (uint64_t)(mix % 7);
    }
}

struct tables {
    uint32_t n;
    struct gyre_slice of_rank[RANKS_MAX];
    uint64_t at[2][RANKS_MAX][RANKS_MAX], count[2][RANKS_MAX][RANKS_MAX];
};

static void lay_out(uint64_t *at, const uint64_t *count, uint32_t n, enum order order)
{
    uint64_t next = order == WITH_GAPS ? 3 : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t block = order == BACKWARDS ? n - 1 - i : i;
        at[block] = next;
        next += count[block] + (order == WITH_GAPS ? 5 * (i % 3) : 0);
    }
}

/* An all-to-all has tables of its own on every rank; of the other verbs they are the same on all,
 * and say what rank i has for all, or all have for it. */
static void fill(struct tables *t, struct gyre_slice slice, enum lengths lengths, enum order order)
{
    bool all_to_all = slice.verb == GYRE_VERB_ALL_TO_ALL;
    t->n = slice.n;
    for (uint32_t rank = 0; rank < t->n; rank++) {
        for (uint32_t peer = 0; peer < t->n; peer++)
            t->count[0][rank][peer] = t->count[1][rank][peer] =
                all_to_all ? length(lengths, rank, peer) : length(lengths, peer, peer);
        lay_out(t->at[0][rank], t->count[0][rank], t->n, order);
        lay_out(t->at[1][rank], t->count[1][rank], t->n, order);
        slice.rank = rank;
        if (gyre_verb_scatters(slice.verb))
            slice.in = (struct gyre_blocks){t->at[0][rank], t->count[0][rank]};
        if (gyre_verb_gathers(slice.verb))
            slice.out = (struct gyre_blocks){t->at[1][rank], t->count[1][rank]};
        t->of_rank[rank] = slice;
    }
}

/* -- proved ------------------------------------------------------------------------------------ */

static void prove(const struct gyre_algorithm *algorithm, struct tables *t)
{
    struct gyre_trouble trouble = {0};
    for (int way = 0; way < 3; way++) {
        for (uint32_t rank = 0; rank < t->n; rank++)
            t->of_rank[rank].in_place = way == 1 || (way == 2 && rank % 2 == 1);
        if (gyre_check_ranks(algorithm, t->of_rank, &trouble) != 0)
            fail_msg("%s", trouble.text);
    }
}

static void play(const struct gyre_algorithm *algorithm, const struct tables *t)
{
    static const enum gyre_play_in_place in_place[] = {GYRE_PLAY_NOBODY, GYRE_PLAY_ODD_RANKS,
                                                       GYRE_PLAY_EVERYBODY};
    for (int way = 0; way < 3; way++) {
        struct gyre_play_options options = {
            .in_place = in_place[way], .seed = (uint64_t)way, .of_rank = t->of_rank};
        struct gyre_play play;
        struct gyre_trouble trouble = {0};
        assert_int_equal(gyre_play_init(&play, algorithm, &t->of_rank[0], &options), 0);
        while (play.round < play.rounds)
            if (gyre_play_round(&play, &trouble) != 0)
                fail_msg("%s: %s", algorithm->name, trouble.text);
        if (gyre_play_check(&play, &trouble) != 0)
            fail_msg("%s: %s", algorithm->name, trouble.text);
        gyre_play_deinit(&play);
    }
}

/* Whole, and the slices of 64 elements that a block of 131 falls into. */
static void prove_slices(const struct gyre_algorithm *algorithm, struct gyre_slice slice,
                         enum lengths lengths, enum order order)
{
    static struct tables t;
    slice.count = 6 * 1000003;
    fill(&t, slice, lengths, order);
    if (!gyre_algorithm_builds(algorithm, &t.of_rank[0]))
        return;
    prove(algorithm, &t);
    if (lengths < LARGE && slice.n <= 16)
        play(algorithm, &t);
    for (slice.first = 0, slice.count = 64; slice.first < 192; slice.first += 64) {
        fill(&t, slice, lengths, order);
        prove(algorithm, &t);
    }
}

/* What is summed has blocks of equal length everywhere. */
static void prove_all(uint32_t n)
{
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        for (unsigned verb = 0; verb < GYRE_VERBS; verb++) {
            struct gyre_slice slice = {.verb = verb, .n = n, .element = 4};
            slice.root = gyre_verb_has_root(slice.verb) ? n / 2 : 0;
            if (gyre_verb_reduces(slice.verb) || verb == GYRE_VERB_BROADCAST ||
                !((*it)->verbs >> verb & 1))
                continue;
            for (unsigned i = 0; i < LENGTHS * ORDERS; i++)
                if (n <= 16 || i % 4 == 0)
                    prove_slices(*it, slice, i / ORDERS, i % ORDERS);
        }
}

static void test_every_n_to_16(void **state)
{
    for (uint32_t n = 1; n <= 16; n++)
        if (!in_haste() || n <= 5 || n == 8 || n == 11 || n == 16)
            prove_all(n);
}

static void test_samples(void **state)
{
    static const uint32_t ns[] = {33, 64, 67, RANKS_MAX};
    const size_t step = in_haste() ? 3 : 1;
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i += step)
        prove_all(ns[i]);
}

/* -- refused ----------------------------------------------------------------------------------- */

static void test_tables_must_agree(void **state)
{
    static struct tables t;
    struct gyre_trouble trouble = {0};
    struct gyre_slice slice = {.verb = GYRE_VERB_ALL_TO_ALL, .n = 5, .element = 4, .count = 5000};
    fill(&t, slice, PRIMES, WITH_GAPS);
    t.count[0][3][1]++;
    assert_int_equal(gyre_check_ranks(gyre_algorithm_find("direct"), t.of_rank, &trouble),
                     GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "for rank 1, which wants"));
}

/* A block one element longer than its neighbour leaves room for. */
static void test_blocks_must_not_overlap(void **state)
{
    static struct tables t;
    struct gyre_trouble trouble = {0};
    struct gyre_slice slice = {.verb = GYRE_VERB_ALL_GATHER, .n = 5, .element = 4, .count = 5000};
    fill(&t, slice, PRIMES, PACKED);
    for (uint32_t rank = 0; rank < 5; rank++)
        t.count[1][rank][2]++;
    assert_int_equal(gyre_check_ranks(gyre_algorithm_find("direct"), t.of_rank, &trouble),
                     GYRE_INVALID);
}

static void test_unequal_blocks_do_not_suit_all(void **state)
{
    static struct tables t;
    struct gyre_trouble trouble = {0};
    struct gyre_slice slice = {.verb = GYRE_VERB_ALL_TO_ALL, .n = 5, .element = 4, .count = 5000};
    fill(&t, slice, PRIMES, PACKED);
    assert_int_equal(gyre_check_ranks(gyre_algorithm_find("bruck"), t.of_rank, &trouble),
                     GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "does not build"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_n_to_16),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_tables_must_agree),
        cmocka_unit_test(test_blocks_must_not_overlap),
        cmocka_unit_test(test_unequal_blocks_do_not_suit_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
