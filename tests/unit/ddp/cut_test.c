/* Cutting parameters into buckets: order, limits, types, places. */
#include "ddp/cut.h"

#include "base/rng.h"
#include "rig/test.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MOST 64

static struct gyre_cut cut_of(const struct gyre_cut_item *item, uint32_t items,
                              const uint32_t *order, uint64_t first, uint64_t cap, uint64_t unit)
{
    struct gyre_cut cut;
    struct gyre_cut_limits limits = {first, cap, unit};
    assert_int_equal(gyre_cut_make(&cut, item, items, order, &limits, NULL), 0);
    return cut;
}

/* A bucket closes when it has reached its limit, so it exceeds it by its last item at most. */
static void a_bucket_closes_at_its_limit(void **state)
{
    static const struct gyre_cut_item item[] = {
        {10, GYRE_F32}, {20, GYRE_F32}, {30, GYRE_F32}, {40, GYRE_F32}, {50, GYRE_F32}};
    static const uint32_t backwards[] = {4, 3, 2, 1, 0};
    (void)state;
    struct gyre_cut cut = cut_of(item, 5, backwards, 100, 240, 1);
    assert_int_equal(cut.buckets, 3);
    assert_int_equal(cut.bucket[0].items, 1); /* 200 bytes: the first is over 100 at once */
    assert_int_equal(cut.bucket[1].items, 2); /* 160, then 280 */
    assert_int_equal(cut.bucket[2].items, 2);
    assert_int_equal(cut.bucket_of[4], 0);
    assert_int_equal(cut.bucket_of[2], 1);
    assert_int_equal(cut.bucket_of[0], 2);
    assert_int_equal(cut.at[2] - cut.at[3], 160);
    gyre_cut_deinit(&cut);
}

static void types_go_to_buckets_of_their_own(void **state)
{
    static const struct gyre_cut_item item[] = {
        {4, GYRE_F32}, {4, GYRE_F64}, {4, GYRE_F32}, {4, GYRE_F64}};
    static const uint32_t order[] = {0, 1, 2, 3};
    (void)state;
    struct gyre_cut cut = cut_of(item, 4, order, 1000, 1000, 1);
    assert_int_equal(cut.buckets, 2);
    assert_int_equal(cut.bucket[0].type, GYRE_F32);
    assert_int_equal(cut.bucket[1].type, GYRE_F64);
    assert_int_equal(cut.at[2] - cut.at[0], 16);
    assert_int_equal(cut.at[3] - cut.at[1], 32);
    gyre_cut_deinit(&cut);
}

static void nothing_is_cut_into_nothing(void **state)
{
    static const struct gyre_cut_item empty[] = {{0, GYRE_F32}};
    static const uint32_t order[] = {0};
    (void)state;
    struct gyre_cut cut = cut_of(NULL, 0, NULL, 1, 1, 1);
    assert_int_equal(cut.buckets, 0);
    assert_int_equal(cut.bytes, 0);
    gyre_cut_deinit(&cut);
    cut = cut_of(empty, 1, order, 1, 1, 1);
    assert_int_equal(cut.buckets, 1);
    assert_int_equal(cut.bucket[0].elements, 0);
    gyre_cut_deinit(&cut);
}

/* For any sizes and order: every byte of every item once, inside its bucket, buckets apart. */
static void check_places(const struct gyre_cut *cut, const struct gyre_cut_item *item,
                         uint64_t unit)
{
    bool met[MOST] = {false};
    uint64_t free_from = 0;
    for (uint32_t b = 0; b < cut->buckets; b++) {
        const struct gyre_bucket *bucket = &cut->bucket[b];
        uint64_t size = gyre_type_size(bucket->type), next = bucket->at;
        assert_true(bucket->at >= free_from && bucket->at % 256 == 0);
        assert_int_equal(bucket->elements % unit, 0);
        for (uint32_t k = 0; k < bucket->items; k++) {
            uint32_t i = cut->order[bucket->first + k];
            assert_false(met[i]);
            met[i] = true;
            assert_int_equal(item[i].type, bucket->type);
            assert_int_equal(cut->bucket_of[i], b);
            assert_int_equal(cut->at[i], next);
            next += item[i].elements * size;
        }
        free_from = bucket->at + bucket->elements * size;
        assert_true(next <= free_from && free_from <= cut->bytes);
    }
    for (uint32_t i = 0; i < cut->items; i++)
        assert_true(met[i]);
}

static void places_never_overlap(void **state)
{
    struct gyre_rng rng;
    (void)state;
    gyre_rng_seed(&rng, 7);
    for (int round = 0; round < 3000; round++) {
        struct gyre_cut_item item[MOST];
        uint32_t order[MOST], items = (uint32_t)(gyre_rng_next(&rng) % MOST);
        uint64_t unit = 1 + gyre_rng_next(&rng) % 64;
        for (uint32_t i = 0; i < items; i++) {
            item[i].elements = gyre_rng_next(&rng) % (i % 3 ? 50 : 5000);
            item[i].type = gyre_rng_next(&rng) % 4 ? GYRE_F32 : GYRE_F64;
            uint32_t j = (uint32_t)(gyre_rng_next(&rng) % (i + 1));
            order[i] = order[j];
            order[j] = i;
        }
        struct gyre_cut cut = cut_of(item, items, order, gyre_rng_next(&rng) % 4000,
                                     gyre_rng_next(&rng) % 20000, unit);
        check_places(&cut, item, unit);
        gyre_cut_deinit(&cut);
    }
}

static void absurd_sizes_are_refused(void **state)
{
    static const struct gyre_cut_item item[] = {{UINT64_MAX / 4, GYRE_F32},
                                                {UINT64_MAX / 4, GYRE_F32}};
    static const uint32_t order[] = {0, 1};
    struct gyre_cut_limits limits = {1, 1, 1};
    struct gyre_trouble trouble = {0};
    struct gyre_cut cut;
    (void)state;
    assert_int_equal(gyre_cut_make(&cut, item, 2, order, &limits, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "memory"));
    assert_null(cut.order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_closes_at_its_limit),
        cmocka_unit_test(types_go_to_buckets_of_their_own),
        cmocka_unit_test(nothing_is_cut_into_nothing),
        cmocka_unit_test(places_never_overlap),
        cmocka_unit_test(absurd_sizes_are_refused),
    };
    return cmocka_run_group_tests_name("buckets", tests, NULL, NULL);
}
