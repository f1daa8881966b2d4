/* The carrier over the stand-in: tickets in order, a queue that is full, gates, and everything that
 * a device can refuse. */
#include "collectives/staging/device_queue.h"
#include "collectives/kernels/reduce.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 100000, MANY = 3 * GYRE_DEVICE_POSTS };

static struct gyre_carrier carrier;
static struct gyre_region region;
static uint8_t host[LENGTH], back[LENGTH];
static struct gyre_trouble trouble;

static int set_up(void **state)
{
    (void)state;
    carrier = (struct gyre_carrier){0};
    trouble = (struct gyre_trouble){0};
    gyre_carrier_init(&carrier, 0);
    for (int i = 0; i < LENGTH; i++)
        host[i] = (uint8_t)(i * 7 >> 3 ^ i);
    memset(back, 0, LENGTH);
    return carrier.device->alloc(0, LENGTH, GYRE_SHARE_OPEN, &region, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    fakecuda_hold(false);
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    fakecuda_heal();
    gyre_carrier_deinit(&carrier);
    gyre_carrier_deinit(&carrier);
    assert_false(gyre_carrier_busy(&carrier));
    carrier.device->free(&region);
    return 0;
}

static void open_it(void)
{
    assert_int_equal(gyre_carrier_open(&carrier, &trouble), 0);
    assert_int_equal(gyre_carrier_open(&carrier, &trouble), 0);
}

/* -- work -------------------------------------------------------------------------------------- */

static void tickets_are_done_in_order(void **state)
{
    (void)state;
    open_it();
    fakecuda_hold(true);
    uint64_t first = gyre_carrier_copy(&carrier, region.base, host, LENGTH);
    uint64_t second = gyre_carrier_copy(&carrier, back, region.base, LENGTH);
    assert_int_equal(second, first + 1);
    assert_false(gyre_carrier_poll(&carrier));
    assert_false(gyre_carrier_done(&carrier, first));
    assert_true(gyre_carrier_busy(&carrier));
    assert_int_equal(gyre_carrier_room(&carrier), GYRE_DEVICE_POSTS - 2);
    fakecuda_hold(false);
    assert_int_equal(gyre_carrier_await(&carrier, second), 0);
    assert_true(gyre_carrier_done(&carrier, first));
    assert_memory_equal(back, host, LENGTH);
    assert_int_equal(gyre_carrier_copy(&carrier, back, region.base, 0), second); /* nothing to do */
}

/* Without it, copies are seen before they are made. */
static void what_is_awaited_is_there(void **state)
{
    (void)state;
    open_it();
    assert_int_equal(gyre_carrier_copy_now(&carrier, region.base, host, LENGTH), 0);
    fakecuda_hold(true);
    fakecuda_skip("cuEventQuery", true);
    assert_int_equal(gyre_carrier_copy_now(&carrier, back, region.base, LENGTH), 0);
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
        last = gyre_carrier_copy(&carrier, (uint8_t *)region.base + i, host + i, LENGTH - MANY);
    assert_int_equal(gyre_carrier_await(&carrier, last), 0);
    assert_int_equal(gyre_carrier_copy_now(&carrier, back, region.base, LENGTH - 1), 0);
    assert_memory_equal(back, host, LENGTH - 1);
}

static void copies_of_any_memory(void **state)
{
    (void)state;
    assert_int_equal(gyre_carrier_copy_now(&carrier, back, host, LENGTH), 0);
    assert_memory_equal(back, host, LENGTH);
    assert_null(carrier.queue); /* it was not needed */
    assert_int_equal(gyre_carrier_copy_now(&carrier, region.base, host, LENGTH), 0);
    memset(back, 0, LENGTH);
    assert_int_equal(gyre_carrier_copy_now(&carrier, back, region.base, LENGTH), 0);
    assert_memory_equal(back, host, LENGTH);
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
    assert_int_equal(gyre_carrier_copy_now(&carrier, region.base, host, 8), 0);
    assert_int_equal(gyre_carrier_await(&carrier, gyre_carrier_fold(&carrier, fold, &task)), 0);
    assert_int_equal(gyre_carrier_copy_now(&carrier, back, to, 8), 0);
    assert_memory_equal(back, host, 8);
}

/* -- a device that is lost --------------------------------------------------------------------- */

static void expect_lost(uint64_t ticket, const char *words)
{
    void *to = region.base;
    const void *from = region.base;
    struct gyre_fold_task task = task_of(&to, &from);
    gyre_fold fold = gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_U8][GYRE_MAX];
    assert_true(gyre_carrier_await(&carrier, ticket) < 0);
    assert_false(gyre_carrier_done(&carrier, ticket));
    assert_non_null(strstr(carrier.trouble.text, words));
    assert_true(gyre_carrier_open(&carrier, &trouble) < 0);
    assert_string_equal(trouble.text, carrier.trouble.text);
    assert_false(gyre_carrier_poll(&carrier));
    assert_true(gyre_carrier_copy_now(&carrier, region.base, host, 1) < 0);
    assert_false(gyre_carrier_done(&carrier, gyre_carrier_fold(&carrier, fold, &task)));
}

/* A copy that fails when all of the post is on the queue. */
static void lose_at_work(void)
{
    fakecuda_fail("copy", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    fakecuda_hold(true);
    uint64_t ticket = gyre_carrier_copy(&carrier, region.base, host, 8);
    fakecuda_hold(false);
    expect_lost(ticket, "work failed");
}

static void a_copy_that_is_refused(void **state)
{
    (void)state;
    open_it();
    fakecuda_fail("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE);
    expect_lost(gyre_carrier_copy(&carrier, region.base, host, 8), "a copy failed");
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
    expect_lost(gyre_carrier_fold(&carrier, fold, &task), "a fold failed");
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
    assert_int_equal(gyre_carrier_open(&carrier, &trouble), -ENOMEM);
    assert_non_null(strstr(trouble.text, "cuStreamCreateWithPriority"));
    assert_int_equal(gyre_carrier_copy_now(&carrier, region.base, host, 8), 0);
}

/* Kernels are loaded before there is a queue, so that no launch has to wait for a held stream. */
static void kernels_that_cannot_be_loaded(void **state)
{
    (void)state;
    assert_int_equal(fakecuda_calls("cudaFuncGetAttributes"), 0);
    fakecuda_fail("cudaFuncGetAttributes", 3, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gyre_carrier_open(&carrier, &trouble), -ENOMEM);
    assert_non_null(strstr(trouble.text, "loading kernels on CUDA device 0"));
    open_it();
    int calls = fakecuda_calls("cudaFuncGetAttributes");
    gyre_carrier_deinit(&carrier);
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

static void a_gate_is_behind_the_stream(void **state)
{
    uint64_t gate;
    (void)state;
    CUstream stream = make_stream();
    fakecuda_hold(true);
    assert_int_equal(cuMemcpyAsync((CUdeviceptr)(uintptr_t)region.base,
                                   (CUdeviceptr)(uintptr_t)host, LENGTH, stream),
                     CUDA_SUCCESS);
    assert_int_equal(gyre_carrier_gate(&carrier, stream, &gate, &trouble), 0);
    assert_false(gyre_carrier_poll(&carrier));
    assert_false(gyre_carrier_reached(&carrier, gate));
    assert_true(gyre_carrier_busy(&carrier));
    fakecuda_hold(false);
    while (!gyre_carrier_reached(&carrier, gate))
        gyre_carrier_poll(&carrier);
    assert_false(gyre_carrier_busy(&carrier));
    assert_int_equal(gyre_carrier_copy_now(&carrier, back, region.base, LENGTH), 0);
    assert_memory_equal(back, host, LENGTH);
    drop_stream(stream);
}

static void a_stream_is_held(void **state)
{
    static _Alignas(4096) gyre_device_word word[512];
    uint64_t gate;
    (void)state;
    CUstream stream = make_stream();
    word[0] = 0;
    assert_int_equal(carrier.device->pin(0, word, sizeof(word), &trouble), 0);
    assert_int_equal(gyre_carrier_gate(&carrier, stream, &gate, &trouble), 0);
    assert_int_equal(gyre_carrier_hold(&carrier, stream, word, 5, &trouble), 0);
    assert_int_equal(gyre_carrier_gate(&carrier, stream, &gate, &trouble), 0);
    for (int i = 0; i < 1000; i++)
        gyre_carrier_poll(&carrier);
    assert_false(gyre_carrier_reached(&carrier, gate));
    atomic_store(word, 5);
    while (!gyre_carrier_reached(&carrier, gate))
        gyre_carrier_poll(&carrier);
    drop_stream(stream);
    carrier.device->unpin(0, word);
}

static void gates_that_are_refused(void **state)
{
    uint64_t gate = 77;
    (void)state;
    CUstream stream = make_stream();
    fakecuda_fail("cuStreamCreateWithPriority", 2, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gyre_carrier_gate(&carrier, stream, &gate, &trouble), -ENOMEM);
    open_it();
    fakecuda_capture(stream, true);
    assert_int_equal(gyre_carrier_gate(&carrier, stream, &gate, &trouble), GYRE_UNSUPPORTED);
    fakecuda_capture(stream, false);
    trouble = (struct gyre_trouble){0};
    fakecuda_fail("cuEventRecord", 2, CUDA_ERROR_INVALID_HANDLE); /* the mark's */
    assert_true(gyre_carrier_gate(&carrier, stream, &gate, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "a stream's place cannot be kept"));
    assert_int_equal(gate, 77);
    drop_stream(stream);
}

static void gates_of_a_lost_device(void **state)
{
    uint64_t gate;
    (void)state;
    CUstream stream = make_stream();
    open_it();
    lose_at_work();
    assert_true(gyre_carrier_gate(&carrier, stream, &gate, &trouble) < 0);
    fakecuda_heal();
    drop_stream(stream);
}

/* -- none -------------------------------------------------------------------------------------- */

static void a_process_without_a_device(void **state)
{
    struct gyre_carrier none = {0};
    (void)state;
    gyre_carrier_init(&none, -1);
    assert_false(gyre_carrier_owns(&none, region.base));
    assert_false(gyre_carrier_poll(&none));
    assert_int_equal(gyre_carrier_copy_now(&none, back, host, LENGTH), 0);
    assert_memory_equal(back, host, LENGTH);
    gyre_carrier_deinit(&none);
}

#define CARRIER_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {CARRIER_TEST(kernels_that_cannot_be_loaded),
                                       CARRIER_TEST(tickets_are_done_in_order),
                                       CARRIER_TEST(what_is_awaited_is_there),
                                       CARRIER_TEST(a_full_queue_makes_room),
                                       CARRIER_TEST(copies_of_any_memory),
                                       CARRIER_TEST(folds_are_posts),
                                       CARRIER_TEST(a_copy_that_is_refused),
                                       CARRIER_TEST(a_fold_that_is_refused),
                                       CARRIER_TEST(work_that_fails),
                                       CARRIER_TEST(a_queue_that_is_refused),
                                       CARRIER_TEST(a_gate_is_behind_the_stream),
                                       CARRIER_TEST(a_stream_is_held),
                                       CARRIER_TEST(gates_that_are_refused),
                                       CARRIER_TEST(gates_of_a_lost_device),
                                       CARRIER_TEST(a_process_without_a_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
