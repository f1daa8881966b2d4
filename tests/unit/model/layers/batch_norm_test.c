/* Batch norm against figures worked out by hand, in training and evaluation, and over several
 * ranks: a batch that is cut among ranks, of unequal sizes and even without a sample, must give
 * what one process gives for the whole batch. The ranks are threads here; their sum is a
 * barrier. */
#include "unit/model/layers/layer_rig.h"
#include "rig/test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void assert_near(double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance * (1 + fabs(wanted))))
        fail_msg("%.9g is not within %g of %.9g", got, tolerance, wanted);
}

static const float *floats_of(const struct layer_rig *rig, int buffer)
{
    return rig->layer.buffer[buffer].value;
}

/* -- one rank ---------------------------------------------------------------------------------- */

/* 1 2 3 6: mean 3, variance 14 / 4 = 3.5, its estimate 14 / 3. */
static void test_by_hand(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_batch_norm, .name = "bn", .in = {1, 1, 2}};
    struct layer_rig rig;
    layer_rig_init(&rig, &layer, 2, 1);
    memcpy(rig.x, (float[]){1, 2, 3, 6}, 4 * sizeof(float));
    rig.layer.parameter[0].value[0] = 2;
    rig.layer.parameter[1].value[0] = 10;
    layer_rig_forward(&rig);
    for (int i = 0; i < 4; i++)
        assert_near((double)rig.y[i], 10 + 2 * ((double)rig.x[i] - 3) / sqrt(3.5 + 1e-5), 1e-6);
    assert_near((double)floats_of(&rig, 0)[0], 0.3, 1e-6);
    assert_near((double)floats_of(&rig, 1)[0], 0.9 + 14.0 / 30, 1e-6);
    assert_int_equal(*(int64_t *)rig.layer.buffer[2].value, 1);
    assert_string_equal(rig.layer.buffer[2].name, "bn.num_batches_tracked");
    assert_int_equal(rig.layer.buffer[2].dims, 0);
    rig.pass.train = false;
    layer_rig_forward(&rig);
    double deviation = sqrt(0.9 + 14.0 / 30 + 1e-5);
    assert_near((double)rig.y[3], 10 + 2 * (6 - 0.3) / deviation, 1e-6);
    assert_int_equal(*(int64_t *)rig.layer.buffer[2].value, 1);
    layer_rig_deinit(&rig);
}

/* The digits that a sum of squares in float would lose: the outputs are shifted by the rounding of
 * one number, but their distances are right. */
static void test_far_from_zero(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_batch_norm, .in = {1, 1, 4}};
    struct layer_rig rig;
    layer_rig_init(&rig, &layer, 1, 2);
    memcpy(rig.x, (float[]){10000, 10001, 10002, 10005}, 4 * sizeof(float));
    rig.layer.parameter[0].value[0] = 1;
    rig.layer.parameter[1].value[0] = 0;
    layer_rig_forward(&rig);
    assert_near((double)rig.y[3] - (double)rig.y[0], 5 / sqrt(3.5 + 1e-5), 1e-6);
    assert_near((double)floats_of(&rig, 1)[0], 0.9 + 14.0 / 30, 1e-6);
    layer_rig_deinit(&rig);
}

static void test_one_value(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_batch_norm, .name = "b", .in = {3, 1, 1}};
    struct layer_rig rig;
    layer_rig_init(&rig, &layer, 1, 3);
    assert_int_equal(layer_rig_try_forward(&rig), GYRE_INVALID);
    assert_non_null(strstr(rig.pass.trouble->text, "batch norm b: one value in each channel"));
    assert_int_equal(*(int64_t *)rig.layer.buffer[2].value, 0);
    layer_rig_deinit(&rig);
}

/* -- several ranks ----------------------------------------------------------------------------- */

#define RANKS 3

static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double total[64];

static int sum_over_ranks(void *context, double *values, size_t count)
{
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        memset(total, 0, sizeof total);
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        total[i] += values[i];
    pthread_mutex_unlock(&lock);
    pthread_barrier_wait(&barrier);
    memcpy(values, total, count * sizeof *values);
    return 0;
}

static void *run_rank(void *context)
{
    struct layer_rig *rig = context;
    int failed = layer_rig_try_forward(rig) || layer_rig_backward(rig, rig->dy);
    return failed ? context : NULL;
}

/* Cuts `whole`'s batch among the ranks and runs them together. */
static void run_ranks(const struct layer_rig *whole, struct layer_rig *rank, const size_t *samples)
{
    const size_t each = gyre_volume_count(whole->layer.in);
    pthread_t thread[RANKS];
    size_t at = 0;
    for (int r = 0; r < RANKS; at += samples[r++] * each) {
        layer_rig_init(&rank[r], &whole->layer, samples[r], 9);
        memcpy(rank[r].x, whole->x + at, samples[r] * each * sizeof(float));
        memcpy(rank[r].dy, whole->dy + at, samples[r] * each * sizeof(float));
        for (int p = 0; p < 2; p++)
            memcpy(rank[r].layer.parameter[p].value, whole->layer.parameter[p].value,
                   whole->layer.in.channels * sizeof(float));
        rank[r].pass.synced = true;
        rank[r].sum = sum_over_ranks;
        assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &rank[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        void *failed;
        pthread_join(thread[r], &failed);
        assert_null(failed);
    }
}

static void compare_ranks(const struct layer_rig *whole, const struct layer_rig *rank)
{
    const size_t channels = whole->layer.in.channels;
    size_t at = 0;
    for (int r = 0; r < RANKS; at += rank[r++].in) {
        for (size_t i = 0; i < rank[r].in; i++) {
            assert_near((double)rank[r].y[i], (double)whole->y[at + i], 1e-6);
            assert_near((double)rank[r].dx[i], (double)whole->dx[at + i], 1e-6);
        }
        for (size_t c = 0; c < channels; c++) {
            assert_near((double)floats_of(&rank[r], 0)[c], (double)floats_of(whole, 0)[c], 1e-6);
            assert_near((double)floats_of(&rank[r], 1)[c], (double)floats_of(whole, 1)[c], 1e-6);
        }
    }
    for (int p = 0; p < 2; p++) {
        for (size_t c = 0; c < channels; c++) {
            double sum = 0;
            for (int r = 0; r < RANKS; r++)
                sum += (double)rank[r].layer.parameter[p].gradient[c];
            assert_near(sum, (double)whole->layer.parameter[p].gradient[c], 2e-6);
        }
    }
}

static void test_ranks_equal_one_process(void **state)
{
    static const size_t cut[][RANKS] = {{3, 3, 3}, {7, 1, 1}, {5, 0, 4}, {0, 9, 0}};
    const struct gyre_layer layer = {.kind = &gyre_layer_batch_norm, .in = {4, 3, 3}};
    struct layer_rig whole, rank[RANKS];
    pthread_barrier_init(&barrier, NULL, RANKS);
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        layer_rig_init(&whole, &layer, 9, 4);
        for (size_t j = 0; j < whole.in; j++)
            whole.x[j] = whole.x[j] * 3 + 5;
        run_ranks(&whole, rank, cut[i]);
        assert_null(run_rank(&whole));
        compare_ranks(&whole, rank);
        for (int r = 0; r < RANKS; r++)
            layer_rig_deinit(&rank[r]);
        layer_rig_deinit(&whole);
    }
    pthread_barrier_destroy(&barrier);
}

/* A failed sum ends the pass with its status. */
static int fail_to_sum(void *context, double *values, size_t count)
{
    return --*(int *)context < 0 ? GYRE_PEER_LOST : 0;
}

static void test_failed_sum(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_batch_norm, .in = {4, 3, 3}};
    struct layer_rig rig;
    layer_rig_init(&rig, &layer, 2, 5);
    int good;
    rig.pass.synced = true;
    rig.sum = fail_to_sum;
    rig.sum_context = &good;
    for (int calls = 0; calls < 3; calls++) {
        good = calls;
        int status = layer_rig_try_forward(&rig);
        assert_int_equal(status, calls < 2 ? GYRE_PEER_LOST : 0);
    }
    assert_int_equal(layer_rig_backward(&rig, rig.dy), GYRE_PEER_LOST);
    layer_rig_deinit(&rig);
}

static int get_nothing(struct gyre_processor *on, void *to, const void *from, size_t bytes,
                       struct gyre_trouble *trouble)
{
    return GYRE_PEER_LOST;
}

/* Nor does it go on with another number of samples than all ranks have. */
static void test_samples_that_do_not_come(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_batch_norm, .in = {4, 3, 3}};
    struct layer_rig rig;
    int good = 2;
    layer_rig_init(&rig, &layer, 2, 5);
    struct gyre_processor_table table = *rig.pass.on->table;
    const struct gyre_processor_table *whole = rig.pass.on->table;
    table.get = get_nothing;
    rig.pass.synced = true;
    rig.sum = fail_to_sum;
    rig.sum_context = &good;
    rig.pass.on->table = &table;
    assert_int_equal(layer_rig_try_forward(&rig), GYRE_PEER_LOST);
    rig.pass.on->table = whole;
    layer_rig_deinit(&rig);
}

/* No rank has a sample: nothing is learned, nothing fails. */
static void test_no_sample_at_all(void **state)
{
    const struct gyre_layer layer = {.kind = &gyre_layer_batch_norm, .in = {4, 3, 3}};
    struct layer_rig rig;
    layer_rig_init(&rig, &layer, 2, 6);
    rig.pass.samples = 0;
    layer_rig_forward(&rig);
    assert_int_equal(layer_rig_backward(&rig, rig.dy), 0);
    assert_true(rig.layer.parameter[0].gradient[2] == 0);
    assert_int_equal(*(int64_t *)rig.layer.buffer[2].value, 0);
    assert_true(floats_of(&rig, 0)[1] == 0 && floats_of(&rig, 1)[1] == 1);
    layer_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_far_from_zero),
        cmocka_unit_test(test_one_value),
        cmocka_unit_test(test_ranks_equal_one_process),
        cmocka_unit_test(test_failed_sum),
        cmocka_unit_test(test_no_sample_at_all),
        cmocka_unit_test(test_samples_that_do_not_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
