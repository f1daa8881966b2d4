/* The stand-in for CUDA itself: it must find the faults that it is there to find. */
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 4 << 20, SEEDS = 64 };

static CUcontext context;

static CUdeviceptr allocate(size_t length)
{
    CUdeviceptr base;
    assert_int_equal(cuMemAlloc(&base, length), CUDA_SUCCESS);
    return base;
}

static CUstream new_stream(void)
{
    CUstream stream;
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static CUdeviceptr host(void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static int enter_device(void **state)
{
    CUdevice device;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device))
        return -1;
    return cuCtxPushCurrent(context) ? -1 : 0;
}

/* -- memory ------------------------------------------------------------------------------------ */

static void expect_death(char *at, bool write)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        if (write)
            *(volatile char *)at = 1;
        else
            (void)*(volatile char *)at;
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_host_cannot_touch_device_memory(void **state)
{
    CUdeviceptr base = allocate(LENGTH);
    expect_death((char *)(uintptr_t)base, false);
    expect_death((char *)(uintptr_t)base + LENGTH - 1, true);
    assert_int_equal(cuMemFree(base), CUDA_SUCCESS);
}

static void test_memory_ends(void **state)
{
    CUdeviceptr base;
    size_t unused, total;
    assert_int_equal(cuMemGetInfo(&unused, &total), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&base, unused + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fakecuda_alive().bytes, total - unused);
}

/* -- order ------------------------------------------------------------------------------------- */

/* What a stream reads that another one writes, with and without waiting for it. */
static int race(uint64_t seed, bool wait)
{
    char seen = 0;
    CUdeviceptr base = allocate(LENGTH);
    CUstream writer = new_stream(), reader = new_stream();
    CUevent written;
    assert_int_equal(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async(base, 1, 1, writer), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(writer), CUDA_SUCCESS);
    fakecuda_seed(seed);
    fakecuda_hold(true);
    assert_int_equal(cuMemsetD8Async(base, 2, 1, writer), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(written, writer), CUDA_SUCCESS);
    if (wait)
        assert_int_equal(cuStreamWaitEvent(reader, written, CU_EVENT_WAIT_DEFAULT), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyAsync(host(&seen), base, 1, reader), CUDA_SUCCESS);
    assert_int_equal(cuEventQuery(written), CUDA_ERROR_NOT_READY);
    fakecuda_hold(false);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cuEventQuery(written), CUDA_SUCCESS);
    assert_int_equal(cuEventDestroy(written), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(writer), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(reader), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(base), CUDA_SUCCESS);
    return seen;
}

static void test_streams_go_in_any_order(void **state)
{
    int early = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int seen = race(seed, false);
        early += seen == 1;
        assert_int_equal(race(seed, false), seen); /* a seed is one order */
        assert_int_equal(race(seed, true), 2);
    }
    assert_in_range(early, 1, SEEDS - 1);
}

static void test_a_planted_missing_wait_is_seen(void **state)
{
    int early = 0;
    fakecuda_skip("cuStreamWaitEvent", true);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        early += race(seed, true) == 1;
    fakecuda_skip("cuStreamWaitEvent", false);
    assert_in_range(early, 1, SEEDS);
}

/* -- words of the host's
 * ------------------------------------------------------------------------ */

static CUresult wait_for(CUstream stream, const void *word, uint64_t value)
{
    return cuStreamWaitValue64(stream, host((void *)word), value, CU_STREAM_WAIT_VALUE_GEQ);
}

static void test_streams_wait_for_locked_words(void **state)
{
    enum { LOCK = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP };
    CUstream stream = new_stream();
    char seen = 0, one = 1;
    _Atomic uint64_t *word =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(wait_for(stream, word, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemHostRegister(word, 4096, CU_MEMHOSTREGISTER_PORTABLE),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemHostRegister((char *)word + 8, 4096, LOCK), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemHostRegister(word, 4096, LOCK), CUDA_SUCCESS);
    assert_int_equal(cuMemHostRegister(word, 4096, LOCK),
                     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_int_equal(wait_for(stream, word, UINT64_C(1) << 40), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyAsync(host(&seen), host(&one), 1, stream), CUDA_SUCCESS);
    atomic_store(word, (UINT64_C(1) << 40) + 5);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(seen, 1);
    assert_int_equal(wait_for(stream, word, UINT64_C(1) << 41), CUDA_SUCCESS);
    assert_int_equal(cuMemHostUnregister(word), CUDA_SUCCESS); /* while it is waited for */
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    fakecuda_heal();
    assert_int_equal(cuMemHostUnregister(word), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    munmap(word, 4096);
}

static void test_captured_streams_take_no_work(void **state)
{
    CUstream stream = new_stream();
    CUstreamCaptureStatus capture;
    CUdeviceptr base = allocate(LENGTH);
    fakecuda_capture(stream, true);
    assert_int_equal(cuStreamIsCapturing(stream, &capture), CUDA_SUCCESS);
    assert_int_equal(capture, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(cuMemsetD8Async(base, 1, 1, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fakecuda_capture(stream, false);
    assert_int_equal(cuMemsetD8Async(base, 1, 1, stream), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(base), CUDA_SUCCESS);
}

/* -- kernels ----------------------------------------------------------------------------------- */

static void write_number(void **arguments)
{
    **(int **)arguments[0] = *(int *)arguments[1];
}

static void test_kernels_use_plain_addresses(void **state)
{
    static const size_t bytes[] = {sizeof(int *), sizeof(int)};
    CUdeviceptr base = allocate(LENGTH);
    CUstream stream = new_stream();
    int number = 7, seen = 0;
    void *arguments[] = {&base, &number};
    const void *function = (const void *)write_number;
    dim3 one = {1, 1, 1};
    assert_int_equal(cudaLaunchKernel(function, one, one, arguments, 0, stream),
                     (int)CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cudaGetLastError(), (int)CUDA_ERROR_NOT_FOUND);
    fake_kernel_register(function, bytes, 2);
    fakecuda_hold(true);
    assert_int_equal(cudaLaunchKernel(function, one, one, arguments, 0, stream), cudaSuccess);
    number = 8; /* too late */
    assert_int_equal(cuMemcpyAsync(host(&seen), base, sizeof seen, stream), CUDA_SUCCESS);
    fakecuda_hold(false);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(seen, 7);
    expect_death((char *)(uintptr_t)base, false); /* closed again */
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(base), CUDA_SUCCESS);
}

/* Memory that comes without a wait for the device, as a region of the library's does. */
static CUdeviceptr map(CUmemGenericAllocationHandle *handle)
{
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = here};
    const CUmemAccessDesc access = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base;
    assert_int_equal(cuMemCreate(handle, LENGTH, &properties, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemAddressReserve(&base, LENGTH, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemMap(base, LENGTH, 0, *handle, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemSetAccess(base, LENGTH, &access, 1), CUDA_SUCCESS);
    return base;
}

static atomic_bool started, mapped;

static void write_when_mapped(void **arguments)
{
    atomic_store(&started, true);
    while (!atomic_load(&mapped))
        ;
    **(int **)arguments[0] = 5;
}

/* A kernel behind one that began before the memory came. */
static void test_kernels_use_memory_that_came_meanwhile(void **state)
{
    static const size_t bytes[] = {sizeof(int *), sizeof(int)};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr old = allocate(LENGTH);
    CUstream stream = new_stream();
    int number = 9, seen = 0;
    void *arguments[] = {&old, &number};
    dim3 one = {1, 1, 1};
    fake_kernel_register((const void *)write_when_mapped, bytes, 1);
    fake_kernel_register((const void *)write_number, bytes, 2);
    assert_int_equal(
        cudaLaunchKernel((const void *)write_when_mapped, one, one, arguments, 0, stream),
        cudaSuccess);
    while (!atomic_load(&started))
        ;
    CUdeviceptr fresh = map(&handle);
    arguments[0] = &fresh;
    assert_int_equal(cudaLaunchKernel((const void *)write_number, one, one, arguments, 0, stream),
                     cudaSuccess);
    atomic_store(&mapped, true);
    assert_int_equal(cuMemcpyAsync(host(&seen), fresh, sizeof seen, stream), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
    assert_int_equal(seen, 9);
    expect_death((char *)(uintptr_t)fresh, false);
    assert_int_equal(cuMemUnmap(fresh, LENGTH), CUDA_SUCCESS);
    assert_int_equal(cuMemAddressFree(fresh, LENGTH), CUDA_SUCCESS);
    assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(old), CUDA_SUCCESS);
}

/* -- failures ---------------------------------------------------------------------------------- */

static void test_the_nth_call_fails(void **state)
{
    CUdeviceptr base;
    fakecuda_fail("cuMemAlloc", 2, CUDA_ERROR_NOT_PERMITTED);
    base = allocate(LENGTH);
    assert_int_equal(cuMemFree(base), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&base, LENGTH), CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(cuMemFree(allocate(LENGTH)), CUDA_SUCCESS);
}

static void test_a_bad_access_loses_the_device(void **state)
{
    CUdeviceptr base = allocate(LENGTH);
    CUstream stream = new_stream();
    CUevent event;
    char byte;
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    fakecuda_hold(true);
    assert_int_equal(cuMemcpyAsync(host(&byte), base + LENGTH - 1, 2, stream), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
    fakecuda_hold(false);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc(&base, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    fakecuda_heal();
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(base), CUDA_SUCCESS);
}

static void test_what_real_drivers_forgive(void **state)
{
    CUdeviceptr base = allocate(LENGTH), other;
    CUcontext popped;
    int status;
    assert_int_equal(cuMemsetD8Async(base, 1, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuMemsetD8Async(base, 1, 1, CU_STREAM_LEGACY), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async(base, 1, 1, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&other, LENGTH), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxPushCurrent(popped), CUDA_SUCCESS);
    pid_t child = fork();
    if (child == 0)
        _exit(cuMemAlloc(&other, LENGTH) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(cuMemFree(base), CUDA_SUCCESS);
}

static void test_nothing_was_left(void **state)
{
    struct fakecuda_alive alive = fakecuda_alive();
    assert_int_equal(alive.contexts, 1);
    assert_int_equal(alive.ranges + alive.handles + alive.streams + alive.events, 0);
    assert_int_equal(alive.bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_cannot_touch_device_memory),
        cmocka_unit_test(test_memory_ends),
        cmocka_unit_test(test_streams_go_in_any_order),
        cmocka_unit_test(test_a_planted_missing_wait_is_seen),
        cmocka_unit_test(test_streams_wait_for_locked_words),
        cmocka_unit_test(test_captured_streams_take_no_work),
        cmocka_unit_test(test_kernels_use_plain_addresses),
        cmocka_unit_test(test_kernels_use_memory_that_came_meanwhile),
        cmocka_unit_test(test_the_nth_call_fails),
        cmocka_unit_test(test_a_bad_access_loses_the_device),
        cmocka_unit_test(test_what_real_drivers_forgive),
        cmocka_unit_test(test_nothing_was_left),
    };
    setenv("FAKECUDA_DEVICES", "1", 1);
    return cmocka_run_group_tests(tests, enter_device, NULL);
}
