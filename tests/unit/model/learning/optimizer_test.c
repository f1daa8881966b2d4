/* Optimisers against PyTorch's formulas, written out in double and run for several steps, and
 * against steps worked out by hand; parts of a range against the whole, bit for bit. */
#include "base/rng.h"
#include "model/learning/optimizer.h"
#include "rig/test.h"

#include <math.h>
#include <string.h>

#define COUNT 101

static struct gyre_rng rng;
static struct gyre_processor *on;

static float chance(void)
{
    return (float)((double)(gyre_rng_next(&rng) >> 11) * 0x1p-52 - 1);
}

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%.9g is not within %g of %.9g", got, tolerance, wanted);
}

/* -- the formulas ------------------------------------------------------------------------------ */

struct plain {
    double p, m, v;
};

static void plain_sgd(struct plain *x, double g, double lr, int t,
                      const struct gyre_optimizer_settings *s)
{
    g += s->weight_decay * x->p;
    if (s->momentum != 0) {
        x->m = t == 1 ? g : s->momentum * x->m + (1 - s->dampening) * g;
        g = s->nesterov ? g + s->momentum * x->m : x->m;
    }
    x->p -= lr * g;
}

static void plain_adam(struct plain *x, double g, double lr, int t,
                       const struct gyre_optimizer_settings *s)
{
    if (s->kind == GYRE_ADAMW)
        x->p *= 1 - lr * s->weight_decay;
    else
        g += s->weight_decay * x->p;
    x->m = s->beta1 * x->m + (1 - s->beta1) * g;
    x->v = s->beta2 * x->v + (1 - s->beta2) * g * g;
    double root = sqrt(x->v) / sqrt(1 - pow(s->beta2, t)) + s->epsilon;
    x->p -= lr / (1 - pow(s->beta1, t)) * x->m / root;
}

static void check_settings(const struct gyre_optimizer_settings *settings)
{
    struct gyre_optimizer *optimizer;
    struct plain plain[COUNT] = {0};
    float value[COUNT], gradient[COUNT];
    assert_int_equal(gyre_optimizer_create(&optimizer, on, settings, COUNT, NULL), 0);
    for (int i = 0; i < COUNT; i++)
        plain[i].p = (double)(value[i] = chance());
    for (int t = 1; t <= 20; t++) {
        double rate = 0.01 * t;
        gyre_optimizer_begin(optimizer, rate);
        for (int i = 0; i < COUNT; i++) {
            gradient[i] = chance() * 8;
            if (settings->kind == GYRE_SGD)
                plain_sgd(&plain[i], (double)gradient[i] / 8, rate, t, settings);
            else
                plain_adam(&plain[i], (double)gradient[i] / 8, rate, t, settings);
        }
        gyre_optimizer_apply(optimizer, 0, COUNT, value, gradient, 0.125f);
        for (int i = 0; i < COUNT; i++)
            assert_near((double)value[i], plain[i].p, 2e-5);
    }
    assert_int_equal(optimizer->steps, 20);
    gyre_optimizer_destroy(optimizer);
}

static void test_formulas(void **state)
{
    struct gyre_optimizer_settings s = gyre_optimizer_defaults(GYRE_SGD);
    check_settings(&s);
    s.weight_decay = 0.1;
    check_settings(&s);
    s.momentum = 0.9;
    check_settings(&s);
    s.dampening = 0.3;
    check_settings(&s);
    s.dampening = 0;
    s.nesterov = true;
    check_settings(&s);
    s = gyre_optimizer_defaults(GYRE_ADAM);
    check_settings(&s);
    s.weight_decay = 0.1;
    check_settings(&s);
    s = gyre_optimizer_defaults(GYRE_ADAMW);
    check_settings(&s);
}

/* An epsilon as large as the root shows where the formula adds it: 1e-8 stands in for 0. */
static void test_a_large_epsilon_is_added_to_the_corrected_root(void **state)
{
    for (int kind = GYRE_ADAM; kind <= GYRE_ADAMW; kind++) {
        struct gyre_optimizer_settings s = gyre_optimizer_defaults((enum gyre_optimizer_kind)kind);
        s.epsilon = 0.5;
        check_settings(&s);
    }
}

/* PyTorch's, which the help of the tool promises. */
static void test_defaults(void **state)
{
    for (int kind = GYRE_SGD; kind <= GYRE_ADAMW; kind++) {
        struct gyre_optimizer_settings s = gyre_optimizer_defaults((enum gyre_optimizer_kind)kind);
        assert_near(s.weight_decay, kind == GYRE_ADAMW ? 0.01 : 0, 0);
        assert_near(s.beta1, 0.9, 0);
        assert_near(s.beta2, 0.999, 0);
        assert_near(s.epsilon, 1e-8, 0);
        assert_near(s.momentum, 0, 0);
        assert_near(s.dampening, 0, 0);
        assert_false(s.nesterov);
    }
}

/* The first step of adam is the rate, whatever the gradient: 0.001 * 0.1 g / 0.1 / |g|. */
static void test_by_hand(void **state)
{
    struct gyre_optimizer_settings s = gyre_optimizer_defaults(GYRE_ADAM);
    struct gyre_optimizer *optimizer;
    float value[2] = {1, 1};
    assert_int_equal(gyre_optimizer_create(&optimizer, on, &s, 2, NULL), 0);
    gyre_optimizer_begin(optimizer, 0.001);
    gyre_optimizer_apply(optimizer, 0, 2, value, (float[]){1e-3f, -1e6f}, 1);
    assert_near((double)value[0], 0.999, 1e-7);
    assert_near((double)value[1], 1.001, 1e-7);
    assert_string_equal(optimizer->state_name[0], "exp_avg");
    assert_string_equal(optimizer->state_name[1], "exp_avg_sq");
    assert_near((double)optimizer->state[0][0], 1e-4, 1e-10);
    gyre_optimizer_destroy(optimizer);
    s = gyre_optimizer_defaults(GYRE_SGD);
    s.momentum = 0.5;
    assert_int_equal(gyre_optimizer_create(&optimizer, on, &s, 1, NULL), 0);
    for (int t = 0; t < 3; t++) { /* m: 1, 1.5, 1.75 */
        gyre_optimizer_begin(optimizer, 0.25);
        gyre_optimizer_apply(optimizer, 0, 1, value, (float[]){1}, 1);
    }
    assert_near((double)value[0], 0.999 - 0.25 * 4.25, 1e-6);
    assert_int_equal(optimizer->states, 1);
    assert_string_equal(optimizer->state_name[0], "momentum_buffer");
    gyre_optimizer_destroy(optimizer);
}

/* -- parts ------------------------------------------------------------------------------------- */

/* One optimiser for all, one for each of two parts, and one that is applied in pieces,
 * backwards. */
static void check_parts(const struct gyre_optimizer_settings *settings)
{
    static const size_t cut = 37;
    struct gyre_optimizer *whole, *low, *high, *pieces;
    float value[3][COUNT], gradient[COUNT];
    gyre_optimizer_create(&whole, on, settings, COUNT, NULL);
    gyre_optimizer_create(&low, on, settings, cut, NULL);
    gyre_optimizer_create(&high, on, settings, COUNT - cut, NULL);
    gyre_optimizer_create(&pieces, on, settings, COUNT, NULL);
    for (int i = 0; i < COUNT; i++)
        value[0][i] = value[1][i] = value[2][i] = chance();
    for (int t = 0; t < 5; t++) {
        for (int i = 0; i < COUNT; i++)
            gradient[i] = chance();
        struct gyre_optimizer *all[] = {whole, low, high, pieces};
        for (int o = 0; o < 4; o++)
            gyre_optimizer_begin(all[o], 0.1);
        gyre_optimizer_apply(whole, 0, COUNT, value[0], gradient, 0.5f);
        gyre_optimizer_apply(low, 0, cut, value[1], gradient, 0.5f);
        gyre_optimizer_apply(high, 0, COUNT - cut, value[1] + cut, gradient + cut, 0.5f);
        for (size_t at = COUNT; at > 0; at -= at % 10 ? at % 10 : 10) {
            size_t count = at % 10 ? at % 10 : 10, first = at - count;
            gyre_optimizer_apply(pieces, first, count, value[2] + first, gradient + first, 0.5f);
        }
        assert_memory_equal(value[0], value[1], sizeof value[0]);
        assert_memory_equal(value[0], value[2], sizeof value[0]);
    }
    gyre_optimizer_destroy(whole);
    gyre_optimizer_destroy(low);
    gyre_optimizer_destroy(high);
    gyre_optimizer_destroy(pieces);
}

static void test_parts_equal_the_whole(void **state)
{
    struct gyre_optimizer_settings s = gyre_optimizer_defaults(GYRE_SGD);
    s.momentum = 0.9;
    check_parts(&s);
    for (int kind = GYRE_ADAM; kind <= GYRE_ADAMW; kind++) {
        s = gyre_optimizer_defaults((enum gyre_optimizer_kind)kind);
        check_parts(&s);
    }
}

/* -- what is refused --------------------------------------------------------------------------- */

static void refuse(const struct gyre_optimizer_settings *settings, const char *words)
{
    struct gyre_trouble trouble = {0};
    struct gyre_optimizer *optimizer;
    assert_int_equal(gyre_optimizer_create(&optimizer, on, settings, 1, &trouble), GYRE_INVALID);
    if (!strstr(trouble.text, words))
        fail_msg("\"%s\" does not say \"%s\"", trouble.text, words);
}

static void test_refused(void **state)
{
    struct gyre_optimizer_settings s = gyre_optimizer_defaults(GYRE_SGD);
    s.nesterov = true;
    refuse(&s, "nesterov with momentum 0");
    s.momentum = -1;
    refuse(&s, "momentum is -1: expected 0 or more");
    s = gyre_optimizer_defaults(GYRE_SGD);
    s.dampening = NAN;
    refuse(&s, "dampening is nan");
    s = gyre_optimizer_defaults(GYRE_ADAM);
    s.beta2 = 1;
    refuse(&s, "beta2 is 1: expected 0 or more and less than 1");
    s = gyre_optimizer_defaults(GYRE_ADAMW);
    s.epsilon = NAN;
    refuse(&s, "epsilon is nan");
    s.weight_decay = -0.5;
    refuse(&s, "weight decay is -0.5");
}

static int open_processor(void **state)
{
    return gyre_processor_open(&on, GYRE_MEMORY_HOST, 0, NULL);
}

static int close_processor(void **state)
{
    gyre_processor_close(on);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_a_large_epsilon_is_added_to_the_corrected_root),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_parts_equal_the_whole),
        cmocka_unit_test(test_refused),
    };
    gyre_rng_seed(&rng, 11);
    return cmocka_run_group_tests(tests, open_processor, close_processor);
}
