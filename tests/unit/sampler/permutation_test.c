/* The Mersenne Twister and the three shuffles, against torch, numpy and scikit-learn. */
#include "unit/sampler/order_digest.h"
#include "sampler/permutation.h"

static void draws_are_mt19937s(void **state)
{
    struct gyre_mt19937 mt;
    uint32_t draw[2000];
    (void)state;
    gyre_mt19937_seed(&mt, 0);
    for (int i = 0; i < 2000; i++)
        draw[i] = gyre_mt19937_next32(&mt);
    assert_int_equal(draw[0], 2357136044u);
    assert_int_equal(draw[1], 2546248239u);
    assert_int_equal(draw[2], 3071714933u);
    assert_int_equal(draw[623], 3791854820u);
    assert_int_equal(draw[624], 341544762u);
    assert_int_equal(draw[1999], 3856691381u);
    gyre_mt19937_seed(&mt, 0);
    assert_true(gyre_mt19937_next64(&mt) == ((uint64_t)draw[0] << 32 | draw[1]));
}

typedef void (*shuffle)(struct gyre_permutation *order, struct gyre_mt19937 *mt);

/* Shuffles n numbers into `list`, by entries of 4 and of 8 bytes, which must not matter. */
static void shuffled(shuffle by, uint64_t n, uint32_t seed, uint64_t *list)
{
    struct gyre_permutation order, wide = {.n = n, .wide = malloc(8 * n)};
    struct gyre_mt19937 mt;
    assert_int_equal(gyre_permutation_init(&order, n, NULL), 0);
    gyre_mt19937_seed(&mt, seed);
    by(&order, &mt);
    gyre_mt19937_seed(&mt, seed);
    by(&wide, &mt);
    for (uint64_t i = 0; i < n; i++) {
        list[i] = gyre_permutation_at(&order, i);
        assert_int_equal(gyre_permutation_at(&wide, i), list[i]);
    }
    gyre_permutation_deinit(&order);
    gyre_permutation_deinit(&wide);
}

static void expect_order(shuffle by, uint64_t n, uint32_t seed, const uint64_t *expected)
{
    uint64_t list[16];
    shuffled(by, n, seed, list);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(list[i], expected[i]);
}

static void expect_digest(shuffle by, uint64_t n, uint32_t seed, uint64_t digest)
{
    uint64_t *list = malloc(n * sizeof *list);
    shuffled(by, n, seed, list);
    assert_int_equal(order_digest(list, n), digest);
    free(list);
}

static void randperm_is_torchs(void **state)
{
    static const uint64_t seed_0[] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2},
                          seed_1[] = {5, 6, 1, 2, 0, 8, 9, 3, 7, 4},
                          seed_42[] = {2, 6, 1, 8, 4, 5, 0, 9, 3, 7};
    (void)state;
    expect_order(gyre_permutation_randperm, 10, 0, seed_0);
    expect_order(gyre_permutation_randperm, 10, 1, seed_1);
    expect_order(gyre_permutation_randperm, 10, 42, seed_42);
    expect_order(gyre_permutation_randperm, 1, 0, (const uint64_t[]){0});
    expect_digest(gyre_permutation_randperm, 142, 0, 0x488a108ba0ca90d4);
    expect_digest(gyre_permutation_randperm, 142, 1, 0xf7b41670a81b8349);
    expect_digest(gyre_permutation_randperm, 1000, 0, 0xcee4a88ef6120e8e);
    expect_digest(gyre_permutation_randperm, 60000, 0, 0x4c226c41bdd65c9e);
    expect_digest(gyre_permutation_randperm, 60000, 1, 0x1e8385d7899b4c8f);
}

/* The rule for n that no test has memory for, on small ones; the values are those of its text. */
static void large_orders_are_shuffled_inside_out(void **state)
{
    static const uint64_t seed_0[] = {8, 2, 6, 3, 5, 1, 0, 9, 7, 4},
                          seed_1[] = {8, 4, 2, 0, 7, 5, 3, 6, 9, 1},
                          seed_42[] = {6, 0, 5, 8, 7, 2, 3, 1, 9, 4};
    (void)state;
    assert_false(gyre_permutation_is_inside_out(214748363));
    assert_true(gyre_permutation_is_inside_out(214748364));
    expect_order(gyre_permutation_inside_out, 10, 0, seed_0);
    expect_order(gyre_permutation_inside_out, 10, 1, seed_1);
    expect_order(gyre_permutation_inside_out, 10, 42, seed_42);
    expect_digest(gyre_permutation_inside_out, 1000, 0, 0xbedfb66d92f371d7);
}

static void the_permutation_of_numpy_cuts_wine(void **state)
{
    static const uint64_t seed_42[] = {8, 1, 5, 0, 7, 2, 9, 4, 3, 6};
    static const uint64_t test[] = {19,  45,  140, 30,  67,  16, 119, 174, 109, 141, 24, 150,
                                    41,  118, 15,  111, 113, 82, 9,   114, 18,  66,  60, 169,
                                    171, 164, 117, 65,  90,  55, 29,  128, 145, 31,  12, 42};
    uint64_t row[178];
    (void)state;
    expect_order(gyre_permutation_numpy, 10, 42, seed_42);
    expect_digest(gyre_permutation_numpy, 1000, 7, 0x76c3562ef12ad2e5);
    shuffled(gyre_permutation_numpy, 178, 42, row);
    assert_memory_equal(row, test, sizeof test);
    assert_int_equal(row[36], 158);
    assert_int_equal(row[177], 102);
    assert_int_equal(order_digest(row + 36, 142), 0x66aef928c3890ee4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_mt19937s),
        cmocka_unit_test(randperm_is_torchs),
        cmocka_unit_test(large_orders_are_shuffled_inside_out),
        cmocka_unit_test(the_permutation_of_numpy_cuts_wine),
    };
    return cmocka_run_group_tests_name("permutation", tests, NULL, NULL);
}
