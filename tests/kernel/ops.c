/* Every set of the model's arithmetic against the plain one, bit for bit, and the plain one against
 * formulas in double; and how fast each of them is.
 *
 *     arena     span 0        span 1        span 2        span 3        results
 *               ..xxxxxxx..   ..xxxxxxx..   ..xxxxxxx..   ..xxxxxxx..   4 doubles
 *
 * A trial fills an arena from a seed, with ordinary numbers or with extreme ones, and some more of
 * them behind, each span shifted by some floats; one entry runs on a copy of it; then whole arenas
 * are compared, so that a write beside a span is seen too. `kernel/ops --bench` times the same
 * calls instead. */
#include "base/clock.h"
#include "base/small_floats.h"
#include "base/rng.h"
#include "model/kernels/ops.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MOST 5000
#define MARGIN     32
#define SPANS      4

struct arena {
    float span[SPANS][COUNT_MOST + 2 * MARGIN];
    double result[4];
};

struct trial {
    size_t count, shift[SPANS];
    uint64_t seed;
    bool extreme;
};

static struct arena plain, other;

static float *at(struct arena *arena, const struct trial *trial, int span)
{
    return arena->span[span] + MARGIN + trial->shift[span];
}

/* -- what a trial holds ------------------------------------------------------------------------ */

static float ordinary(struct gyre_rng *rng)
{
    return (float)((double)(gyre_rng_next(rng) >> 11) * 0x1p-52 * 4 - 4);
}

static float extreme(struct gyre_rng *rng)
{
    static const float value[] = {0.0f,        -0.0f,       INFINITY, -INFINITY,        NAN,
                                  0x1p-149f,   -0x1p-130f,  0x1p127f, -0x1.fffffep127f, 65504.0f,
                                  65519.9f,    65520.0f,    0x1p-24f, 0x1p-25f,         0x1.8p-25f,
                                  1.00390625f, 1.01171875f, -87.3f,   -88.0f,           88.0f};
    if (gyre_rng_below(rng, 3) == 0)
        return value[gyre_rng_below(rng, sizeof value / sizeof *value)];
    return gyre_f32_of_bits((uint32_t)gyre_rng_next(rng));
}

static void fill(struct arena *arena, const struct trial *trial)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, trial->seed);
    memset(arena, 0, sizeof *arena);
    for (int s = 0; s < SPANS; s++)
        for (size_t i = 0; i < trial->count + 3 * MARGIN; i++)
            arena->span[s][i] = trial->extreme ? extreme(&rng) : ordinary(&rng);
}

static struct trial random_trial(struct gyre_rng *rng, size_t count)
{
    struct trial trial = {.count = count, .seed = gyre_rng_next(rng)};
    trial.extreme = gyre_rng_below(rng, 2) == 0;
    for (int s = 0; s < SPANS; s++)
        trial.shift[s] = gyre_rng_below(rng, MARGIN);
    return trial;
}

/* -- one call of each entry -------------------------------------------------------------------- */

static const struct gyre_update constants = {
    .factor = 0.5f,
    .rate = 0.01f,
    .weight_decay = 0.02f,
    .momentum = 0.9f,
    .fresh = 0.75f,
    .beta1 = 0.9f,
    .beta2 = 0.999f,
    .rest1 = 0.1f,
    .rest2 = 0.001f,
    .root_of_bias2 = 0.03f,
    .epsilon = 1e-8f,
};

#define RUN(name)                                                                                  \
    static void name(const struct gyre_ops *ops, const struct trial *t, struct arena *a)
#define X at(a, t, 0)
#define Y at(a, t, 1)
#define M at(a, t, 2)
#define V at(a, t, 3)

static size_t columns_of(const struct trial *t)
{
    return t->count < 7 ? t->count : 1 + t->seed % (t->count / 3);
}

static void run_bias(const struct gyre_ops *ops, const struct trial *t, struct arena *a, bool relu)
{
    size_t columns = columns_of(t);
    if (columns)
        ops->add_bias(Y, X, t->count / columns, columns, relu);
}

RUN(run_add_bias)
{
    run_bias(ops, t, a, false);
}

RUN(run_add_bias_relu)
{
    run_bias(ops, t, a, true);
}

RUN(run_relu)
{
    ops->relu(Y, X, t->count);
}

RUN(run_relu_in_place)
{
    ops->relu(X, X, t->count);
}

RUN(run_relu_back)
{
    ops->relu_back(M, X, Y, t->count);
}

RUN(run_column_sums)
{
    size_t columns = columns_of(t);
    if (columns)
        ops->column_sums(Y, X, t->count / columns, columns, t->seed & 1);
}

RUN(run_softmax)
{
    if (!t->count)
        return;
    struct gyre_softmax row = ops->softmax(Y, X, t->count, t->seed % t->count, 0.25f);
    a->result[0] = (double)row.greatest;
    a->result[1] = (double)row.sum;
}

RUN(run_sum)
{
    a->result[0] = ops->sum(X, t->count);
}

RUN(run_squares)
{
    a->result[0] = ops->squares(X, 0.3, t->count);
}

RUN(run_dot)
{
    a->result[0] = ops->dot(X, Y, 0.3, t->count);
}

RUN(run_affine)
{
    ops->affine(Y, X, 0.3f, 0.7f, t->count);
}

RUN(run_combine)
{
    ops->combine(Y, Y, 0.1f, X, 0.3f, 0.7f, 0.2f, t->count);
}

RUN(run_round_bf16)
{
    ops->round_bf16(X, X, t->count);
}

RUN(run_round_f16)
{
    ops->round_f16(Y, X, t->count);
}

RUN(run_is_finite)
{
    a->result[0] = ops->is_finite(X, t->count);
}

RUN(run_sgd)
{
    struct gyre_update update = constants;
    update.nesterov = t->seed & 1;
    update.first = t->seed & 2;
    update.momentum = t->seed & 12 ? 0.9f : 0;
    ops->sgd(X, Y, M, NULL, t->count, &update);
}

RUN(run_adam)
{
    ops->adam(X, Y, M, V, t->count, &constants);
}

RUN(run_adamw)
{
    ops->adamw(X, Y, M, V, t->count, &constants);
}

static const struct entry {
    const char *name;
    void (*run)(const struct gyre_ops *ops, const struct trial *trial, struct arena *arena);
    double bytes; /* moved for each element */
} entries[] = {
    {"add_bias", run_add_bias, 8},
    {"add_bias_relu", run_add_bias_relu, 8},
    {"relu", run_relu, 8},
    {"relu_in_place", run_relu_in_place, 8},
    {"relu_back", run_relu_back, 12},
    {"column_sums", run_column_sums, 4},
    {"softmax", run_softmax, 8},
    {"sum", run_sum, 4},
    {"squares", run_squares, 4},
    {"dot", run_dot, 8},
    {"affine", run_affine, 8},
    {"combine", run_combine, 12},
    {"round_bf16", run_round_bf16, 8},
    {"round_f16", run_round_f16, 8},
    {"is_finite", run_is_finite, 4},
    {"sgd", run_sgd, 20},
    {"adam", run_adam, 28},
    {"adamw", run_adamw, 28},
    {NULL, NULL, 0},
};

/* -- comparing --------------------------------------------------------------------------------- */

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || gyre_bits_of_f32(a) == gyre_bits_of_f32(b);
}

static bool same_double(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void compare(const char *variant, const char *name, const struct trial *t)
{
    if (memcmp(&plain, &other, sizeof plain) == 0)
        return;
    for (int s = 0; s < SPANS; s++)
        for (size_t i = 0; i < sizeof plain.span[0] / sizeof(float); i++)
            if (!same_float(plain.span[s][i], other.span[s][i]))
                fail_msg("%s %s, count %zu, seed %#llx: span %d at %zd is %a, plain %a", variant,
                         name, t->count, (unsigned long long)t->seed, s,
                         (ssize_t)i - MARGIN - (ssize_t)t->shift[s], (double)other.span[s][i],
                         (double)plain.span[s][i]);
    for (int r = 0; r < 4; r++)
        if (!same_double(plain.result[r], other.result[r]))
            fail_msg("%s %s, count %zu: result %d is %a, plain %a", variant, name, t->count, r,
                     other.result[r], plain.result[r]);
}

static void check_trial(const struct gyre_ops *ops, const struct entry *entry,
                        const struct trial *t)
{
    fill(&plain, t);
    memcpy(&other, &plain, sizeof other);
    entry->run(gyre_ops_variants[0].ops, t, &plain);
    entry->run(ops, t, &other);
    compare(ops->variant, entry->name, t);
}

static void test_sets_agree(void **state)
{
    static const size_t large[] = {
        127, 128, 129, 1000, 1023, 4095, 4096, 4097, COUNT_MOST - MARGIN};
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 7);
    for (int v = 1; gyre_ops_variants[v].ops; v++) {
        if (!gyre_ops_variants[v].supported())
            continue; /* counted by test_no_set_is_left_out() */
        for (const struct entry *entry = entries; entry->name; entry++) {
            for (size_t count = 0; count < 68 + sizeof large / sizeof *large; count++) {
                for (int repeat = 0; repeat < 3; repeat++) {
                    struct trial t = random_trial(&rng, count < 68 ? count : large[count - 68]);
                    check_trial(gyre_ops_variants[v].ops, entry, &t);
                }
            }
        }
    }
}

/* Counts the sets that the test before could not run. */
static void test_no_set_is_left_out(void **state)
{
    int missing = 0;
    (void)state;
    for (int v = 1; gyre_ops_variants[v].ops; v++)
        if (!gyre_ops_variants[v].supported()) {
            print_message("skipped: this CPU has no %s\n", gyre_ops_variants[v].ops->variant);
            missing++;
        }
    if (missing)
        skip();
}

/* -- the plain set against formulas ------------------------------------------------------------ */

static const struct gyre_ops *ops;

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance * (1e-30 + fabs(wanted))))
        fail_msg("%.17g is not within %g of %.17g", got, tolerance, wanted);
}

/* With two classes and label 0, the other's gradient is e^-x / (1 + e^-x) and the sum 1 + e^-x. */
static void test_exponential(void **state)
{
    for (double x = 0; x < 87.3; x += 0.00917) {
        float logits[2] = {0, (float)-x}, gradient[2];
        struct gyre_softmax row = ops->softmax(gradient, logits, 2, 0, 1);
        double wanted = exp((double)logits[1]);
        assert_near((double)row.sum, 1 + wanted, 0x1p-23);
        assert_near((double)gradient[1], wanted / (1 + wanted), 4 * 0x1p-23);
    }
}

static void test_softmax_of_extremes(void **state)
{
    float gradient[3];
    struct gyre_softmax row = ops->softmax(gradient, (float[]){-INFINITY, 3, -200}, 3, 1, 1);
    assert_true(row.greatest == 3 && row.sum == 1);
    assert_true(gradient[0] == 0 && gradient[1] == 0 && gradient[2] == 0);
    row = ops->softmax(gradient, (float[]){1, NAN, 0}, 3, 0, 1);
    assert_true(isnan(row.sum) && isnan(gradient[0]) && isnan(gradient[2]));
    row = ops->softmax(gradient, (float[]){1, INFINITY, 0}, 3, 0, 1);
    assert_true(isnan(row.sum));
}

static void test_sums(void **state)
{
    float x[1001], a[1001], columns[7] = {1, 1, 1, 1, 1, 1, 1};
    double sum = 0, squares = 0, dot = 0, column = 1;
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 1);
    for (int i = 0; i < 1001; i++) {
        x[i] = ordinary(&rng);
        a[i] = ordinary(&rng);
        sum += (double)x[i];
        squares += ((double)x[i] - 0.5) * ((double)x[i] - 0.5);
        dot += (double)a[i] * ((double)x[i] - 0.5);
        column += i % 7 == 3 ? (double)x[i] : 0;
    }
    assert_near(ops->sum(x, 1001), sum, 1e-13);
    assert_near(ops->squares(x, 0.5, 1001), squares, 1e-13);
    assert_near(ops->dot(a, x, 0.5, 1001), dot, 1e-13);
    ops->column_sums(columns, x, 143, 7, true);
    assert_near((double)columns[3], column, 1e-5);
    ops->column_sums(columns, x, 143, 7, false);
    assert_near((double)columns[3], column - 1, 1e-5);
}

static void test_elements(void **state)
{
    float y[4] = {1, -2, 3, -4}, dx[3];
    ops->add_bias(y, (float[]){0.5f, 1}, 2, 2, false);
    assert_memory_equal(y, ((float[]){1.5f, -1, 3.5f, -3}), sizeof y);
    ops->add_bias(y, (float[]){1, 1}, 2, 2, true);
    assert_memory_equal(y, ((float[]){2.5f, 0, 4.5f, 0}), sizeof y);
    ops->relu_back(dx, (float[]){7, 8, 9}, (float[]){0, 1, NAN}, 3);
    assert_memory_equal(dx, ((float[]){0, 8, 9}), sizeof dx);
    ops->affine(y, y, 2, 0, 4);
    assert_memory_equal(y, ((float[]){5, 0, 9, 0}), sizeof y);
    ops->combine(y, y, 2, (float[]){1, 2, 3, 4}, 1, 3, 4, 4); /* 2 y + 3 (x - 1) + 4 */
    assert_memory_equal(y, ((float[]){14, 7, 28, 13}), sizeof y);
    ops->relu(dx, (float[]){-1, NAN, 2}, 3);
    assert_true(dx[0] == 0 && isnan(dx[1]) && dx[2] == 2);
}

static void test_halves(void **state)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, 2);
    for (int i = 0; i < 100000; i++) {
        float x = extreme(&rng), bf16, f16;
        ops->round_bf16(&bf16, &x, 1);
        ops->round_f16(&f16, &x, 1);
        assert_true(same_float(bf16, gyre_f32_of_bf16(gyre_bf16_of_f32(x))));
        assert_true(same_float(f16, gyre_f32_of_f16(gyre_f16_of_f32(x))));
        assert_int_equal(ops->is_finite(&x, 1), isfinite(x) != 0);
    }
}

/* One step from 1 with gradient 2, worked out by hand. */
static void test_updates(void **state)
{
    float value = 1, gradient = 4, m = 0.5f, v = 0.25f;
    struct gyre_update u = constants;
    ops->sgd(&value, &gradient, &m, NULL, 1, &u); /* g = 2.02, m = 0.45 + 1.515 */
    assert_near((double)m, 1.965, 1e-6);
    assert_near((double)value, 1 - 0.01965, 1e-6);
    value = 1, m = 0.5f, u.nesterov = true; /* g + 0.9 m = 3.7885 */
    ops->sgd(&value, &gradient, &m, NULL, 1, &u);
    assert_near((double)value, 1 - 0.037885, 1e-6);
    value = 1, m = 77, u.first = true, u.fresh = 1, u.nesterov = false;
    ops->sgd(&value, &gradient, &m, NULL, 1, &u);
    assert_near((double)m, 2.02, 1e-6);
    value = 1, m = 0.5f;
    ops->adam(&value, &gradient, &m, &v, 1, &u); /* m = 0.652, v = 0.25383040 */
    assert_near((double)m, 0.652, 1e-6);
    assert_near((double)v, 0.2538304, 1e-6);
    assert_near((double)value, 1 - 0.01 * 0.652 * 0.03 / sqrt(0.2538304), 1e-6);
    value = 1, m = 0.5f, v = 0.25f;
    ops->adamw(&value, &gradient, &m, &v, 1, &u); /* m = 0.65, v = 0.25375 */
    assert_near((double)value, 0.98 - 0.01 * 0.65 * 0.03 / sqrt(0.25375), 1e-6);
}

/* -- speed ------------------------------------------------------------------------------------- */

/* Seconds of one call, the best of five runs of about two milliseconds. */
static double seconds_of(const struct gyre_ops *set, const struct entry *entry,
                         const struct trial *t)
{
    double best = 1;
    for (int run = 0; run < 5; run++) {
        int calls = 0;
        uint64_t start = gyre_now_ns(), now;
        do {
            for (int i = 0; i < 10; i++)
                entry->run(set, t, &other);
            calls += 10;
        } while ((now = gyre_now_ns()) < start + 2000000);
        double each = (double)(now - start) * 1e-9 / calls;
        best = each < best ? each : best;
    }
    return best;
}

static int bench(void)
{
    struct trial t = {.count = 4096, .seed = 1428}; /* 64 columns */
    printf("GB/s of 4096 elements, in cache\n%-16s", "");
    for (int v = 0; gyre_ops_variants[v].ops; v++)
        printf("%10s", gyre_ops_variants[v].ops->variant);
    for (const struct entry *entry = entries; entry->name; entry++) {
        printf("\n%-16s", entry->name);
        for (int v = 0; gyre_ops_variants[v].ops; v++) {
            fill(&other, &t);
            if (gyre_ops_variants[v].supported())
                printf("%10.1f", entry->bytes * 4096 * 1e-9 /
                                     seconds_of(gyre_ops_variants[v].ops, entry, &t));
        }
    }
    printf("\n");
    return 0;
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "--bench") == 0)
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_agree),  cmocka_unit_test(test_no_set_is_left_out),
        cmocka_unit_test(test_exponential), cmocka_unit_test(test_softmax_of_extremes),
        cmocka_unit_test(test_sums),        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_halves),      cmocka_unit_test(test_updates),
    };
    ops = gyre_ops_variants[0].ops;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
