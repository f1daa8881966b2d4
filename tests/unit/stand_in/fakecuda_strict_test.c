/* Where a driver is strict, and blocks whoever calls it: the stand-in for CUDA must, too. */
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LENGTH = 4 << 20, DEPTH = 32, WORDS = 512 };

static CUcontext context;
static CUdeviceptr base;
static _Atomic uint64_t *word; /* locked */
static CUstream held, other;

static CUdeviceptr host(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static int enter_device(void **state)
{
    CUdevice device;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
        cuCtxPushCurrent(context) || cuMemAlloc(&base, LENGTH))
        return -1;
    word = mmap(NULL, WORDS * sizeof(*word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                0);
    return cuMemHostRegister(word, WORDS * sizeof(*word),
                             CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)
               ? -1
               : 0;
}

/* Two streams, of which one waits for the first word to be 1. */
static int hold_one(void **state)
{
    memset((void *)word, 0, WORDS * sizeof(*word));
    return cuStreamCreate(&held, CU_STREAM_NON_BLOCKING) ||
           cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) ||
           cuStreamWaitValue64(held, host(word), 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static int end_streams(void **state)
{
    atomic_store(word, 1);
    return cuStreamSynchronize(held) || cuStreamSynchronize(other) || cuStreamDestroy(held) ||
           cuStreamDestroy(other);
}

/* -- copies ------------------------------------------------------------------------------------ */

/* Much that is not a copy runs on the other stream's neighbour meanwhile. */
static void test_a_copy_waits_for_its_engine(void **state)
{
    CUevent event;
    CUstream third;
    void *locked = (void *)(word + 8);
    assert_int_equal(cuMemcpyAsync(host(locked), base, 8, held), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyAsync(host(locked), base, 8, other), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, other), CUDA_SUCCESS);
    third = CU_STREAM_LEGACY;
    for (int i = 0; i < 64; i++)
        assert_int_equal(cuMemsetD8Async(base, 1, 1, third), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyAsync(base, host(locked), 8, third), CUDA_SUCCESS); /* the other way */
    assert_int_equal(cuStreamSynchronize(third), CUDA_SUCCESS);
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    atomic_store(word, 1);
    assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
    assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

static void test_a_copy_to_pageable_memory_blocks(void **state)
{
    char seen[16] = "";
    for (int round = 1; round <= 16; round++) {
        assert_int_equal(cuMemsetD8Async(base, (unsigned char)round, sizeof seen, other),
                         CUDA_SUCCESS);
        assert_int_equal(cuMemcpyAsync(host(seen), base, sizeof seen, other), CUDA_SUCCESS);
        assert_int_equal(seen[15], round); /* nobody has waited */
    }
}

/* -- room -------------------------------------------------------------------------------------- */

static atomic_int posted[2];

/* Posts to a stream; tells after each post. */
static void *post_many(void *stream)
{
    bool own = stream == held;
    cuCtxPushCurrent(context);
    for (int i = 0; i < (own ? 2 * DEPTH : 1); i++) {
        cuMemsetD8Async(base, 1, 1, stream);
        atomic_fetch_add(&posted[own], 1);
    }
    cuCtxPopCurrent(&context);
    return NULL;
}

/* The first word has been posted already. */
static void test_a_full_stream_blocks_all_posts(void **state)
{
    pthread_t own, foreign;
    atomic_store(&posted[0], 0);
    atomic_store(&posted[1], 0);
    pthread_create(&own, NULL, post_many, held);
    while (fakecuda_blocked() == 0)
        sched_yield();
    assert_int_equal(atomic_load(&posted[1]), DEPTH - 1);
    pthread_create(&foreign, NULL, post_many, other);
    while (fakecuda_blocked() == 1)
        sched_yield();
    assert_int_equal(atomic_load(&posted[0]), 0);
    atomic_store(word, 1);
    pthread_join(own, NULL);
    pthread_join(foreign, NULL);
    assert_int_equal(atomic_load(&posted[0]), 1);
    assert_int_equal(atomic_load(&posted[1]), 2 * DEPTH);
}

static void *make_stream(void *made)
{
    CUstream stream;
    cuCtxPushCurrent(context);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    atomic_store((atomic_int *)made, 1);
    cuStreamDestroy(stream);
    cuCtxPopCurrent(&context);
    return NULL;
}

static void test_a_new_stream_waits_for_the_device(void **state)
{
    pthread_t thread;
    atomic_int made = 0;
    pthread_create(&thread, NULL, make_stream, &made);
    while (fakecuda_blocked() == 0)
        sched_yield();
    assert_int_equal(atomic_load(&made), 0);
    atomic_store(word, 1);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&made), 1);
}

/* -- words and graphs -------------------------------------------------------------------------- */

static void test_streams_write_words(void **state)
{
    CUstreamBatchMemOpParams both[2] = {{0}};
    both[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    both[0].writeValue.address = host(word + 1);
    both[0].writeValue.value64 = 5;
    both[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    both[1].waitValue.address = host(word + 2);
    both[1].waitValue.value64 = 7;
    assert_int_equal(cuStreamBatchMemOp(other, 2, both, 0), CUDA_SUCCESS);
    assert_int_equal(cuStreamWriteValue64(other, host(word + 3), 9, CU_STREAM_WRITE_VALUE_DEFAULT),
                     CUDA_SUCCESS);
    assert_int_equal(cuStreamWriteValue64(other, base, 9, CU_STREAM_WRITE_VALUE_DEFAULT),
                     CUDA_ERROR_INVALID_VALUE);
    while (atomic_load(word + 1) != 5)
        sched_yield();
    assert_int_equal(atomic_load(word + 3), 0);
    atomic_store(word + 2, 7);
    assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
    assert_int_equal(atomic_load(word + 3), 9);
}

/* A stream waits for what an event had recorded when it was told to, not for later records of the
 * event on other streams. */
static void test_a_wait_is_for_the_record_before_it(void **state)
{
    CUevent event;
    CUstream third = CU_STREAM_LEGACY;
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, held), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    assert_int_equal(cuStreamWriteValue64(other, host(word + 1), 7, CU_STREAM_WRITE_VALUE_DEFAULT),
                     CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, third), CUDA_SUCCESS);
    for (int i = 0; i < 64; i++)
        assert_int_equal(cuMemsetD8Async(base, 1, 1, third), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(third), CUDA_SUCCESS);
    assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
    assert_int_equal(atomic_load(word + 1), 0);
    atomic_store(word, 1);
    assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
    assert_int_equal(atomic_load(word + 1), 7);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

/* Each replay sets the word anew, which the host clears between. */
static void test_graphs_replay_what_was_captured(void **state)
{
    CUgraph graph;
    CUgraphExec executable;
    CUevent event;
    assert_int_equal(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async(base, 3, 8, other), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyAsync(host(word + 4), base, 8, other), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, other), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
    assert_int_equal(cuGraphInstantiate(&executable, graph, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(atomic_load(word + 4), 0);
    for (int round = 0; round < 3; round++) {
        atomic_store(word + 4, 0);
        assert_int_equal(cuGraphLaunch(executable, other), CUDA_SUCCESS);
        assert_int_equal(cuStreamSynchronize(other), CUDA_SUCCESS);
        assert_int_equal(atomic_load(word + 4), 0x0303030303030303);
    }
    assert_int_equal(cuGraphExecDestroy(executable), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
}

static void test_a_spoiled_capture_has_no_graph(void **state)
{
    CUgraph graph;
    CUdeviceptr memory;
    assert_int_equal(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&memory, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_int_equal(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
}

#define ON_STREAMS(test) cmocka_unit_test_setup_teardown(test, hold_one, end_streams)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STREAMS(test_a_copy_waits_for_its_engine),
        ON_STREAMS(test_a_copy_to_pageable_memory_blocks),
        ON_STREAMS(test_a_full_stream_blocks_all_posts),
        ON_STREAMS(test_a_new_stream_waits_for_the_device),
        ON_STREAMS(test_streams_write_words),
        ON_STREAMS(test_a_wait_is_for_the_record_before_it),
        ON_STREAMS(test_graphs_replay_what_was_captured),
        ON_STREAMS(test_a_spoiled_capture_has_no_graph),
    };
    setenv("FAKECUDA_DEVICES", "1", 1);
    setenv("FAKECUDA_DEPTH", "32", 1);
    setenv("FAKECUDA_ENGINES", "1", 1);
    setenv("FAKECUDA_WAITS", "1", 1);
    return cmocka_run_group_tests(tests, enter_device, NULL);
}
