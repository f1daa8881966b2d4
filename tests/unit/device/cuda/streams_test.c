/* The caller's streams and the CUDA device's queues wait for each other: after(), hold() and what
 * they refuse. Pinned words are what streams wait for. */
#include "unit/device/cuda/cuda_rig.h"
#include "rig/device_suite.h"
#include "rig/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEEDS = 32, PAGE = 4096 };

static const struct gyre_device *cuda;

static CUdeviceptr address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static void *new_pages(void)
{
    void *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static _Atomic uint64_t *new_word(void)
{
    struct gyre_trouble trouble = {0};
    void *at = new_pages();
    if (cuda->pin(0, at, 2 * PAGE, &trouble))
        fail_msg("%s", trouble.text);
    return at;
}

static void end_word(_Atomic uint64_t *word)
{
    cuda->unpin(0, word);
    munmap(word, 2 * PAGE);
}

/* -- the queue waits --------------------------------------------------------------------------- */

/* What the queue reads that the caller's stream writes. */
static int read_behind(uint64_t seed)
{
    char seen = 0;
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    fakecuda_seed(seed);
    fakecuda_hold(true);
    assert_int_equal(cuMemsetD8Async(address(region.base), 6, 1, stream), CUDA_SUCCESS);
    assert_int_equal(cuda->after(queue, stream, NULL), 0);
    int status = cuda->copy(queue, &seen, region.base, 1, 3);
    fakecuda_hold(false);
    device_suite_finish(cuda, queue, status, 3);
    fakecuda_wait();
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    cuda->free(&region);
    return seen;
}

static void test_the_queue_waits_for_the_caller(void **state)
{
    int early = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        assert_int_equal(read_behind(seed), 6);
    fakecuda_skip("cuStreamWaitEvent", true); /* the same, without the wait: it must be seen */
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        early += read_behind(seed) == 0;
    fakecuda_skip("cuStreamWaitEvent", false);
    assert_in_range(early, 1, SEEDS);
}

/* Tokens that a mark behind a held stream reports before the stream goes on. Work of a third stream
 * is ready all the while, and each piece of it is one throw of the dice for what is ready too. */
static int marked_early(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t token = 0;
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0), other = cuda_rig_stream(0);
    assert_int_equal(cuda->hold(queue, stream, word, value, NULL), 0);
    assert_int_equal(cuda->after(queue, stream, NULL), 0);
    assert_int_equal(cuda->mark(queue, value), 0);
    for (int i = 0; i < SEEDS; i++) {
        assert_int_equal(cuMemsetD8Async(address(region.base), 1, 1, other), CUDA_SUCCESS);
        assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
    }
    int early = cuda->query(queue, &token, 1);
    atomic_store(word, value);
    if (!early)
        device_suite_finish(cuda, queue, 0, value);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS); /* it reads the word till then */
    cuda_rig_end_stream(other);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    cuda->free(&region);
    return early;
}

static void test_a_mark_waits_for_the_caller(void **state)
{
    _Atomic uint64_t *word = new_word();
    assert_int_equal(marked_early(word, 1), 0);
    fakecuda_skip("cuStreamWaitEvent", true);
    assert_int_equal(marked_early(word, 2), 1);
    fakecuda_skip("cuStreamWaitEvent", false);
    end_word(word);
}

/* -- the caller's stream waits ----------------------------------------------------------------- */

/* What the caller's stream copies behind a hold that the host releases at `value`. */
static int read_held(_Atomic uint64_t *word, uint64_t value)
{
    char *seen = new_pages(), *source = new_pages();
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0), other = cuda_rig_stream(0);
    assert_int_equal(cuda->hold(queue, stream, word, value, NULL), 0);
    assert_int_equal(cuMemcpyAsync(address(seen), address(source), 1, stream), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async(address(seen) + 1, 1, 1, other), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS); /* not held up */
    *source = 7;
    atomic_store(word, value);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    int found = seen[0];
    cuda_rig_end_stream(other);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    munmap(seen, 2 * PAGE);
    munmap(source, 2 * PAGE);
    return found;
}

static void test_the_caller_waits_for_the_host(void **state)
{
    int early = 0;
    _Atomic uint64_t *word = new_word();
    for (uint64_t value = 1; value <= SEEDS; value++)
        assert_int_equal(read_held(word + 3, value << 40), 7);
    fakecuda_skip("cuStreamWaitValue64", true);
    for (uint64_t value = 1; value <= SEEDS; value++)
        early += read_held(word + 4, value) == 0;
    fakecuda_skip("cuStreamWaitValue64", false);
    assert_in_range(early, 1, SEEDS);
    end_word(word);
}

/* Where the hardware has one queue for streams of a priority, a held stream must not keep up the
 * work that it waits for. If it does, this never ends. */
static void test_a_held_stream_keeps_nothing_up(void **state)
{
    _Atomic uint64_t *word = new_word();
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    fakecuda_one_channel(true);
    assert_int_equal(cuda->hold(queue, stream, word, 1, NULL), 0);
    device_suite_finish(cuda, queue, cuda->copy(queue, region.base, "x", 1, 1), 1);
    atomic_store(word, 1);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    fakecuda_one_channel(false);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    cuda->free(&region);
    end_word(word);
}

/* A mark that waits for a held stream must not keep up the work that the stream waits for. How
 * often work was seen to have ended before the word is written. A queue of the first kind keeps it
 * up, which is looked at for 0.2 s; behind a waiter it ends, however long that takes. */
static int ends_beside(_Atomic uint64_t *word, uint64_t value, bool waiter)
{
    uint64_t token;
    int ended = 0;
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0), *gates;
    CUstream stream = cuda_rig_stream(0);
    assert_int_equal(
        waiter ? cuda->waiter_create(0, &gates, NULL) : cuda->queue_create(0, &gates, NULL), 0);
    fakecuda_one_channel(true);
    assert_int_equal(cuda->hold(queue, stream, word, value, NULL), 0);
    assert_int_equal(cuda->after(gates, stream, NULL), 0);
    assert_int_equal(cuda->mark(gates, 1), 0);
    assert_int_equal(cuda->copy(queue, region.base, "x", 1, 1), 0);
    for (int look = 0; (waiter || look < 2000) && !ended; look++, usleep(100))
        ended = cuda->query(queue, &token, 1);
    atomic_store(word, value);
    if (!ended)
        device_suite_finish(cuda, queue, 0, 1);
    device_suite_finish(cuda, gates, 0, 1);
    fakecuda_one_channel(false);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(gates);
    cuda->queue_destroy(queue);
    cuda->free(&region);
    return ended;
}

static void test_a_gate_keeps_nothing_up(void **state)
{
    _Atomic uint64_t *word = new_word();
    assert_int_equal(ends_beside(word, 1, true), 1);
    assert_int_equal(ends_beside(word, 2, false), 0);
    end_word(word);
}

static void test_words_may_be_unsupported(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    fakecuda_words(false);
    assert_int_equal(cuda->after(queue, stream, &trouble), GYRE_UNSUPPORTED);
    cuda_rig_expect_words(&trouble, "cannot wait for a word of the host's");
    fakecuda_words(true);
    assert_int_equal(cuda->after(queue, stream, NULL), 0);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
}

/* More than was waited for is enough, and what is there already holds nothing up. */
static void test_a_hold_may_be_over_before_it_begins(void **state)
{
    _Atomic uint64_t *word = new_word();
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    atomic_store(word, 9);
    assert_int_equal(cuda->hold(queue, stream, word, 9, NULL), 0);
    assert_int_equal(cuda->hold(queue, stream, word, 3, NULL), 0);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    end_word(word);
}

static void test_a_word_must_be_pinned(void **state)
{
    static _Atomic uint64_t plain;
    struct gyre_trouble trouble = {0};
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    assert_int_equal(cuda->hold(queue, stream, &plain, 1, &trouble), GYRE_INVALID);
    cuda_rig_expect_words(&trouble, "the word that releases a stream on CUDA device 0");
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void expect_refused(CUstream stream, int status, const char *words)
{
    _Atomic uint64_t *word = new_word();
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    struct gyre_trouble after = {0}, hold = {0};
    int current = cuda->current();
    assert_int_equal(cuda->after(queue, stream, &after), status);
    assert_int_equal(cuda->hold(queue, stream, word, 1, &hold), status);
    cuda_rig_expect_words(&after, words);
    cuda_rig_expect_words(&hold, words);
    assert_int_equal(cuda->current(), current);
    device_suite_finish(cuda, queue, cuda->copy(queue, region.base, "x", 1, 1), 1);
    cuda->queue_destroy(queue);
    cuda->free(&region);
    end_word(word);
}

static void test_a_stream_of_another_device_is_refused(void **state)
{
    CUstream stream = cuda_rig_stream(1);
    expect_refused(stream, GYRE_INVALID, "the caller's stream is not of CUDA device 0");
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    cuda_rig_end_stream(stream);
}

static void test_a_captured_stream_is_refused(void **state)
{
    CUstream stream = cuda_rig_stream(0);
    fakecuda_capture(stream, true);
    expect_refused(stream, GYRE_UNSUPPORTED, "captured into a CUDA graph: an operation is no part");
    fakecuda_capture(stream, false);
    fakecuda_fail("cuStreamIsCapturing", 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    fakecuda_fail("cuStreamIsCapturing", 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_refused(stream, GYRE_UNSUPPORTED, "another stream is being captured");
    cuda_rig_end_stream(stream);
}

/* Everything that an operation calls, while somebody's stream is captured. */
static bool spoils(CUstream captured)
{
    _Atomic uint64_t *word = new_word();
    struct gyre_region region = cuda_rig_region(0);
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    uint64_t token;
    char *page = new_pages();
    fakecuda_capture(captured, true);
    int status = cuda->copy(queue, region.base, "x", 1, 1);
    if (!status)
        status = cuda->after(queue, stream, NULL);
    if (!status)
        status = cuda->hold(queue, stream, word, 0, NULL);
    if (!status)
        status = cuda_rig_reduce(queue, &region, 2);
    for (int got = 0; status >= 0 && got < 2; got += status)
        status = cuda->query(queue, &token, 1);
    if (status >= 0 && !cuda->pin(0, page, PAGE, NULL))
        cuda->unpin(0, page);
    bool spoiled = fakecuda_spoiled(captured);
    fakecuda_capture(captured, false);
    munmap(page, 2 * PAGE);
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    cuda->free(&region);
    end_word(word);
    return spoiled;
}

static void test_no_capture_is_spoiled(void **state)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstream captured = cuda_rig_stream(0);
    assert_false(spoils(captured));
    assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* as it was */
    fakecuda_skip("cuThreadExchangeStreamCaptureMode", true);
    assert_true(spoils(captured));
    fakecuda_skip("cuThreadExchangeStreamCaptureMode", false);
    cuda_rig_end_stream(captured);
}

static void test_every_call_may_fail(void **state)
{
    static const char *const calls[] = {
        "cuStreamIsCapturing", "cuStreamGetCtx", "cuMemHostGetDevicePointer",
        "cuStreamWaitValue64", "cuEventRecord",  "cuStreamWaitEvent"};
    _Atomic uint64_t *word = new_word();
    struct gyre_device_queue *queue = cuda_rig_queue(0);
    CUstream stream = cuda_rig_stream(0);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct gyre_trouble trouble = {0};
        fakecuda_fail(calls[i], 1, CUDA_ERROR_NOT_SUPPORTED);
        int status = cuda->hold(queue, stream, word, 0, &trouble);
        if (!status)
            status = cuda->after(queue, stream, &trouble);
        assert_int_equal(status, GYRE_UNSUPPORTED);
        cuda_rig_expect_words(&trouble, calls[i]);
        device_suite_finish(cuda, queue, cuda->mark(queue, i), i);
    }
    cuda_rig_end_stream(stream);
    cuda->queue_destroy(queue);
    end_word(word);
}

/* -- pinned memory ----------------------------------------------------------------------------- */

static int pin(void *memory, uint64_t length, const char *words)
{
    struct gyre_trouble trouble = {0};
    int status = cuda->pin(1, memory, length, &trouble);
    cuda_rig_expect_words(&trouble, words);
    return status;
}

static void test_memory_is_pinned_once(void **state)
{
    char *memory = new_pages(), *unmapped = new_pages();
    munmap(unmapped, 2 * PAGE);
    assert_int_equal(pin(memory, 0, "cuMemHostRegister of 0 bytes"), GYRE_INVALID);
    assert_int_equal(pin(unmapped, PAGE, "cuMemHostRegister of 4096 bytes"), GYRE_INVALID);
    assert_int_equal(pin(memory + PAGE, PAGE, ""), 0);
    assert_int_equal(pin(memory, 2 * PAGE, "what is locked stays locked"), -EEXIST);
    cuda->unpin(0, memory); /* was not: is told to the log */
    assert_int_equal(fakecuda_alive().locked, 1);
    cuda->unpin(0, memory + PAGE);
    assert_int_equal(fakecuda_alive().locked, 0);
    fakecuda_shift(1 << 20);
    assert_int_equal(pin(memory, PAGE, "at another address"), GYRE_UNSUPPORTED);
    fakecuda_shift(0);
    fakecuda_fail("cuMemHostGetDevicePointer", 1, CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(pin(memory, PAGE, "cuMemHostGetDevicePointer"), GYRE_UNSUPPORTED);
    assert_int_equal(fakecuda_alive().locked, 0);
    assert_int_equal(cuda->pin(2, memory, PAGE, NULL), GYRE_INVALID);
    cuda->unpin(2, memory);
    munmap(memory, 2 * PAGE);
}

static void test_nothing_was_left(void **state)
{
    struct fakecuda_alive alive = fakecuda_alive();
    assert_int_equal(alive.ranges + alive.handles + alive.streams - alive.contexts + alive.events +
                         alive.locked,
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_queue_waits_for_the_caller),
        cmocka_unit_test(test_a_mark_waits_for_the_caller),
        cmocka_unit_test(test_the_caller_waits_for_the_host),
        cmocka_unit_test(test_a_held_stream_keeps_nothing_up),
        cmocka_unit_test(test_a_gate_keeps_nothing_up),
        cmocka_unit_test(test_words_may_be_unsupported),
        cmocka_unit_test(test_a_hold_may_be_over_before_it_begins),
        cmocka_unit_test(test_a_word_must_be_pinned),
        cmocka_unit_test(test_a_stream_of_another_device_is_refused),
        cmocka_unit_test(test_a_captured_stream_is_refused),
        cmocka_unit_test(test_no_capture_is_spoiled),
        cmocka_unit_test(test_every_call_may_fail),
        cmocka_unit_test(test_memory_is_pinned_once),
        cmocka_unit_test(test_nothing_was_left),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    cuda = cuda_rig_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
