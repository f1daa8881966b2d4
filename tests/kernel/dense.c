/* Products of matrices by every hand that this machine has, against sums in double; and how fast
 * each of them is.
 *
 * The bound of an element is k * 2^-24 * (sum of |a * b| + |beta * c|), twice. Fused tiles must
 * agree in every bit, an element must not depend on how large the product around it is, and nothing
 * beside C may be written. `kernel/dense --bench` prints GFLOP/s for the products of known models.
 * */
#include "base/clock.h"
#include "base/rng.h"
#include "model/kernels/dense_inside.h"
#include "rig/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gyre_rng rng;
static float *workspace;

/* -- a product with its memory ----------------------------------------------------------------- */

struct problem {
    struct gyre_product p;
    float *a, *b, *c, *before;
    size_t c_floats;
};

static float *random_floats(size_t count)
{
    float *x = malloc((count + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)(gyre_rng_next(&rng) >> 11) * 0x1p-52 - 1);
    return x;
}

static struct problem problem(enum gyre_dense_form form, size_t m, size_t n, size_t k, size_t gap)
{
    struct problem q = {.p = {.form = form, .m = m, .n = n, .k = k, .alpha = 1}};
    q.p.lda = (form == GYRE_DENSE_TN ? m : k) + gap;
    q.p.ldb = (form == GYRE_DENSE_NT ? k : n) + gap;
    q.p.ldc = n + gap;
    q.c_floats = m * q.p.ldc + gap;
    q.p.a = q.a = random_floats((form == GYRE_DENSE_TN ? k : m) * q.p.lda);
    q.p.b = q.b = random_floats((form == GYRE_DENSE_NT ? n : k) * q.p.ldb);
    q.p.c = q.c = random_floats(q.c_floats);
    q.before = random_floats(q.c_floats);
    memcpy(q.before, q.c, q.c_floats * sizeof(float));
    return q;
}

static void release(struct problem *q)
{
    free(q->a);
    free(q->b);
    free(q->c);
    free(q->before);
}

static double term(const struct gyre_product *p, size_t i, size_t j, size_t t)
{
    double a = (double)(p->form == GYRE_DENSE_TN ? p->a[t * p->lda + i] : p->a[i * p->lda + t]);
    double b = (double)(p->form == GYRE_DENSE_NT ? p->b[j * p->ldb + t] : p->b[t * p->ldb + j]);
    return a * b;
}

static void check_element(const struct problem *q, const char *who, size_t i, size_t j)
{
    const struct gyre_product *p = &q->p;
    double sum = 0, size = 0, old = (double)q->before[i * p->ldc + j];
    for (size_t t = 0; t < p->k; t++) {
        sum += term(p, i, j, t);
        size += fabs(term(p, i, j, t));
    }
    double wanted = (double)p->alpha * sum + (p->beta != 0 ? (double)p->beta * old : 0);
    double bound = (double)(p->k + 2) * 0x1p-23 *
                   (fabs((double)p->alpha) * size + (p->beta != 0 ? fabs(old) : 0));
    if (!(fabs((double)p->c[i * p->ldc + j] - wanted) <= bound))
        fail_msg("%s form %d, %zu x %zu x %zu: [%zu][%zu] is %g, wanted %g", who, p->form, p->m,
                 p->n, p->k, i, j, (double)p->c[i * p->ldc + j], wanted);
}

static void check_problem(const struct problem *q, const char *who)
{
    const struct gyre_product *p = &q->p;
    for (size_t at = 0; at < q->c_floats; at++) {
        size_t i = at / p->ldc, j = at % p->ldc;
        if (i < p->m && j < p->n)
            check_element(q, who, i, j);
        else if (memcmp(&p->c[at], &q->before[at], sizeof(float)) != 0)
            fail_msg("%s form %d, %zu x %zu x %zu: wrote beside C at %zu", who, p->form, p->m, p->n,
                     p->k, at);
    }
}

/* -- checks ------------------------------------------------------------------------------------ */

/* One product by each hand; the fused ones must agree. */
static void check_hands(struct problem *q)
{
    float *fused = NULL;
    for (int t = 0; gyre_tile_number(t); t++) {
        memcpy(q->c, q->before, q->c_floats * sizeof(float));
        gyre_dense_own(gyre_tile_number(t), workspace, &q->p);
        check_problem(q, gyre_tile_number(t)->name);
        if (fused)
            assert_memory_equal(fused, q->c, q->c_floats * sizeof(float));
        if (t == 1 && (fused = malloc(q->c_floats * sizeof(float))))
            memcpy(fused, q->c, q->c_floats * sizeof(float));
    }
    free(fused);
    if (gyre_dense_blas_found() && q->p.m && q->p.n) {
        memcpy(q->c, q->before, q->c_floats * sizeof(float));
        gyre_dense_blas(&q->p);
        check_problem(q, "OpenBLAS");
    }
}

static void test_small(void **state)
{
    for (int repeat = 0; repeat < 400; repeat++) {
        struct problem q =
            problem((enum gyre_dense_form)gyre_rng_below(&rng, 3), gyre_rng_below(&rng, 40),
                    gyre_rng_below(&rng, 70), gyre_rng_below(&rng, 40), gyre_rng_below(&rng, 5));
        q.p.alpha = repeat % 3 ? 1 : -0.5f;
        q.p.beta = (float)(repeat % 4) * 0.5f;
        check_hands(&q);
        release(&q);
    }
}

static void test_across_blocks(void **state)
{
    static const size_t size[][3] = {
        {97, 33, 257}, {200, 40, 513}, {5, 1030, 300}, {100, 1025, 10}};
    for (int form = 0; form < 3; form++) {
        for (int s = 0; s < 4; s++) {
            struct problem q =
                problem((enum gyre_dense_form)form, size[s][0], size[s][1], size[s][2], (size_t)s);
            q.p.beta = (float)s;
            check_hands(&q);
            release(&q);
        }
    }
}

/* beta = 0 must not read C: what was there may be NaN. */
static void test_unread(void **state)
{
    struct problem q = problem(GYRE_DENSE_NN, 13, 37, 20, 0);
    for (size_t i = 0; i < q.c_floats; i++)
        q.before[i] = NAN;
    check_hands(&q);
    q.p.k = 0;
    check_hands(&q);
    release(&q);
}

/* The first rows and columns of a product are the product of the first rows and columns. */
static void test_place_does_not_matter(void **state)
{
    struct problem q = problem(GYRE_DENSE_NT, 110, 75, 600, 0);
    float *part = calloc(110 * 75, sizeof *part);
    assert_non_null(part);
    for (int t = 0; gyre_tile_number(t); t++) {
        gyre_dense_own(gyre_tile_number(t), workspace, &q.p);
        struct gyre_product p = q.p;
        p.m = 3, p.n = 50, p.c = part;
        gyre_dense_own(gyre_tile_number(t), workspace, &p);
        for (size_t i = 0; i < p.m; i++)
            assert_memory_equal(part + i * 75, q.c + i * 75, 50 * sizeof(float));
    }
    free(part);
    release(&q);
}

/* Whoever has few columns may get another tile, and the same bits. */
static void check_narrow(struct gyre_dense *dense)
{
    for (size_t n = 1; n <= 40; n += 3) {
        struct problem q = problem(GYRE_DENSE_NT, 50, n, 70, 1);
        gyre_dense_multiply(dense, &q.p);
        check_problem(&q, gyre_dense_name(dense));
        float *chosen = q.c;
        q.p.c = q.c = random_floats(q.c_floats);
        memcpy(q.c, q.before, q.c_floats * sizeof(float));
        gyre_dense_own(gyre_tile_best(), workspace, &q.p);
        assert_memory_equal(chosen, q.c, q.c_floats * sizeof(float));
        free(chosen);
        release(&q);
    }
}

static void test_choice(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_dense *dense = NULL;
    setenv("GYRE_BLAS", "own", 1);
    assert_int_equal(gyre_dense_create(&dense, &trouble), 0);
    assert_memory_equal(gyre_dense_name(dense), "own ", 4);
    check_narrow(dense);
    gyre_dense_destroy(dense);
    setenv("GYRE_BLAS", "mkl", 1);
    assert_int_equal(gyre_dense_create(&dense, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "GYRE_BLAS is \"mkl\""));
    setenv("GYRE_BLAS", "openblas", 1);
    trouble.status = 0;
    int wanted = gyre_dense_blas_found() ? 0 : GYRE_INVALID;
    assert_int_equal(gyre_dense_create(&dense, &trouble), wanted);
    if (!wanted)
        gyre_dense_destroy(dense);
    assert_null(getenv("OPENBLAS_NUM_THREADS"));
    assert_null(getenv("OPENBLAS_CORETYPE"));
    unsetenv("GYRE_BLAS");
    assert_int_equal(gyre_dense_create(&dense, NULL), 0);
    print_message("products by %s\n", gyre_dense_name(dense));
    struct problem q = problem(GYRE_DENSE_TN, 130, 140, 150, 3);
    gyre_dense_multiply(dense, &q.p);
    check_problem(&q, gyre_dense_name(dense));
    release(&q);
    gyre_dense_destroy(dense);
}

/* Who gets what, with an OpenBLAS that is good at small products and one that is not. */
static void test_share(void **state)
{
    static const struct {
        size_t m, n, k;
        bool small, large;
    } products[] = {
        {64, 1024, 1024, true, true},
        {100, 10, 500, true, false},
        {8, 8, 8, true, false},
        {8, 8, 7, false, false},
        {1, 100, 1 << 20, true, false},
        {1024, 1024, 0, false, false},
        {(size_t)INT32_MAX + 1, 1, 1, false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        struct gyre_product p = {.m = products[i].m, .n = products[i].n, .k = products[i].k};
        assert_int_equal(gyre_dense_is_for_blas(&p, true), products[i].small);
        assert_int_equal(gyre_dense_is_for_blas(&p, false), products[i].large);
    }
}

/* -- speed ------------------------------------------------------------------------------------- */

static double gflops(const struct problem *q, const struct gyre_tile *tile)
{
    double best = 0;
    for (int run = 0; run < 5; run++) {
        int calls = 0;
        uint64_t start = gyre_now_ns(), now;
        do {
            if (tile)
                gyre_dense_own(tile, workspace, &q->p);
            else
                gyre_dense_blas(&q->p);
            calls++;
        } while ((now = gyre_now_ns()) < start + 5000000);
        double rate = 2.0 * (double)(q->p.m * q->p.n * q->p.k) * calls / (double)(now - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static int bench(void)
{
    static const struct {
        const char *what;
        enum gyre_dense_form form;
        size_t m, n, k;
    } line[] = {
        {"wine 1 forward", GYRE_DENSE_NT, 32, 64, 13},
        {"wine 1 weight", GYRE_DENSE_TN, 64, 13, 32},
        {"wine 2 forward", GYRE_DENSE_NT, 32, 3, 64},
        {"wine 2 weight", GYRE_DENSE_TN, 3, 64, 32},
        {"conv 1 forward", GYRE_DENSE_NN, 16, 784, 25},
        {"conv 1 weight", GYRE_DENSE_NT, 16, 25, 784},
        {"conv 2 forward", GYRE_DENSE_NN, 32, 196, 400},
        {"conv 2 weight", GYRE_DENSE_NT, 32, 400, 196},
        {"conv 2 input", GYRE_DENSE_TN, 400, 196, 32},
        {"64 square", GYRE_DENSE_NT, 64, 64, 64},
        {"128 square", GYRE_DENSE_NT, 128, 128, 128},
        {"mnist 1 forward", GYRE_DENSE_NT, 100, 500, 784},
        {"mnist 1 weight", GYRE_DENSE_TN, 500, 784, 100},
        {"mnist 2 forward", GYRE_DENSE_NT, 100, 10, 500},
        {"1024 forward", GYRE_DENSE_NT, 64, 1024, 1024},
        {"1024 input", GYRE_DENSE_NN, 64, 1024, 1024},
        {"1024 weight", GYRE_DENSE_TN, 1024, 1024, 64},
    };
    bool blas = gyre_dense_blas_found();
    printf("GFLOP/s%-16s", "");
    for (int t = 0; gyre_tile_number(t); t++)
        printf("%10s", gyre_tile_number(t)->name);
    printf("  %s %s\n", blas ? "OpenBLAS" : "no OpenBLAS", blas ? gyre_dense_blas_core() : "");
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        struct problem q = problem(line[i].form, line[i].m, line[i].n, line[i].k, 0);
        printf("%-23s", line[i].what);
        for (int t = 0; gyre_tile_number(t); t++)
            printf("%10.1f", gflops(&q, gyre_tile_number(t)));
        if (blas)
            printf("%10.1f %s", gflops(&q, NULL), gyre_dense_blas_pays(&q.p) ? "taken" : "");
        printf("\n");
        release(&q);
    }
    return 0;
}

int main(int count, char **arguments)
{
    workspace = aligned_alloc(64, gyre_dense_own_floats() * sizeof(float));
    if (!workspace)
        return 1;
    gyre_rng_seed(&rng, 3);
    if (count > 1 && strcmp(arguments[1], "--bench") == 0)
        return bench();
    unsetenv("OPENBLAS_CORETYPE"); /* test_choice looks whether they are left set */
    unsetenv("OPENBLAS_NUM_THREADS");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),  cmocka_unit_test(test_across_blocks),
        cmocka_unit_test(test_unread), cmocka_unit_test(test_place_does_not_matter),
        cmocka_unit_test(test_choice), cmocka_unit_test(test_share),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(workspace);
    return failed;
}
