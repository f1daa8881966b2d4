/* Batches brought ahead (model/network/feed.h), over the stand-in for CUDA: a batch comes while the
 * step before computes, and none is written over while a step still reads it. A step that computes
 * is a stream that waits for a word of the host's. */
#include "model/network/feed.h"
#include "rig/test.h"
#include "stand_in/fakecuda/fakecuda.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ROWS = 3000, FEATURES = 40, COUNT = ROWS * FEATURES };

static struct gyre_processor *on, *beside;
static struct gyre_trouble trouble;
static struct gyre_feed feed;
static _Atomic uint64_t *word;
static float x[COUNT], back[COUNT];

static void good(int status)
{
    if (status)
        fail_msg("%s", trouble.text);
}

static int enter(void **state)
{
    CUcontext context;
    word = aligned_alloc(4096, 4096);
    atomic_store(word, 0);
    good(gyre_processor_open(&on, GYRE_MEMORY_CUDA, 0, &trouble));
    good(gyre_processor_open_beside(&beside, GYRE_MEMORY_CUDA, 0, &trouble));
    gyre_feed_init(&feed, on, ROWS, FEATURES);
    assert_true(gyre_feed_has(&feed));
    return cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent(context) ||
           cuMemHostRegister((void *)(uintptr_t)word, 4096,
                             CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
}

static int leave(void **state)
{
    CUcontext context;
    atomic_store(word, UINT64_MAX >> 1); /* also behind a test that has failed */
    gyre_feed_deinit(&feed);
    gyre_processor_close(beside);
    gyre_processor_close(on);
    cuMemHostUnregister((void *)(uintptr_t)word);
    cuCtxPopCurrent(&context);
    free((void *)(uintptr_t)word);
    return fakecuda_alive().bytes || fakecuda_alive().locked;
}

static struct gyre_feed_batch batch_of(int number)
{
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(number * 1000 + i % 997);
    return (struct gyre_feed_batch){x, ROWS, 0, (uint64_t)number};
}

/* By a stream of nobody's: what is there now. */
static void has(const float *rows, int number)
{
    good(beside->table->get(beside, back, rows, sizeof back, &trouble));
    for (int i = 0; i < COUNT; i++)
        if (back[i] != (float)(number * 1000 + i % 997))
            fail_msg("element %d of batch %d is %g", i, number, (double)back[i]);
}

static const float *take(int number)
{
    const struct gyre_feed_batch batch = batch_of(number);
    const float *rows;
    good(gyre_feed_take(&feed, &batch, &rows, &trouble));
    return rows;
}

static void bring(int number)
{
    const struct gyre_feed_batch batch = batch_of(number);
    good(gyre_feed_bring(&feed, &batch, &trouble));
}

/* The step's stream stands until the word is as large. */
static void compute_until(uint64_t value)
{
    assert_int_equal(cuStreamWaitValue64(on->table->stream(on), (CUdeviceptr)(uintptr_t)word, value,
                                         CU_STREAM_WAIT_VALUE_GEQ),
                     0);
}

/* The carrier comes to its end while the step stands. */
static void test_comes_while_a_step_computes(void **state)
{
    const float *first = take(1);
    compute_until(1);
    bring(2);
    good(feed.carrier->table->wait(feed.carrier, &trouble));
    has(first, 1);
    has(feed.rows[!feed.turn], 2);
    atomic_store(word, 1);
    has(take(2), 2);
}

/* Two steps stand, and a third batch was brought: the first one's rows are as they were. */
static void test_nothing_is_written_over(void **state)
{
    const float *first = take(1);
    compute_until(1);
    bring(2);
    const float *second = take(2);
    compute_until(2);
    bring(3);
    for (int look = 0; look < 16; look++) /* the device turns to any stream that is ready */
        has(first, 1);
    has(second, 2);
    atomic_store(word, 1);
    good(feed.carrier->table->wait(feed.carrier, &trouble)); /* the first step has ended */
    has(first, 3);
    has(second, 2);
    atomic_store(word, 2);
    assert_ptr_equal(take(3), first);
}

/* What was brought and is not taken, and what is taken and was not brought. */
static void test_other_batches(void **state)
{
    take(1);
    bring(2);
    gyre_feed_forget(&feed);
    const float *other = take(7);
    good(on->table->wait(on, &trouble));
    has(other, 7);
    bring(8);
    other = take(9);
    good(on->table->wait(on, &trouble));
    has(other, 9);
}

/* A feed for which there is no memory is none. */
static void test_no_memory(void **state)
{
    struct gyre_feed none;
    fakecuda_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    gyre_feed_init(&none, on, 1 << 20, 64);
    assert_false(gyre_feed_has(&none));
    gyre_feed_deinit(&none);
}

/* A copy that fails is told by the next batch, or by the step. */
static void test_device_fails(void **state)
{
    const float *rows;
    take(1);
    fakecuda_hold(true);
    bring(2);
    fakecuda_fail("copy", 1, CUDA_ERROR_LAUNCH_FAILED);
    fakecuda_hold(false);
    assert_true(feed.carrier->table->wait(feed.carrier, &trouble) < 0);
    const struct gyre_feed_batch batch = batch_of(3);
    assert_true(gyre_feed_take(&feed, &batch, &rows, &trouble) < 0);
    fakecuda_heal();
}

int main(void)
{
    setenv("GYRE_BLAS", "own", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_comes_while_a_step_computes, enter, leave),
        cmocka_unit_test_setup_teardown(test_nothing_is_written_over, enter, leave),
        cmocka_unit_test_setup_teardown(test_other_batches, enter, leave),
        cmocka_unit_test_setup_teardown(test_no_memory, enter, leave),
        cmocka_unit_test_setup_teardown(test_device_fails, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
