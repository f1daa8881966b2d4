/* A CUDA device as a processor against the CPU: every entry of the table, every layer, and a
 * training, over the stand-in for CUDA, whose kernels are those of the device as host code.
 * tests/gpu/run has it run on a real device.
 *
 *     span      host memory  x x x x x          the same numbers on both;
 *               CUDA memory  x x x x x          after each entry the same bits
 *
 * Elements, sums in channels and products by Gyre's own tiles have the CPU's bits. A tally has the
 * same sums in another order. Tiles without fused multiply-adds are compared by their size. */
#include "base/rng.h"
#include "base/small_floats.h"
#include "ddp/inside.h"
#include "model/layers/layer.h"
#include "model/learning/init.h"
#include "model/learning/loss.h"
#include "model/learning/optimizer.h"
#include "model/nets/model.h"
#include "rig/test.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <gyre/model.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct gyre_processor *processor[2]; /* the CPU, CUDA device 0 */
static struct gyre_trouble trouble;
static struct gyre_rng rng;
static bool fused; /* the CPU's own products are */

/* The same numbers on both. */
struct span {
    void *at[2];
    size_t bytes;
};

#define ON_BOTH(...)                                                                               \
    for (int side = 0; side < 2; side++) {                                                         \
        struct gyre_processor *on = processor[side];                                               \
        const struct gyre_processor_table *table = on->table;                                      \
        __VA_ARGS__                                                                                \
    }
#define AT(span) ((span).at[side])

static int open_both(void **state)
{
    setenv("GYRE_BLAS", "own", 1);
    gyre_rng_seed(&rng, 11);
    if (gyre_processor_open(&processor[0], GYRE_MEMORY_HOST, 0, &trouble) ||
        gyre_processor_open(&processor[1], GYRE_MEMORY_CUDA, 0, &trouble))
        fail_msg("%s", trouble.text);
    fused = !strstr(processor[0]->table->products(processor[0]), "scalar");
    return 0;
}

static int close_both(void **state)
{
    gyre_processor_close(processor[0]);
    gyre_processor_close(processor[1]);
    assert_int_equal(fakecuda_alive().bytes, 0);
    assert_int_equal(fakecuda_alive().locked, 0);
    return 0;
}

static struct span span_of(const void *from, size_t bytes)
{
    struct span span = {.bytes = bytes};
    ON_BOTH({
        AT(span) = table->alloc(on, bytes);
        assert_non_null(AT(span));
        if (from)
            assert_int_equal(table->put(on, AT(span), from, bytes, &trouble), 0);
    })
    return span;
}

static float chance(void)
{
    return (float)((double)(gyre_rng_next(&rng) >> 11) * 0x1p-52 - 1);
}

/* Some are 0, negative 0, infinite or not a number where `odd`. */
static struct span random_span(size_t count, bool odd)
{
    static const float words[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-140f, 65519.9f};
    float *numbers = calloc(count + 1, sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] =
            odd && gyre_rng_below(&rng, 9) == 0 ? words[gyre_rng_below(&rng, 7)] : chance();
    struct span span = span_of(numbers, count * sizeof *numbers);
    free(numbers);
    return span;
}

static void free_span(struct span *span)
{
    processor[0]->table->free(processor[0], span->at[0]);
    processor[1]->table->free(processor[1], span->at[1]);
}

/* Brings the device's to the host. */
static void *bring_back(const struct span *span)
{
    void *memory = malloc(span->bytes + 1);
    assert_non_null(memory);
    if (processor[1]->table->get(processor[1], memory, span->at[1], span->bytes, &trouble))
        fail_msg("%s", trouble.text);
    return memory;
}

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || gyre_bits_of_f32(a) == gyre_bits_of_f32(b);
}

/* `tolerance` 0: bit for bit. */
static void compare(const struct span *span, const char *what, float tolerance)
{
    const float *host = span->at[0];
    float *cuda = bring_back(span);
    for (size_t i = 0; i < span->bytes / sizeof *cuda; i++)
        if (!same_float(host[i], cuda[i]) && !(fabsf(host[i] - cuda[i]) <= tolerance))
            fail_msg("%s [%zu] is %a, on the CPU %a", what, i, (double)cuda[i], (double)host[i]);
    free(cuda);
}

static void compare_and_free(struct span *span, const char *what)
{
    compare(span, what, 0);
    free_span(span);
}

static void compare_doubles(struct span *span, const char *what)
{
    const double *host = span->at[0];
    double *cuda = bring_back(span);
    for (size_t i = 0; i < span->bytes / sizeof *cuda; i++)
        if (!(isnan(host[i]) && isnan(cuda[i])) && memcmp(&host[i], &cuda[i], sizeof *cuda))
            fail_msg("%s [%zu] is %a, on the CPU %a", what, i, cuda[i], host[i]);
    free(cuda);
    free_span(span);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* More than all pieces of locked memory; the source changes at once. */
static void test_travels(void **state)
{
    const size_t count = 700001;
    float *numbers = calloc(count, sizeof *numbers), *back = calloc(count, sizeof *back);
    struct span span = span_of(NULL, count * sizeof *numbers);
    struct span copy = span_of(NULL, count * sizeof *numbers);
    assert_true(numbers && back);
    compare(&span, "fresh memory", 0);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)i;
    ON_BOTH({
        assert_int_equal(table->put(on, AT(span), numbers, span.bytes, &trouble), 0);
        memset(numbers, 0, side * span.bytes);
        table->copy(on, AT(copy), AT(span), span.bytes);
        table->zero(on, AT(span), span.bytes / 2 / 4 * 4);
        assert_int_equal(table->wait(on, &trouble), 0);
        assert_int_equal(table->get(on, back, AT(copy), copy.bytes, &trouble), 0);
        for (size_t i = 0; i < count; i++)
            assert_true(back[i] == (float)i);
    })
    compare_and_free(&span, "zeros and numbers");
    compare_and_free(&copy, "a copy");
    free(numbers);
    free(back);
}

/* Rows of a table by their numbers, in any order and again. */
static void test_rows(void **state)
{
    struct gyre_processor *on = processor[1];
    const uint64_t numbers[] = {3, 0, 3, 8, 7, 1};
    struct span from = random_span(9 * 37, true), to = random_span(7 * 37, false),
                index = span_of(numbers, sizeof numbers);
    on->table->take_rows(on, to.at[1], from.at[1], index.at[1], 6, 37);
    for (int i = 0; i < 6 * 37; i++)
        ((float *)to.at[0])[i] = ((float *)from.at[0])[numbers[i / 37] * 37 + (uint64_t)i % 37];
    compare_and_free(&to, "rows");
    free_span(&from);
    free_span(&index);
}

/* -- elements ---------------------------------------------------------------------------------- */

static void check_elements(size_t rows, size_t columns, bool odd)
{
    const size_t count = rows * columns;
    struct span y = random_span(count, odd), x = random_span(count, odd);
    struct span bias = random_span(columns, odd), sums = random_span(columns, odd);
    ON_BOTH(table->add_bias(on, AT(y), AT(bias), rows, columns, false);)
    compare(&y, "add_bias", 0);
    ON_BOTH(table->column_sums(on, AT(sums), AT(x), rows, columns, true);)
    compare(&sums, "column_sums that add", 0);
    ON_BOTH(table->column_sums(on, AT(sums), AT(x), rows, columns, false);)
    compare(&sums, "column_sums", 0);
    ON_BOTH(table->add_bias(on, AT(y), AT(bias), rows, columns, true);)
    compare(&y, "add_bias with relu", 0);
    ON_BOTH(table->relu_back(on, AT(x), AT(x), AT(y), count);)
    compare(&x, "relu_back", 0);
    ON_BOTH(table->round(on, GYRE_PRECISION_BF16, AT(y), AT(x), count);)
    compare(&y, "round to bf16", 0);
    ON_BOTH(table->round(on, GYRE_PRECISION_F16, AT(y), AT(x), count);)
    compare(&y, "round to f16", 0);
    ON_BOTH(table->relu(on, AT(x), AT(y), count);)
    compare_and_free(&x, "relu");
    free_span(&y);
    free_span(&bias);
    free_span(&sums);
}

static void test_elements(void **state)
{
    for (size_t columns = 1; columns < 40; columns += 3)
        check_elements(1 + columns % 9, columns, columns & 1);
    check_elements(3, 5000, true);
    check_elements(0, 7, false);
}

static void check_steps(size_t count, const struct gyre_update *update)
{
    struct span value = random_span(count, false), gradient = random_span(count, false);
    struct span m = random_span(count, false), v = span_of(NULL, count * sizeof(float));
    ON_BOTH(table->sgd(on, AT(value), AT(gradient), AT(m), NULL, count, update);)
    compare(&value, "sgd", 0);
    compare(&m, "sgd's momentum", 0);
    ON_BOTH(table->adam(on, AT(value), AT(gradient), AT(m), AT(v), count, update);)
    compare(&value, "adam", 0);
    ON_BOTH(table->adamw(on, AT(value), AT(gradient), AT(m), AT(v), count, update);)
    compare_and_free(&value, "adamw");
    compare_and_free(&m, "adam's m");
    compare_and_free(&v, "adam's v");
    free_span(&gradient);
}

static void test_steps(void **state)
{
    struct gyre_update update = {.factor = 0.5f,
                                 .rate = 0.01f,
                                 .weight_decay = 0.02f,
                                 .fresh = 0.75f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.999f,
                                 .rest1 = 0.1f,
                                 .rest2 = 0.001f,
                                 .root_of_bias2 = 0.03f,
                                 .epsilon = 1e-8f};
    check_steps(1001, &update);
    update.momentum = 0.9f;
    check_steps(1001, &update);
    update.nesterov = update.first = true;
    check_steps(257, &update);
}

/* Stretches of many lengths, apart from each other, stepped one after the other on the CPU. */
static void check_step_all(enum gyre_optimizer_kind kind, size_t count, bool momentum)
{
    struct gyre_optimizer_settings settings = gyre_optimizer_defaults(kind);
    struct gyre_step_span stretch[2][64];
    struct span value[64], gradient[64];
    size_t all = 0;
    settings.momentum = momentum ? 0.9 : 0;
    for (size_t s = 0; s < count; s++) {
        size_t length = 1 + gyre_rng_below(&rng, s % 3 ? 40 : 9000);
        value[s] = random_span(length, false);
        gradient[s] = random_span(length, false);
        for (int side = 0; side < 2; side++)
            stretch[side][s] = (struct gyre_step_span){AT(value[s]), AT(gradient[s]), all};
        all += length;
    }
    for (int side = 0; side < 2; side++) {
        struct gyre_optimizer *optimizer;
        assert_int_equal(
            gyre_optimizer_create(&optimizer, processor[side], &settings, all, &trouble), 0);
        for (int step = 0; step < 3; step++) {
            gyre_optimizer_begin(optimizer, 0.01);
            assert_int_equal(
                gyre_optimizer_apply_all(optimizer, stretch[side], count, 0.5f, &trouble), 0);
        }
        gyre_optimizer_destroy(optimizer);
    }
    for (size_t s = 0; s < count; s++) {
        compare_and_free(&value[s], "a stretch");
        free_span(&gradient[s]);
    }
}

static void test_step_all(void **state)
{
    static const size_t count[] = {1, 2, 7, 64};
    for (int i = 0; i < 4; i++) {
        check_step_all(GYRE_SGD, count[i], false);
        check_step_all(GYRE_SGD, count[i], true);
        check_step_all(GYRE_ADAM, count[i], false);
        check_step_all(GYRE_ADAMW, count[i], false);
    }
}

/* -- gradients on their way -------------------------------------------------------------------- */

/* As the engine sums on the host, and as one sum would. */
static void check_squares(size_t count)
{
    struct gyre_ddp host = {0};
    struct gyre_processor *on = processor[1];
    struct span x = random_span(count, false),
                partials = span_of(NULL, gyre_squares_partials(count) * sizeof(double) + 1),
                sum = span_of(NULL, sizeof(double));
    double wanted = 0, plain = 0;
    for (int twice = 0; twice < 2; twice++) {
        gyre_ddp_add_squares(&host, x.at[0], count, GYRE_F32, &wanted);
        on->table->add_squares(on, x.at[1], count, partials.at[1], sum.at[1]);
    }
    for (size_t i = 0; i < count; i++)
        plain += 2 * (double)((float *)x.at[0])[i] * (double)((float *)x.at[0])[i];
    double *found = bring_back(&sum);
    assert_memory_equal(found, &wanted, sizeof wanted);
    assert_true(fabs(wanted - plain) <= 1e-12 * plain);
    free(found);
    free_span(&x);
    free_span(&partials);
    free_span(&sum);
}

static void test_squares(void **state)
{
    static const size_t count[] = {0, 1, 7, 8, 4095, 4096, 4097, 12301, (1 << 20) + 5, 2200000};
    for (size_t i = 0; i < sizeof count / sizeof *count; i++)
        check_squares(count[i]);
}

/* The first look that finds something is the one that is told. */
static void test_looks(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    struct gyre_processor *on = processor[1];
    float numbers[700] = {0};
    int32_t bad = -1;
    struct span x = span_of(numbers, sizeof numbers), found = span_of(&bad, sizeof bad);
    on->table->look(on, x.at[1], 700, 3, found.at[1]);
    assert_int_equal(on->table->get(on, &bad, found.at[1], sizeof bad, &trouble), 0);
    assert_int_equal(bad, -1);
    for (int i = 0; i < 3; i++) {
        numbers[699 - 300 * i] = odd[i];
        bad = -1;
        assert_int_equal(on->table->put(on, found.at[1], &bad, sizeof bad, &trouble), 0);
        assert_int_equal(on->table->put(on, x.at[1], numbers, sizeof numbers, &trouble), 0);
        on->table->look(on, x.at[1], 100, 1, found.at[1]);
        on->table->look(on, x.at[1], 700, 7 + i, found.at[1]);
        on->table->look(on, x.at[1], 700, 2, found.at[1]);
        assert_int_equal(on->table->get(on, &bad, found.at[1], sizeof bad, &trouble), 0);
        assert_int_equal(bad, i == 2 ? 1 : 7 + i);
    }
    free_span(&x);
    free_span(&found);
}

/* What comes of one gradient, as ddp/wire.c has it. */
static void encode_one(enum gyre_precision precision, float *gradient, float *feedback,
                       uint16_t *half, float scale)
{
    const bool narrow = precision == GYRE_PRECISION_F16;
    float sum = feedback ? *feedback + *gradient : *gradient;
    *half = narrow ? gyre_f16_of_f32(sum * scale) : gyre_bf16_of_f32(sum * scale);
    *gradient = (narrow ? gyre_f32_of_f16(*half) : gyre_f32_of_bf16(*half)) / scale;
    if (feedback)
        *feedback = isfinite(sum - *gradient) ? sum - *gradient : 0;
}

static void check_halves(enum gyre_precision precision, size_t count, bool feeds, float scale)
{
    struct gyre_processor *on = processor[1];
    struct span gradient = random_span(count, true), feedback = random_span(count, false),
                halves = span_of(NULL, (count + 1) / 2 * sizeof(float));
    on->table->encode(on, precision, halves.at[1], gradient.at[1], feeds ? feedback.at[1] : NULL,
                      count, scale);
    on->table->decode(on, precision, gradient.at[1], halves.at[1], count, scale);
    for (size_t i = 0; i < count; i++)
        encode_one(precision, (float *)gradient.at[0] + i,
                   feeds ? (float *)feedback.at[0] + i : NULL, (uint16_t *)halves.at[0] + i, scale);
    compare_and_free(&gradient, "decoded");
    compare_and_free(&feedback, "feedback");
    uint16_t *half = bring_back(&halves);
    for (size_t i = 0; i < count; i++)
        assert_true(half[i] == ((uint16_t *)halves.at[0])[i] || isnan(gyre_f32_of_bf16(half[i])) ||
                    isnan(gyre_f32_of_f16(half[i])));
    free(half);
    free_span(&halves);
}

static void test_halves(void **state)
{
    for (int precision = GYRE_PRECISION_BF16; precision <= GYRE_PRECISION_F16; precision++)
        for (int i = 0; i < 8; i++)
            check_halves((enum gyre_precision)precision, i < 4 ? 1000 + (size_t)i : (size_t)i,
                         i % 2, i % 3 ? 0.125f : 1);
    struct gyre_processor *on = processor[1];
    struct gyre_ddp host = {0};
    struct span x = random_span(999, true);
    gyre_ddp_scale(&host, x.at[0], 999, GYRE_F32, 1.0 / 3);
    on->table->scale(on, x.at[1], 999, (float)(1.0 / 3));
    compare_and_free(&x, "scaled");
}

/* Passes that wait for a stream begin when it has come so far. */
static void test_order(void **state)
{
    struct gyre_processor *beside = NULL, *on = processor[1];
    float numbers[5000], back[5000];
    struct span x = span_of(NULL, sizeof numbers);
    assert_int_equal(gyre_processor_open_beside(&beside, GYRE_MEMORY_CUDA, 0, &trouble), 0);
    assert_string_equal(beside->table->products(beside), "own cuda");
    for (int round = 1; round < 30; round++) {
        for (int i = 0; i < 5000; i++)
            numbers[i] = (float)(round * i);
        assert_int_equal(on->table->put(on, x.at[1], numbers, sizeof numbers, &trouble), 0);
        assert_int_equal(beside->table->after(beside, on->table->stream(on), &trouble), 0);
        beside->table->scale(beside, x.at[1], 5000, 2);
        assert_int_equal(on->table->after(on, beside->table->stream(beside), &trouble), 0);
        assert_int_equal(on->table->get(on, back, x.at[1], sizeof back, &trouble), 0);
        for (int i = 0; i < 5000; i++)
            assert_true(back[i] == 2 * numbers[i]);
    }
    gyre_processor_close(beside);
    free_span(&x);
}

/* -- losses ------------------------------------------------------------------------------------ */

static void check_loss(size_t samples, size_t width, bool squared)
{
    struct span outputs = random_span(samples * width, false),
                gradient = random_span(samples * width, false);
    struct gyre_loss loss[2] = {{0}};
    int64_t *labels = calloc(samples + 1, sizeof *labels);
    float *targets = calloc(samples * width + 1, sizeof *targets);
    assert_true(labels && targets);
    for (size_t s = 0; s < samples; s++)
        labels[s] = (int64_t)gyre_rng_below(&rng, width);
    for (size_t i = 0; i < samples * width; i++)
        targets[i] = chance();
    for (int side = 0; side < 2; side++) {
        struct gyre_loss_meter meter;
        assert_int_equal(gyre_loss_meter_init(&meter, processor[side], samples, width, &trouble),
                         0);
        for (int twice = 0; twice < 2; twice++)
            assert_int_equal(squared ? gyre_loss_squared_error(&meter, AT(outputs), targets,
                                                               samples, 3, AT(gradient), &trouble)
                                     : gyre_loss_cross_entropy(&meter, AT(outputs), labels, samples,
                                                               3, AT(gradient), &trouble),
                             0);
        assert_int_equal(gyre_loss_meter_take(&meter, &loss[side], &trouble), 0);
        gyre_loss_meter_deinit(&meter);
    }
    compare_and_free(&gradient, squared ? "the squared error's gradient" : "softmax's gradient");
    assert_true(fabs(loss[0].sum - loss[1].sum) <= 1e-12 * (1 + fabs(loss[0].sum)));
    assert_int_equal(loss[0].right, loss[1].right);
    assert_int_equal(loss[1].samples, 2 * samples);
    free_span(&outputs);
    free(labels);
    free(targets);
}

static void test_losses(void **state)
{
    static const size_t samples[] = {0, 1, 15, 16, 17, 300}, width[] = {1, 2, 15, 16, 33};
    for (int s = 0; s < 6; s++)
        for (int w = 0; w < 5; w++) {
            check_loss(samples[s], width[w], false);
            check_loss(samples[s], width[w], true);
        }
}

/* -- products ---------------------------------------------------------------------------------- */

static size_t leading(size_t columns)
{
    return columns + gyre_rng_below(&rng, 3);
}

static bool by_cublas; /* whose sums of a product go another way */

static void check_product(enum gyre_dense_form form, size_t m, size_t n, size_t k, float beta)
{
    struct gyre_products products = {.first = {.form = form,
                                               .m = m,
                                               .n = n,
                                               .k = k,
                                               .alpha = 0.5f,
                                               .beta = beta,
                                               .lda = leading(form == GYRE_DENSE_TN ? m : k),
                                               .ldb = leading(form == GYRE_DENSE_NT ? k : n),
                                               .ldc = leading(n)},
                                     .count = 1 + m % 3};
    struct gyre_product *p = &products.first;
    products.a_step = (form == GYRE_DENSE_TN ? k : m) * p->lda;
    products.b_step = (form == GYRE_DENSE_NT ? n : k) * p->ldb;
    products.c_step = m * p->ldc;
    struct span a = random_span(products.count * products.a_step, false),
                b = random_span(products.count * products.b_step, false),
                c = random_span(products.count * products.c_step, false);
    ON_BOTH({
        p->a = AT(a);
        p->b = AT(b);
        p->c = AT(c);
        table->multiply(on, &products);
    })
    compare(&c, "a product", by_cublas ? 1e-4f : fused ? 0 : 1e-5f);
    free_span(&a);
    free_span(&b);
    free_span(&c);
}

static void test_products(void **state)
{
    static const size_t size[] = {0, 1, 3, 16, 63, 65};
    for (int form = GYRE_DENSE_NN; form <= GYRE_DENSE_TN; form++) {
        for (int i = 0; i < 6 * 6 * 6; i++)
            check_product((enum gyre_dense_form)form, size[i % 6], size[i / 6 % 6], size[i / 36],
                          (float)(i % 3) / 2);
        check_product((enum gyre_dense_form)form, 5, 70, 513, 1);
        check_product((enum gyre_dense_form)form, 130, 3, 256, 0);
    }
}

/* -- layers ------------------------------------------------------------------------------------ */

struct rig {
    struct gyre_layer layer[2];
    struct gyre_pass pass[2];
    struct span value[2], gradient[2], buffer[3], x, y, dy, dx, kept, scratch;
};

static void give_memory(struct rig *rig, size_t samples)
{
    struct gyre_layer *l = rig->layer;
    for (int p = 0; p < l->parameter_count; p++) {
        rig->value[p] = random_span(l->parameter[p].count, false);
        rig->gradient[p] = random_span(l->parameter[p].count, false);
        for (int side = 0; side < 2; side++) {
            l[side].parameter[p].value = AT(rig->value[p]);
            l[side].parameter[p].gradient = AT(rig->gradient[p]);
        }
    }
    for (int b = 0; b < l->buffer_count; b++) {
        float ones[64];
        for (size_t i = 0; i < 64; i++)
            ones[i] = 1;
        rig->buffer[b] = l->buffer[b].whole ? span_of(NULL, sizeof(int64_t))
                                            : span_of(ones, l->buffer[b].count * sizeof(float));
        for (int side = 0; side < 2; side++)
            l[side].buffer[b].value = AT(rig->buffer[b]);
    }
    rig->x = random_span(samples * gyre_volume_count(l->in), false);
    rig->dx = random_span(samples * gyre_volume_count(l->in), false);
    rig->y = random_span(samples * gyre_volume_count(l->out), false);
    rig->dy = random_span(samples * gyre_volume_count(l->out), false);
}

static void make_rig(struct rig *rig, const struct gyre_layer *layer, size_t samples,
                     enum gyre_precision precision, size_t spread)
{
    *rig = (struct rig){.layer = {*layer, *layer}};
    for (int side = 0; side < 2; side++) {
        struct gyre_layer *l = &rig->layer[side];
        l->spread_bytes = side ? spread : 0;
        assert_int_equal(l->kind->shape(l, samples, &trouble), 0);
        l->kept = processor[side]->table->alloc(processor[side], l->kept_floats * sizeof(float));
        rig->pass[side] = (struct gyre_pass){.on = processor[side],
                                             .precision = precision,
                                             .samples = samples,
                                             .train = true,
                                             .trouble = &trouble};
        rig->pass[side].scratch =
            processor[side]->table->alloc(processor[side], l->scratch_floats * sizeof(float));
        assert_true(l->kept && rig->pass[side].scratch);
    }
    give_memory(rig, samples);
}

static void run_forward(struct rig *rig)
{
    for (int side = 0; side < 2; side++) {
        rig->pass[side].stage = 0;
        assert_int_equal(rig->layer[side].kind->forward(&rig->layer[side], &rig->pass[side],
                                                        AT(rig->x), AT(rig->y)),
                         0);
    }
}

static void run_backward(struct rig *rig, bool accumulate)
{
    for (int side = 0; side < 2; side++) {
        struct gyre_pass *pass = &rig->pass[side];
        int status = GYRE_AGAIN;
        pass->accumulate = accumulate;
        for (pass->stage = 0; status == GYRE_AGAIN; pass->stage++)
            status = rig->layer[side].kind->backward(&rig->layer[side], pass, AT(rig->x),
                                                     AT(rig->y), AT(rig->dy), AT(rig->dx));
        assert_int_equal(status, 0);
    }
}

static void free_rig(struct rig *rig)
{
    struct span *all[] = {&rig->x, &rig->y, &rig->dy, &rig->dx};
    for (int i = 0; i < 4; i++)
        free_span(all[i]);
    for (int p = 0; p < rig->layer->parameter_count; p++) {
        free_span(&rig->value[p]);
        free_span(&rig->gradient[p]);
    }
    for (int b = 0; b < rig->layer->buffer_count; b++)
        free_span(&rig->buffer[b]);
    processor[0]->table->free(processor[0], rig->layer->kept);
    processor[0]->table->free(processor[0], rig->pass->scratch);
}

static void check_layer(const struct gyre_layer *layer, size_t samples,
                        enum gyre_precision precision, size_t spread, float tolerance)
{
    struct rig rig;
    make_rig(&rig, layer, samples, precision, spread);
    run_forward(&rig);
    compare(&rig.y, layer->kind->name, tolerance);
    for (int b = 0; b < rig.layer->buffer_count; b++)
        compare(&rig.buffer[b], rig.layer->buffer[b].name, tolerance);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        run_backward(&rig, accumulate);
        compare(&rig.dx, "its input's gradient", tolerance);
        for (int p = 0; p < rig.layer->parameter_count; p++)
            compare(&rig.gradient[p], rig.layer->parameter[p].name, tolerance);
    }
    rig.pass[0].train = rig.pass[1].train = false;
    run_forward(&rig);
    compare(&rig.y, layer->kind->name, tolerance);
    free_rig(&rig);
}

static void test_layers(void **state)
{
    const struct gyre_layer layers[] = {
        {.kind = &gyre_layer_linear, .name = "l", .in = {7, 1, 1}, .outputs = 5, .relu = true},
        {.kind = &gyre_layer_linear, .name = "l", .in = {3, 4, 6}, .outputs = 70},
        {.kind = &gyre_layer_relu, .name = "r", .in = {3, 4, 6}},
        {.kind = &gyre_layer_flatten, .name = "f", .in = {3, 4, 6}},
        {.kind = &gyre_layer_batch_norm, .name = "b", .in = {5, 3, 7}},
        {.kind = &gyre_layer_batch_norm, .name = "b", .in = {20, 1, 1}},
        {.kind = &gyre_layer_max_pool, .name = "p", .in = {3, 9, 8}, .kernel = 2, .stride = 2},
        {.kind = &gyre_layer_max_pool, .name = "p", .in = {2, 9, 8}, .kernel = 3, .stride = 1},
        {.kind = &gyre_layer_max_pool, .name = "p", .in = {2, 9, 8}, .kernel = 2, .stride = 3},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int precision = GYRE_PRECISION_F32; precision <= GYRE_PRECISION_F16; precision++)
            for (size_t samples = 2; samples < 40; samples += 17)
                check_layer(&layers[i], samples, (enum gyre_precision)precision, 0,
                            fused ? 0 : 1e-4f);
}

/* Convolution with all samples spread at once, two at a time, and one. */
static void check_convolution(struct gyre_volume in, size_t padding)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_convolution,
                                     .name = "c",
                                     .in = in,
                                     .outputs = 5,
                                     .kernel = 3,
                                     .stride = 1,
                                     .padding = padding};
    const size_t shrunk = 2 - 2 * padding,
                 each = in.channels * 9 * (in.height - shrunk) * (in.width - shrunk);
    for (int precision = GYRE_PRECISION_F32; precision <= GYRE_PRECISION_F16; precision++)
        for (size_t at_once = 1; at_once < 9; at_once *= 2)
            check_layer(&layer, 5, (enum gyre_precision)precision, at_once * each * sizeof(float),
                        fused ? 0 : 1e-4f);
}

/* The gradients of weights are sums over places, which a product cuts in blocks of 256. */
static void test_convolution(void **state)
{
    check_convolution((struct gyre_volume){2, 7, 9}, 1);
    check_convolution((struct gyre_volume){1, 16, 16}, 1);
    check_convolution((struct gyre_volume){1, 19, 18}, 0);
    check_convolution((struct gyre_volume){2, 28, 28}, 1);
}

/* -- batch norm's own entries ------------------------------------------------------------------ */

static void test_norm_sums(void **state)
{
    const struct gyre_planes planes = {19, 6, 37};
    const size_t count = planes.samples * planes.channels * planes.places;
    struct span x = random_span(count, false), mean = random_span(6, false);
    struct span sums = span_of(NULL, (2 * 6 + 1) * sizeof(double));
    ON_BOTH({
        const struct gyre_norm norm = {.planes = planes, .sums = AT(sums), .mean = AT(mean)};
        table->norm_sums(on, &norm, AT(x));
    })
    compare_doubles(&sums, "norm_sums");
    sums = span_of(NULL, (2 * 6 + 1) * sizeof(double));
    ON_BOTH({
        const struct gyre_norm norm = {.planes = planes, .sums = AT(sums), .mean = AT(mean)};
        table->norm_squares(on, &norm, AT(x));
    })
    compare_doubles(&sums, "norm_squares");
    free_span(&x);
    free_span(&mean);
}

/* -- a training -------------------------------------------------------------------------------- */

enum { BATCH = 12, STEPS = 6, CLASSES = 4 };

struct trained {
    double loss[STEPS];
    float *values;
    size_t floats;
};

static void *give(struct gyre_processor *on, size_t bytes)
{
    void *memory = on->table->alloc(on, bytes);
    assert_non_null(memory);
    return memory;
}

/* The same start for both: drawn on the host, then put. */
static size_t own_values(struct gyre_model *model, float **values, float **gradients)
{
    struct gyre_processor *on = gyre_model_processor(model);
    struct gyre_parameter *const *parameter;
    struct gyre_running_buffer *const *buffer;
    size_t floats = 0;
    int count = gyre_model_parameters(model, &parameter);
    for (int p = 0; p < count; p++)
        floats += parameter[p]->count;
    float *drawn = calloc(floats, sizeof *drawn), *at = drawn;
    assert_non_null(drawn);
    *values = give(on, floats * sizeof(float));
    *gradients = give(on, floats * sizeof(float));
    for (int p = 0; p < count; at += parameter[p++]->count)
        parameter[p]->value = at;
    gyre_init_parameters(parameter, count, 3);
    for (int p = 0; p < count; p++) {
        const size_t first = (size_t)(parameter[p]->value - drawn);
        parameter[p]->value = *values + first;
        parameter[p]->gradient = *gradients + first;
    }
    assert_int_equal(on->table->put(on, *values, drawn, floats * sizeof(float), &trouble), 0);
    free(drawn);
    count = gyre_model_buffers(model, &buffer);
    for (int b = 0; b < count; b++) /* of zeros */
        buffer[b]->value = give(on, buffer[b]->count * sizeof(int64_t));
    return floats;
}

static double run_step(struct gyre_model *model, struct gyre_loss_meter *meter, const float *x,
                       const int64_t *labels)
{
    struct gyre_loss loss = {0};
    const float *outputs;
    assert_int_equal(gyre_model_forward(model, x, BATCH, true, &outputs, &trouble), 0);
    assert_int_equal(gyre_loss_cross_entropy(meter, outputs, labels, BATCH, 1,
                                             gyre_model_output_gradient(model), &trouble),
                     0);
    int status = gyre_model_backward(model, false, &trouble);
    while (status == GYRE_AGAIN)
        status = gyre_model_continue(model);
    assert_int_equal(status, 0);
    assert_int_equal(gyre_loss_meter_take(meter, &loss, &trouble), 0);
    return loss.sum;
}

enum { SHALLOW, CONVNET, DEEP };

static struct gyre_model *make_net(int net, const struct gyre_model_settings *settings)
{
    const size_t shallow[] = {144, 30, CLASSES}, deep[] = {144, 30, 17, CLASSES};
    struct gyre_model *model;
    int status = net == CONVNET ? gyre_convnet_create(&model, (struct gyre_volume){2, 9, 8},
                                                      CLASSES, settings, &trouble)
                                : gyre_mlp_create(&model, net == DEEP ? deep : shallow,
                                                  net == DEEP ? 4 : 3, settings, &trouble);
    if (status)
        fail_msg("%s", trouble.text);
    return model;
}

static void train_net(struct trained *trained, int net, enum gyre_memory_kind kind)
{
    const struct gyre_model_settings settings = {.batch = BATCH, .kind = kind};
    const struct gyre_optimizer_settings adam = gyre_optimizer_defaults(GYRE_ADAM);
    struct gyre_model *model = make_net(net, &settings);
    struct gyre_processor *on = gyre_model_processor(model);
    struct gyre_loss_meter meter;
    struct gyre_optimizer *optimizer;
    float numbers[BATCH * 144], *values, *gradients;
    float *x = give(on, sizeof numbers);
    int64_t labels[BATCH];
    trained->floats = own_values(model, &values, &gradients);
    assert_int_equal(gyre_loss_meter_init(&meter, on, BATCH, CLASSES, &trouble), 0);
    assert_int_equal(gyre_optimizer_create(&optimizer, on, &adam, trained->floats, &trouble), 0);
    gyre_rng_seed(&rng, 5);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH * 144; i++)
            numbers[i] = chance();
        for (int i = 0; i < BATCH; i++)
            labels[i] = (int64_t)gyre_rng_below(&rng, CLASSES);
        assert_int_equal(on->table->put(on, x, numbers, sizeof numbers, &trouble), 0);
        trained->loss[step] = run_step(model, &meter, x, labels);
        gyre_optimizer_begin(optimizer, 0.01);
        gyre_optimizer_apply(optimizer, 0, trained->floats, values, gradients, 1.0f / BATCH);
    }
    trained->values = calloc(trained->floats, sizeof(float));
    assert_non_null(trained->values);
    assert_int_equal(
        on->table->get(on, trained->values, values, trained->floats * sizeof(float), &trouble), 0);
    gyre_optimizer_destroy(optimizer);
    gyre_loss_meter_deinit(&meter);
    on->table->free(on, values);
    on->table->free(on, gradients);
    on->table->free(on, x);
    struct gyre_running_buffer *const *buffer;
    int count = gyre_model_buffers(model, &buffer);
    for (int b = 0; b < count; b++)
        on->table->free(on, buffer[b]->value);
    gyre_model_destroy(model);
}

/* Losses within 1e-6 of each other, and the weights of the same bits. */
static void test_training(void **state)
{
    for (int convnet = 0; convnet < 2; convnet++) {
        struct trained host, cuda;
        train_net(&host, convnet, GYRE_MEMORY_HOST);
        train_net(&cuda, convnet, GYRE_MEMORY_CUDA);
        for (int step = 0; step < STEPS; step++)
            if (!(fabs(host.loss[step] - cuda.loss[step]) <= 1e-6 * host.loss[step]))
                fail_msg("step %d: loss %.9g, on the CPU %.9g", step, cuda.loss[step],
                         host.loss[step]);
        assert_true(host.loss[STEPS - 1] < 1000);
        for (size_t i = 0; fused && i < host.floats; i++)
            assert_true(same_float(host.values[i], cuda.values[i]));
        free(host.values);
        free(cuda.values);
    }
}

/* -- networks ---------------------------------------------------------------------------------- */

/* Outputs and scores of a network that a device computes, whose values are the host's. */
static void test_network(void **state)
{
    struct gyre_network *network[2];
    struct gyre_network_options options = GYRE_NETWORK_OPTIONS_INIT;
    struct gyre_network_score score[2] = {{0}};
    const float *outputs[2];
    float x[BATCH * 64];
    int64_t labels[BATCH];
    setenv("GYRE_BLAS", "own", 1);
    for (int i = 0; i < BATCH * 64; i++)
        x[i] = chance();
    for (int i = 0; i < BATCH; i++)
        labels[i] = i % 10;
    for (int side = 0; side < 2; side++) {
        options.device = side - 1;
        assert_int_equal(gyre_network_convnet(&network[side], 1, 8, 8, 10, &options), 0);
        assert_int_equal(gyre_network_score_classes(network[side], x, BATCH, labels, &score[side]),
                         0);
        assert_int_equal(gyre_network_predict(network[side], x, BATCH, &outputs[side]), 0);
    }
    for (int i = 0; fused && i < BATCH * 10; i++)
        assert_true(same_float(outputs[0][i], outputs[1][i]));
    assert_true(fabs(score[0].loss - score[1].loss) <= 1e-6 * score[0].loss);
    assert_int_equal(score[0].right, score[1].right);
    for (int side = 0; side < 2; side++)
        gyre_network_destroy(network[side]);
    options.device = 63;
    assert_true(gyre_network_convnet(&network[0], 1, 8, 8, 10, &options) < 0);
    assert_non_null(strstr(gyre_error(NULL), "CUDA device 63"));
    assert_int_equal(fakecuda_alive().bytes, 0);
}

/* -- failures ---------------------------------------------------------------------------------- */

static void test_refused(void **state)
{
    struct gyre_processor *none = NULL;
    assert_int_equal(gyre_processor_open(&none, GYRE_MEMORY_CUDA, 7, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "no CUDA device 7"));
}

/* The same products by cuBLAS: forms, steps and leading dimensions are as it counts them. They are
 * Gyre's own where GYRE_BLAS=own. A product that fails is told, and so is a cuBLAS that does not
 * begin. */
static void test_cublas(void **state)
{
    struct gyre_processor *own = processor[1], *blas = NULL;
    const int begun = fakecuda_calls("cublasCreate");
    if (!fakecuda_stands_in())
        skip(); /* it may not be there */
    setenv("FAKECUDA_CUBLAS", "1", 1);
    assert_int_equal(gyre_processor_open(&blas, GYRE_MEMORY_CUDA, 0, &trouble), 0);
    assert_string_equal(blas->table->products(blas), "own cuda");
    gyre_processor_close(blas);
    setenv("GYRE_BLAS", "auto", 1);
    assert_int_equal(gyre_processor_open(&blas, GYRE_MEMORY_CUDA, 0, &trouble), 0);
    assert_string_equal(blas->table->products(blas), "cuBLAS");
    processor[1] = blas;
    by_cublas = true;
    test_products(state);
    by_cublas = false;
    processor[1] = own;
    assert_true(fakecuda_calls("cublasGemmStridedBatchedEx") > 0);
    fakecuda_fail("cublasGemmStridedBatchedEx", 1, CUDA_ERROR_UNKNOWN);
    float *x = blas->table->alloc(blas, sizeof *x), back;
    const struct gyre_product one = {.form = GYRE_DENSE_NN,
                                     .m = 1,
                                     .n = 1,
                                     .k = 1,
                                     .alpha = 1,
                                     .a = x,
                                     .b = x,
                                     .c = x,
                                     .lda = 1,
                                     .ldb = 1,
                                     .ldc = 1};
    blas->table->multiply(blas, &(struct gyre_products){.first = one, .count = 1});
    assert_true(blas->table->get(blas, &back, x, sizeof back, &trouble) < 0);
    gyre_processor_close(blas);
    trouble = (struct gyre_trouble){0};
    fakecuda_fail("cublasCreate", 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(gyre_processor_open(&blas, GYRE_MEMORY_CUDA, 0, &trouble), GYRE_UNSUPPORTED);
    assert_non_null(strstr(trouble.text, "cuBLAS is there and does not begin on CUDA device 0"));
    assert_int_equal(fakecuda_calls("cublasCreate") - begun, 2);
    assert_int_equal(fakecuda_calls("cublasDestroy"), 1);
    trouble = (struct gyre_trouble){0};
    setenv("GYRE_BLAS", "own", 1);
    unsetenv("FAKECUDA_CUBLAS");
}

/* -- fused products ---------------------------------------------------------------------------- */

static void want_fused(const char *kind)
{
    setenv("FAKECUDA_CUBLAS", "1", 1);
    setenv("FAKECUDA_CUBLASLT", kind, 1);
    setenv("GYRE_BLAS", "auto", 1);
}

static void want_own(void)
{
    setenv("GYRE_BLAS", "own", 1);
    unsetenv("FAKECUDA_CUBLAS");
    unsetenv("FAKECUDA_CUBLASLT");
    assert_int_equal(fakecuda_alive().bytes, 0);
}

static struct gyre_processor *open_fused(void)
{
    struct gyre_processor *on = NULL;
    want_fused("1");
    if (gyre_processor_open(&on, GYRE_MEMORY_CUDA, 0, &trouble))
        fail_msg("%s", trouble.text);
    return on;
}

/* A perceptron of three layers, trained on the CPU, and by so many fused products: forward in each
 * layer, and back from each to the one below. */
static void check_fused_training(const char *kind, int products)
{
    struct trained host, cuda;
    const int before = fakecuda_calls("cublasLtMatmul");
    train_net(&host, DEEP, GYRE_MEMORY_HOST);
    want_fused(kind);
    train_net(&cuda, DEEP, GYRE_MEMORY_CUDA);
    want_own();
    assert_int_equal(fakecuda_calls("cublasLtMatmul") - before, products);
    for (int step = 0; step < STEPS; step++)
        if (!(fabs(host.loss[step] - cuda.loss[step]) <= 1e-4 * host.loss[step]))
            fail_msg("step %d: loss %.9g, on the CPU %.9g", step, cuda.loss[step], host.loss[step]);
    for (size_t i = 0; i < host.floats; i++)
        assert_true(fabsf(host.values[i] - cuda.values[i]) <= 2e-3f);
    free(host.values);
    free(cuda.values);
}

static void test_fused_training(void **state)
{
    if (!fakecuda_stands_in())
        skip();
    check_fused_training("1", 1 + STEPS * 5); /* and one that tries the ReLU */
    check_fused_training("2", 1 + STEPS);     /* which drops NaN: the last layer has none */
    check_fused_training("3", 0);
    check_fused_training("0", 0);
}

/* Numbers of memory that `shift` numbers stand before. */
static bool multiply_shifted(struct gyre_processor *on, float *memory, size_t shift)
{
    enum { SIDE = 8, APART = 1024 };
    float *at = memory + shift;
    const struct gyre_product p = {.form = GYRE_DENSE_NT,
                                   .m = SIDE,
                                   .n = SIDE,
                                   .k = SIDE,
                                   .alpha = 1,
                                   .a = at,
                                   .b = at + APART,
                                   .c = at + 2 * APART,
                                   .lda = SIDE,
                                   .ldb = SIDE,
                                   .ldc = SIDE};
    const struct gyre_epilogue then = {.kind = GYRE_THEN_BIAS, .bias = at + 3 * APART};
    return on->table->multiply_then(on, &p, GYRE_PRECISION_F32, &then);
}

/* A shape whose memory is aligned otherwise than before has an algorithm of its own. */
static void test_fused_alignment(void **state)
{
    static const size_t shift[] = {0, 32, 4, 1, 64};
    if (!fakecuda_stands_in())
        skip();
    struct gyre_processor *on = open_fused();
    assert_string_equal(on->table->products(on), "cuBLAS, fused");
    float *memory = on->table->alloc(on, 5 * 1024 * sizeof *memory);
    for (int i = 0; i < 5; i++)
        assert_true(multiply_shifted(on, memory, shift[i]));
    assert_int_equal(on->table->wait(on, &trouble), 0);
    gyre_processor_close(on);
    want_own();
}

/* Each call fails once: what is described is not used then, and a product that fails is told. */
static void test_fused_fails(void **state)
{
    static const char *const call[] = {"cublasLtMatmulDescCreate",
                                       "cublasLtMatmulDescSetAttribute",
                                       "cublasLtMatrixLayoutCreate",
                                       "cublasLtMatmulPreferenceCreate",
                                       "cublasLtMatmulPreferenceSetAttribute",
                                       "cublasLtMatmulAlgoGetHeuristic",
                                       "cublasLtMatmul"};
    if (!fakecuda_stands_in())
        skip();
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        struct gyre_processor *on = open_fused();
        float *memory = on->table->alloc(on, 5 * 1024 * sizeof *memory);
        const bool last = i + 1 == sizeof call / sizeof *call;
        fakecuda_fail(call[i], 1, CUDA_ERROR_UNKNOWN);
        assert_int_equal(multiply_shifted(on, memory, 0), last);
        assert_int_equal(on->table->wait(on, &trouble) < 0, last);
        gyre_processor_close(on);
        want_own();
        trouble = (struct gyre_trouble){0};
    }
}

/* Each call of CUDA that open makes fails once: a status, a sentence, and nothing left. */
static void test_open_fails(void **state)
{
    if (!fakecuda_stands_in())
        skip();
    static const char *const call[] = {"cuStreamCreateWithPriority", "cuEventCreate",
                                       "cudaLaunchKernel", NULL};
    struct fakecuda_alive before = fakecuda_alive();
    for (int i = 0; call[i]; i++) {
        struct gyre_processor *fresh = NULL;
        fakecuda_fail(call[i], 1, CUDA_ERROR_UNKNOWN);
        int status = gyre_processor_open(&fresh, GYRE_MEMORY_CUDA, 0, &trouble);
        fakecuda_fail(NULL, 0, CUDA_SUCCESS);
        if (!status)
            gyre_processor_close(fresh);
        else
            assert_true(trouble.text[0]);
        assert_int_equal(status != 0, i < 2);
        assert_int_equal(fakecuda_alive().streams, before.streams);
        assert_int_equal(fakecuda_alive().events, before.events);
        assert_int_equal(fakecuda_alive().bytes, before.bytes);
    }
}

/* -- steps that repeat ------------------------------------------------------------------------- */

struct repeated {
    struct gyre_processor *on;
    float *told, *weight, *out; /* the first: of the host, in each step */
};

/* out = 2 (told weight + bias), of which the bias is told, too. */
static void make_step(const struct repeated *r, float number)
{
    enum { SIDE = 8, EACH = SIDE * SIDE };
    float told[EACH];
    for (int i = 0; i < EACH; i++)
        told[i] = number + (float)i;
    const struct gyre_product product = {.form = GYRE_DENSE_NT,
                                         .m = SIDE,
                                         .n = SIDE,
                                         .k = SIDE,
                                         .alpha = 1,
                                         .a = r->told,
                                         .b = r->weight,
                                         .c = r->out,
                                         .lda = SIDE,
                                         .ldb = SIDE,
                                         .ldc = SIDE};
    const struct gyre_epilogue then = {.kind = GYRE_THEN_BIAS, .bias = r->told + EACH};
    const struct gyre_processor_table *table = r->on->table;
    assert_int_equal(table->put(r->on, r->told + EACH, told, SIDE * sizeof *told, &trouble), 0);
    assert_int_equal(table->put(r->on, r->told, told, sizeof told, &trouble), 0);
    if (!table->multiply_then(r->on, &product, GYRE_PRECISION_F32, &then)) {
        table->multiply(r->on, &(struct gyre_products){.first = product, .count = 1});
        table->add_bias(r->on, r->out, then.bias, SIDE, SIDE, false);
    }
    table->scale(r->on, r->out, EACH, 2);
}

static void expect_step(const struct repeated *r, float number)
{
    float out[64];
    assert_int_equal(r->on->table->get(r->on, out, r->out, sizeof out, &trouble), 0);
    for (int i = 0; i < 64; i++) /* the weight is 1 on its diagonal, else 0 */
        assert_true(out[i] == 2 * (number + (float)i + number + (float)(i % 8)));
}

static void open_repeated(struct repeated *r)
{
    float weight[64] = {0};
    for (int i = 0; i < 8; i++)
        weight[i * 9] = 1;
    assert_int_equal(gyre_processor_open(&r->on, GYRE_MEMORY_CUDA, 0, &trouble), 0);
    r->told = gyre_processor_told(r->on, 128 * sizeof *r->told);
    r->weight = r->on->table->alloc(r->on, sizeof weight);
    r->out = r->on->table->alloc(r->on, sizeof weight);
    assert_true(r->told && r->weight && r->out);
    assert_int_equal(r->on->table->put(r->on, r->weight, weight, sizeof weight, &trouble), 0);
}

/* A step by its launches, recorded, and by its graph. */
static void check_repeats(void)
{
    struct repeated r;
    struct gyre_processor_graph *graph = NULL;
    open_repeated(&r);
    make_step(&r, 1);
    assert_int_equal(r.on->table->record(r.on, &trouble), 0);
    make_step(&r, 2);
    assert_int_equal(r.on->table->keep(r.on, &graph, &trouble), 0);
    assert_true(r.on->table->graph_launches(graph) >= 2);
    assert_int_equal(r.on->table->prepare_graph(r.on, graph, &trouble), 0);
    expect_step(&r, 2);
    for (int step = 3; step < 6; step++) {
        const int copies = fakecuda_calls("cuMemcpyAsync"),
                  launches = fakecuda_calls("cudaLaunchKernel");
        r.on->table->replace(r.on, graph);
        make_step(&r, (float)step);
        assert_int_equal(r.on->table->repeat(r.on, &trouble), 0);
        if (fakecuda_stands_in()) {
            assert_int_equal(fakecuda_calls("cuMemcpyAsync") - copies, 1);
            assert_int_equal(fakecuda_calls("cudaLaunchKernel"), launches);
        }
        expect_step(&r, (float)step);
    }
    make_step(&r, 7);
    expect_step(&r, 7);
    r.on->table->replace(r.on, graph); /* another step than was recorded */
    r.on->table->scale(r.on, r.out, 1, 2);
    assert_int_equal(r.on->table->repeat(r.on, &trouble), -EIO);
    assert_non_null(strstr(trouble.text, "made 1 launches"));
    trouble = (struct gyre_trouble){0};
    r.on->table->graph_free(r.on, graph);
    gyre_processor_close(r.on);
}

static void test_repeats(void **state)
{
    check_repeats();
    if (!fakecuda_stands_in())
        return;
    want_fused("3"); /* products by cuBLAS */
    check_repeats();
    want_fused("1"); /* and what follows them by cuBLASLt */
    check_repeats();
    want_own();
}

/* A product that cannot be recorded: the step is made, and there is no graph. */
static void test_recording_fails(void **state)
{
    struct repeated r;
    struct gyre_processor_graph *graph = NULL;
    if (!fakecuda_stands_in())
        skip();
    want_fused("3");
    open_repeated(&r);
    make_step(&r, 1);
    assert_int_equal(r.on->table->record(r.on, &trouble), 0);
    fakecuda_fail("cublasGemmStridedBatchedEx", 2, CUDA_ERROR_UNKNOWN);
    make_step(&r, 2);
    assert_true(r.on->table->keep(r.on, &graph, &trouble) < 0);
    assert_null(graph);
    expect_step(&r, 2);
    trouble = (struct gyre_trouble){0};
    gyre_processor_close(r.on);
    want_own();
}

/* A launch that fails is told by the next get. */
static void test_launch_fails(void **state)
{
    if (!fakecuda_stands_in())
        skip();
    struct gyre_processor *fresh = NULL;
    float back;
    assert_int_equal(gyre_processor_open(&fresh, GYRE_MEMORY_CUDA, 0, &trouble), 0);
    float *x = fresh->table->alloc(fresh, sizeof back);
    assert_non_null(x);
    fakecuda_fail("cudaLaunchKernel", 1, CUDA_ERROR_UNKNOWN);
    fresh->table->relu(fresh, x, x, 1);
    memset(&trouble, 0, sizeof trouble);
    assert_true(fresh->table->get(fresh, &back, x, sizeof back, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "CUDA device 0 has failed"));
    gyre_processor_close(fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_travels, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_rows, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_elements, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_steps, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_step_all, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_squares, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_looks, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_halves, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_order, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_losses, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_products, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_layers, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_convolution, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_norm_sums, open_both, close_both),
        cmocka_unit_test_setup_teardown(test_training, open_both, close_both),
        cmocka_unit_test(test_network),
        cmocka_unit_test_setup_teardown(test_cublas, open_both, close_both),
        cmocka_unit_test(test_fused_training),
        cmocka_unit_test(test_fused_alignment),
        cmocka_unit_test(test_fused_fails),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_recording_fails),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_launch_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
