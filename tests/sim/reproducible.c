/* GYRE_REPRODUCIBLE=1 over the simulator at 2 to 64 ranks, more than real processes are asked with:
 * f32 sums that no order of additions leaves exact have the bits of the left fold over ranks
 * 0 … n-1, whole and cut, by the algorithm that is chosen and by the chain, on nodes of one and of
 * several ranks. In haste fewer ranks. Without the mode the same sums have other bits. */
#include "sim/comm_sim.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <string.h>

#define MOST 20011

static float left_fold[MOST];
static uint64_t others; /* elements with other bits, on all ranks */

/* Magnitudes from 2^-5 to 2^6 with full mantissas and both signs. */
static float part(uint32_t rank, uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + (rank + 1) * 0xd1b54a32d192ed03u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    uint32_t bits = (uint32_t)(x & 0x807fffff) | (122 + (uint32_t)(x >> 40) % 12) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void fold(uint32_t n)
{
    for (uint64_t i = 0; i < MOST; i++) {
        left_fold[i] = part(0, i);
        for (uint32_t rank = 1; rank < n; rank++)
            left_fold[i] += part(rank, i);
    }
}

static void compare(const float *sum, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        others += memcmp(&sum[i], &left_fold[first + i], sizeof *sum) != 0;
}

/* Every verb that sums. */
static void sum(struct gyre_comm *comm, struct comm_sim *sim)
{
    static const uint64_t counts[] = {1, 601, MOST};
    uint32_t me = (uint32_t)gyre_rank(comm), root = sim->n / 3;
    float *in = malloc(MOST * sizeof *in), *out = malloc(MOST * sizeof *out);
    for (uint64_t i = 0; i < MOST; i++)
        in[i] = part(me, i);
    for (int c = 0; c < 3; c++) {
        uint64_t block = counts[c] / sim->n;
        must(gyre_all_reduce(comm, in, out, counts[c], GYRE_F32, GYRE_SUM), comm, "all_reduce");
        compare(out, 0, counts[c]);
        must(gyre_reduce(comm, in, out, counts[c], GYRE_F32, GYRE_SUM, (int)root), comm, "reduce");
        compare(out, 0, me == root ? counts[c] : 0);
        must(gyre_reduce_scatter(comm, in, out, block, GYRE_F32, GYRE_SUM), comm, "reduce_scatter");
        compare(out, me * block, block);
    }
    free(in);
    free(out);
}

static uint64_t run(uint32_t n, uint32_t per_node, const char *algorithm, const char *slice)
{
    struct comm_sim sim = {.n = n, .per_node = per_node, .seed = n, .body = sum};
    setenv("GYRE_ALGO", algorithm, 1);
    setenv("GYRE_SLICE", slice, 1);
    fold(n);
    others = 0;
    comm_sim_run(&sim);
    return others;
}

static void bits_are_the_left_fold(void **state)
{
    static const uint32_t ns[] = {2, 3, 7, 16, 31};
    (void)state;
    setenv("GYRE_REPRODUCIBLE", "1", 1);
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i += in_haste() ? 2 : 1) {
        assert_int_equal(run(ns[i], 1, "", i % 2 ? "" : "16K"), 0);
        assert_int_equal(run(ns[i], 1, "all_reduce:chain", "64K"), 0);
        if (ns[i] > 3)
            assert_int_equal(run(ns[i], 3, "", "64K"), 0);
    }
    assert_int_equal(run(64, 1, "", ""), 0);
    assert_int_equal(run(64, 8, "", "64K"), 0);
    unsetenv("GYRE_REPRODUCIBLE");
}

static void other_orders_show(void **state)
{
    (void)state;
    assert_true(run(16, 1, "", "") > 16 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_left_fold),
        cmocka_unit_test(other_orders_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
