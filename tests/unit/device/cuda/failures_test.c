/* What fails on a CUDA device, and what is left behind: full queues, launches that are refused, a
 * device that is lost, and every call of the driver in turn. */
#include "unit/device/cuda/cuda_rig.h"
#include "rig/device_suite.h"
#include "rig/test.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PAGES = 1024, LENGTH = 128 << 10 };

static const struct gyre_device *cuda;

/* -- failures ---------------------------------------------------------------------------------- */

static void test_a_full_queue_says_so(void **state)
{
    uint64_t token, posts = 0;
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    fakecuda_hold(true);
    while (cuda->copy(queue, region.base, "x", 1, posts) == 0)
        posts++;
    assert_int_equal(posts, GYRE_DEVICE_POSTS);
    assert_int_equal(cuda->copy(queue, region.base, "x", 1, posts), -EAGAIN);
    assert_int_equal(cuda_rig_reduce(queue, &region, posts), -EAGAIN);
    assert_int_equal(cuda->query(queue, &token, 1), 0);
    fakecuda_hold(false);
    for (uint64_t i = 0; i < posts; i++)
        device_suite_finish(cuda, queue, 0, i);
    cuda->queue_destroy(queue);
    cuda->free(&region);
}

static void test_a_launch_that_fails_posts_nothing(void **state)
{
    uint64_t token;
    int one = 1, two = 0;
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    cuda_rig_copy(0, region.base, &one, sizeof one);
    fakecuda_fail("cudaLaunchKernel", 1, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuda_rig_reduce(queue, &region, 1), GYRE_INVALID);
    assert_int_equal(cuda->query(queue, &token, 1), 0);
    device_suite_finish(cuda, queue, cuda_rig_reduce(queue, &region, 2), 2);
    cuda_rig_copy(0, &two, region.base, sizeof two);
    assert_int_equal(two, 2);
    cuda->queue_destroy(queue);
    cuda->free(&region);
}

static void test_a_lost_device_is_told_to_all(void **state)
{
    uint64_t token;
    struct gyre_region region = cuda_rig_region(0), none;
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    struct gyre_trouble trouble = {0};
    int status;
    fakecuda_fail("kernel", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    fakecuda_hold(true); /* it is posted before it fails */
    assert_int_equal(cuda_rig_reduce(queue, &region, 1), 0);
    fakecuda_hold(false);
    while ((status = cuda->query(queue, &token, 1)) == 0)
        sched_yield();
    assert_int_equal(status, -EIO);
    assert_int_equal(cuda->query(queue, &token, 1), -EIO);
    assert_int_equal(cuda->copy(queue, region.base, "x", 1, 2), -EIO);
    assert_int_equal(cuda_rig_reduce(queue, &region, 2), -EIO);
    assert_int_equal(cuda->after(queue, NULL, NULL), -EIO);
    assert_int_equal(cuda->alloc(0, 4096, GYRE_SHARE_OPEN, &none, &trouble), -EIO);
    cuda_rig_expect_words(&trouble,
                          "on CUDA device 0: CUDA_ERROR_ILLEGAL_ADDRESS (700); the device may be "
                          "lost to this process: end the job");
    cuda->queue_destroy(queue);
    cuda->free(&region);
    fakecuda_heal();
}

static void test_nothing_was_left(void **state)
{
    struct fakecuda_alive alive = fakecuda_alive();
    assert_int_equal(alive.contexts, 1);
    assert_int_equal(alive.ranges + alive.handles + alive.streams - alive.contexts + alive.events +
                         alive.locked,
                     0);
    assert_int_equal(alive.bytes, 0);
}

/* What is put on the caller's stream itself. */
static int use_stream(struct gyre_device_queue *queue, CUstream stream, _Atomic uint64_t *word,
                      struct gyre_trouble *trouble)
{
    const struct gyre_stream_word words[] = {{word + 1, 1, true}, {word + 1, 1, false}};
    bool captured;
    int status = cuda->check_stream(queue, stream, &captured, trouble);
    if (!status)
        status = cuda->copy_on(queue, stream, word + 2, word + 3, 8, trouble);
    return status ? status : cuda->words_on(queue, stream, words, 2, trouble);
}

/* All of the device's calls once, behind the caller's stream; the first status that is not what it
 * should be. */
static int use_everything(CUstream stream, struct gyre_trouble *trouble)
{
    static _Alignas(PAGE) _Atomic uint64_t pages[PAGES][PAGE / 8]; /* what stays locked is left */
    static int used;
    _Atomic uint64_t *word = pages[used++ % PAGES];
    uint64_t token;
    bool pinned = false;
    struct gyre_region region, view = {.fd = -1};
    struct gyre_device_queue *queue = NULL;
    int status = cuda->alloc(0, LENGTH, GYRE_SHARE_OPEN, &region, trouble);
    if (!status)
        status = cuda->import(0, region.fd, LENGTH, GYRE_SHARE_OPEN, &view, trouble);
    if (!status)
        status = cuda->detach(&region, trouble);
    if (!status)
        status = cuda->queue_create(0, &queue, trouble);
    if (!status)
        pinned = !(status = cuda->pin(0, word, PAGE, trouble));
    if (!status)
        status = cuda->after(queue, stream, trouble);
    if (!status)
        status = cuda->hold(queue, stream, word, 0, trouble);
    if (!status)
        status = use_stream(queue, stream, word, trouble);
    if (!status)
        status = cuda->copy(queue, region.base, word, 8, 1);
    if (!status)
        status = cuda_rig_reduce(queue, &region, 2);
    if (!status)
        status = cuda->mark(queue, 3);
    for (int got = 0; !status && got < 3;) {
        int count = cuda->query(queue, &token, 1);
        status = count < 0 ? count : 0;
        got += count;
    }
    cuda->queue_destroy(queue);
    cuda->unimport(&view);
    cuda->free(&region);
    fakecuda_wait();
    fakecuda_heal(); /* memory may have been freed that a failed wait left in use */
    if (pinned)
        cuda->unpin(0, word);
    return status;
}

/* Fails one call of everything, at every place in turn, until there is none; how many of them were
 * told. */
static int fail_at_each_place(const char *call, bool tidy, const char *words)
{
    int told = 0, calls = 20;
    CUstream stream = cuda_rig_stream(0);
    for (int nth = 1; nth <= 20 && calls >= nth - 1; nth++) {
        struct gyre_trouble trouble = {0};
        struct fakecuda_alive before = fakecuda_alive();
        fakecuda_fail(call, nth, CUDA_ERROR_ECC_UNCORRECTABLE);
        calls = -fakecuda_calls(call);
        int status = use_everything(stream, &trouble);
        calls += fakecuda_calls(call);
        fakecuda_fail(NULL, 0, CUDA_SUCCESS);
        assert_true(status <= 0);
        assert_true(status < 0 || !trouble.text[0]);
        if (trouble.text[0])
            cuda_rig_expect_words(&trouble, words);
        if (tidy && !cuda_rig_same_alive(&before))
            fail_msg("%s, call %d: something was left behind", call, nth);
        told += status < 0;
    }
    cuda_rig_end_stream(stream);
    return told;
}

static void test_every_call_may_fail(void **state)
{
    static const struct {
        const char *name;
        bool tidy; /* nothing is left; false: what fails is letting go */
    } calls[] = {
        {"cuMemCreate", true},
        {"cuMemExportToShareableHandle", true},
        {"cuMemImportFromShareableHandle", true},
        {"cuMemAddressReserve", true},
        {"cuMemMap", true},
        {"cuMemSetAccess", true},
        {"cuStreamCreateWithPriority", true},
        {"cuStreamSynchronize", true},
        {"cuMemsetD8Async", true},
        {"cuMemcpyAsync", true},
        {"cuCtxSynchronize", true},
        {"cuEventCreate", true},
        {"cuEventRecord", true},
        {"cuEventQuery", true},
        {"cuStreamWaitEvent", true},
        {"cuStreamWaitValue64", true},
        {"cuStreamBatchMemOp", true},
        {"cuStreamIsCapturing", true},
        {"cuStreamGetCtx", true},
        {"cuMemHostRegister", true},
        {"cuMemHostGetDevicePointer", true},
        {"cudaLaunchKernel", true},
        {"cudaGetLastError", true},
        {"cuMemUnmap", false},
        {"cuCtxPushCurrent", false},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (!fail_at_each_place(calls[i].name, calls[i].tidy, "CUDA_ERROR_ECC_UNCORRECTABLE (214)"))
            fail_msg("%s: no failure was told", calls[i].name);
}

/* Where the answer is no, or none, the classic way is taken, which does not work inside one
 * process. */
static void test_what_cannot_be_asked_is_not_there(void **state)
{
    static const char *const calls[] = {"cuDeviceGet", "cuDeviceGetAttribute"};
    for (int i = 0; i < 2; i++)
        assert_int_not_equal(fail_at_each_place(calls[i], true, "cuIpcOpenMemHandle"), 0);
    assert_int_not_equal(fail_at_each_place("cuMemRetainAllocationHandle", false, "IPC handle"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_queue_says_so),
        cmocka_unit_test(test_a_launch_that_fails_posts_nothing),
        cmocka_unit_test(test_a_lost_device_is_told_to_all),
        cmocka_unit_test(test_nothing_was_left),
        cmocka_unit_test(test_every_call_may_fail),
        cmocka_unit_test(test_what_cannot_be_asked_is_not_there),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    cuda = cuda_rig_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
