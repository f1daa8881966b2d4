/* The fold queue over the stand-in: tickets in order, a queue that is full, gates, and everything
 * that a device can refuse. */
#include "collectives/staging/fold_queue.h"
#include "collectives/staging/stream_wait.h"
#include "collectives/kernels/reduce.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <sched.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 100000, MANY = 3 * GYRE_DEVICE_POSTS };

static struct gyre_fold_queue fold_queue;
static struct gyre_region region;
static uint8_t host[LENGTH], back[LENGTH];
static struct gyre_trouble trouble;

static int set_up(void **state)
{
    (void)state;
    fold_queue = (struct gyre_fold_queue){0};
    trouble = (struct gyre_trouble){0};
    gyre_fold_queue_init(&fold_queue, 0);
    for (int i = 0; i < LENGTH; i++)
        host[i] = (uint8_t)(i * 7 >> 3 ^ i);
    memset(back, 0, LENGTH);
    return fold_queue.device->alloc(0, LENGTH, GYRE_SHARE_OPEN, &region, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    fakecuda_hold(false);
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    fakecuda_heal();
    gyre_fold_queue_deinit(&fold_queue);
    gyre_fold_queue_deinit(&fold_queue);
    assert_false(gyre_fold_queue_busy(&fold_queue));
    fold_queue.device->free(&region);
    return 0;
}

static void open_it(void)
{
    assert_int_equal(gyre_fold_queue_open(&fold_queue, &trouble), 0);
    assert_int_equal(gyre_fold_queue_open(&fold_queue, &trouble), 0);
}

/* -- work -------------------------------------------------------------------------------------- */

static void tickets_are_done_in_order(void **state)
{
    (void)state;
    open_it();
    fakecuda_hold(true);
    uint64_t first = gyre_fold_queue_copy(&fold_queue, region.base, host, LENGTH);
    uint64_t second = gyre_fold_queue_copy(&fold_queue, back, region.base, LENGTH);
    assert_int_equal(second, first + 1);
    assert_false(gyre_fold_queue_poll(&fold_queue));
    assert_false(gyre_fold_queue_done(&fold_queue, first));
    assert_true(gyre_fold_queue_busy(&fold_queue));
    assert_int_equal(gyre_fold_queue_room(&fold_queue), GYRE_DEVICE_POSTS - 2);
    fakecuda_hold(false);
    assert_int_equal(gyre_fold_queue_await(&fold_queue, second), 0);
    assert_true(gyre_fold_queue_done(&fold_queue, first));
    assert_memory_equal(back, host, LENGTH);
    assert_int_equal(gyre_fold_queue_copy(&fold_queue, back, region.base, 0),
                     second); /* nothing to do */
}

/* Without it, copies are seen before they are made. */
static void what_is_awaited_is_there(void **state)
{
    (void)state;
    open_it();
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, region.base, host, LENGTH, true), 0);
    fakecuda_hold(true);
    fakecuda_skip("cuEventQuery", true);
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, back, region.base, LENGTH, true), 0);
    fakecuda_skip("cuEventQuery", false);
    assert_memory_not_equal(back, host, LENGTH);
    fakecuda_hold(false);
    fakecuda_wait();
    assert_memory_equal(back, host, LENGTH);
}

/* Who posts more than the queue holds waits for the oldest. */
static void a_full_queue_makes_room(void **state)
{
    uint64_t last = 0;
    (void)state;
    open_it();
    for (int i = 0; i < MANY; i++)
        last =
            gyre_fold_queue_copy(&fold_queue, (uint8_t *)region.base + i, host + i, LENGTH - MANY);
    assert_int_equal(gyre_fold_queue_await(&fold_queue, last), 0);
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, back, region.base, LENGTH - 1, true), 0);
    assert_memory_equal(back, host, LENGTH - 1);
}

static void copies_of_any_memory(void **state)
{
    (void)state;
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, back, host, LENGTH, false), 0);
    assert_memory_equal(back, host, LENGTH);
    assert_null(fold_queue.work.queue); /* it was not needed */
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, region.base, host, LENGTH, true), 0);
    memset(back, 0, LENGTH);
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, back, region.base, LENGTH, true), 0);
    assert_memory_equal(back, host, LENGTH);
}

/* One question tells kind and owner; of the host's memory, too. */
static void memory_is_recognised_at_once(void **state)
{
    enum gyre_memory_kind kind;
    (void)state;
    int before = fakecuda_calls("cuPointerGetAttributes");
    assert_int_equal(gyre_fold_queue_recognise(&fold_queue, region.base, &kind, &trouble), 0);
    assert_int_equal(kind, GYRE_MEMORY_CUDA);
    assert_int_equal(gyre_fold_queue_recognise(&fold_queue, host, &kind, &trouble), 0);
    assert_int_equal(kind, GYRE_MEMORY_HOST);
    assert_int_equal(fakecuda_calls("cuPointerGetAttributes"), before + 2);
}

static struct gyre_fold_task task_of(void **to, const void **from)
{
    return (struct gyre_fold_task){
        .destination = to, .destinations = 1, .source = from, .sources = 1, .count = 8};
}

static void folds_are_posts(void **state)
{
    void *to = (uint8_t *)region.base + 64;
    const void *from = region.base;
    struct gyre_fold_task task = task_of(&to, &from);
    gyre_fold fold = gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_U8][GYRE_MAX];
    (void)state;
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, region.base, host, 8, true), 0);
    assert_int_equal(
        gyre_fold_queue_await(&fold_queue, gyre_fold_queue_fold(&fold_queue, fold, &task)), 0);
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, back, to, 8, true), 0);
    assert_memory_equal(back, host, 8);
}

/* -- a device that is lost --------------------------------------------------------------------- */

static void expect_lost(uint64_t ticket, const char *words)
{
    void *to = region.base;
    const void *from = region.base;
    struct gyre_fold_task task = task_of(&to, &from);
    gyre_fold fold = gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_U8][GYRE_MAX];
    assert_true(gyre_fold_queue_await(&fold_queue, ticket) < 0);
    assert_false(gyre_fold_queue_done(&fold_queue, ticket));
    assert_non_null(strstr(fold_queue.trouble.text, words));
    assert_true(gyre_fold_queue_open(&fold_queue, &trouble) < 0);
    assert_string_equal(trouble.text, fold_queue.trouble.text);
    assert_false(gyre_fold_queue_poll(&fold_queue));
    assert_true(gyre_fold_queue_copy_now(&fold_queue, region.base, host, 1, true) < 0);
    assert_false(gyre_fold_queue_done(&fold_queue, gyre_fold_queue_fold(&fold_queue, fold, &task)));
}

/* A copy that fails when all of the post is on the queue. */
static void lose_at_work(void)
{
    fakecuda_fail("copy", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    fakecuda_hold(true);
    uint64_t ticket = gyre_fold_queue_copy(&fold_queue, region.base, host, 8);
    fakecuda_hold(false);
    expect_lost(ticket, "work failed");
}

static void a_copy_that_is_refused(void **state)
{
    (void)state;
    open_it();
    fakecuda_fail("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE);
    expect_lost(gyre_fold_queue_copy(&fold_queue, region.base, host, 8), "a copy failed");
}

static void a_fold_that_is_refused(void **state)
{
    void *to = region.base;
    const void *from = region.base;
    struct gyre_fold_task task = task_of(&to, &from);
    gyre_fold fold = gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_U8][GYRE_MAX];
    (void)state;
    open_it();
    fakecuda_fail("cudaLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED);
    expect_lost(gyre_fold_queue_fold(&fold_queue, fold, &task), "a fold failed");
}

static void work_that_fails(void **state)
{
    (void)state;
    open_it();
    lose_at_work();
}

/* A queue that could not be made is asked for again. */
static void a_queue_that_is_refused(void **state)
{
    (void)state;
    fakecuda_fail("cuStreamCreateWithPriority", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gyre_fold_queue_open(&fold_queue, &trouble), -ENOMEM);
    assert_non_null(strstr(trouble.text, "cuStreamCreateWithPriority"));
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, region.base, host, 8, true), 0);
}

/* Kernels are loaded before there is a queue, so that no launch has to wait for a held stream. */
static void kernels_that_cannot_be_loaded(void **state)
{
    (void)state;
    assert_int_equal(fakecuda_calls("cudaFuncGetAttributes"), 0);
    fakecuda_fail("cudaFuncGetAttributes", 3, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gyre_fold_queue_open(&fold_queue, &trouble), -ENOMEM);
    assert_non_null(strstr(trouble.text, "loading kernels on CUDA device 0"));
    open_it();
    int calls = fakecuda_calls("cudaFuncGetAttributes");
    gyre_fold_queue_deinit(&fold_queue);
    open_it();
    assert_int_equal(fakecuda_calls("cudaFuncGetAttributes"), calls);
}

/* -- gates ------------------------------------------------------------------------------------- */

static CUstream make_stream(void)
{
    CUcontext context;
    CUstream stream;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static void drop_stream(CUstream stream)
{
    CUcontext context;
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
}

/* The stream copies, tells so, and goes on when the host says so: no call in between. */
static void a_stream_copies_writes_and_waits(void **state)
{
    struct gyre_stream_wait way;
    bool captured = true;
    static _Alignas(4096) uint8_t locked[4096];
    (void)state;
    CUstream stream = make_stream();
    assert_int_equal(fold_queue.device->pin(0, locked, sizeof(locked), &trouble), 0);
    assert_int_equal(gyre_fold_queue_check_stream(&fold_queue, stream, &captured, &trouble), 0);
    assert_false(captured);
    assert_int_equal(gyre_stream_wait_take(&way, 2, &trouble), 0);
    const struct gyre_stream_word words[] = {{way.arrived, way.value, true},
                                             {way.word, way.value, false},
                                             {way.passed, way.value, true}};
    memset(locked, 7, sizeof(locked));
    assert_int_equal(
        gyre_fold_queue_copy_on(&fold_queue, stream, region.base, locked, 4096, &trouble), 0);
    assert_int_equal(gyre_fold_queue_words_on(&fold_queue, stream, words, 3, &trouble), 0);
    gyre_stream_wait_expect(&way);
    while (!gyre_stream_wait_steps(&way))
        sched_yield();
    assert_int_equal(gyre_stream_wait_steps(&way), 2);
    assert_false(gyre_stream_wait_passed(&way));
    assert_false(gyre_quiet_begin());
    gyre_stream_wait_give(&way);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_true(gyre_stream_wait_passed(&way));
    assert_true(gyre_quiet_begin());
    gyre_quiet_end();
    assert_int_equal(gyre_fold_queue_copy_now(&fold_queue, back, region.base, 4096, true), 0);
    assert_memory_equal(back, locked, 4096);
    drop_stream(stream);
    fold_queue.device->unpin(0, locked);
}

static void streams_that_are_refused(void **state)
{
    bool captured = false;
    (void)state;
    CUstream stream = make_stream();
    open_it();
    fakecuda_capture(stream, true);
    assert_int_equal(gyre_fold_queue_check_stream(&fold_queue, stream, &captured, &trouble), 0);
    assert_true(captured);
    fakecuda_capture(stream, false);
    fakecuda_fail("cuStreamIsCapturing", 1, CUDA_ERROR_INVALID_HANDLE);
    assert_true(gyre_fold_queue_check_stream(&fold_queue, stream, &captured, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "cuStreamIsCapturing"));
    drop_stream(stream);
}

static void a_stream_of_a_lost_device(void **state)
{
    bool captured;
    (void)state;
    CUstream stream = make_stream();
    open_it();
    lose_at_work();
    assert_true(gyre_fold_queue_check_stream(&fold_queue, stream, &captured, &trouble) < 0);
    fakecuda_heal();
    drop_stream(stream);
}

/* -- none -------------------------------------------------------------------------------------- */

static void a_process_without_a_device(void **state)
{
    struct gyre_fold_queue none = {0};
    (void)state;
    gyre_fold_queue_init(&none, -1);
    assert_false(gyre_fold_queue_poll(&none));
    assert_int_equal(gyre_fold_queue_copy_now(&none, back, host, LENGTH, false), 0);
    assert_memory_equal(back, host, LENGTH);
    gyre_fold_queue_deinit(&none);
}

/* A rank without a device knows device memory from the host's, however often it asks. */
static void memory_of_a_device_is_foreign_to_a_rank_without(void **state)
{
    struct gyre_fold_queue without = {0};
    enum gyre_memory_kind kind;
    gyre_fold_queue_init(&without, -1);
    for (int i = 0; i < 3; i++) {
        assert_true(gyre_fold_queue_is_foreign(&without, region.base));
        assert_false(gyre_fold_queue_is_foreign(&without, host));
        assert_int_equal(gyre_fold_queue_recognise(&without, host, &kind, &trouble), 0);
        assert_int_equal(kind, GYRE_MEMORY_HOST);
        assert_int_equal(gyre_fold_queue_recognise(&without, region.base, &kind, &trouble),
                         GYRE_INVALID);
        assert_non_null(strstr(trouble.text, "no CUDA device"));
        trouble.status = 0;
    }
    assert_false(gyre_fold_queue_is_foreign(&fold_queue, region.base));
    gyre_fold_queue_deinit(&without);
}

#define FOLD_QUEUE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLD_QUEUE_TEST(kernels_that_cannot_be_loaded),
        FOLD_QUEUE_TEST(tickets_are_done_in_order),
        FOLD_QUEUE_TEST(memory_of_a_device_is_foreign_to_a_rank_without),
        FOLD_QUEUE_TEST(what_is_awaited_is_there),
        FOLD_QUEUE_TEST(a_full_queue_makes_room),
        FOLD_QUEUE_TEST(copies_of_any_memory),
        FOLD_QUEUE_TEST(memory_is_recognised_at_once),
        FOLD_QUEUE_TEST(folds_are_posts),
        FOLD_QUEUE_TEST(a_copy_that_is_refused),
        FOLD_QUEUE_TEST(a_fold_that_is_refused),
        FOLD_QUEUE_TEST(work_that_fails),
        FOLD_QUEUE_TEST(a_queue_that_is_refused),
        FOLD_QUEUE_TEST(a_stream_copies_writes_and_waits),
        FOLD_QUEUE_TEST(streams_that_are_refused),
        FOLD_QUEUE_TEST(a_stream_of_a_lost_device),
        FOLD_QUEUE_TEST(a_process_without_a_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
