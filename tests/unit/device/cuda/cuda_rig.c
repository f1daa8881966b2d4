/* Any failure here ends the test. */
#include "unit/device/cuda/cuda_rig.h"
#include "rig/device_suite.h"
#include "rig/test.h"

#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct gyre_device *cuda;

/* -- a fold ------------------------------------------------------------------------------------ */

static void double_all(void **arguments)
{
    unsigned *to = *(unsigned **)arguments[0];
    const unsigned *from = *(const unsigned **)arguments[1];
    for (uint64_t i = 0; i < *(uint64_t *)arguments[2]; i++)
        to[i] = 2 * from[i];
}

const struct gyre_device *cuda_rig_begin(void)
{
    static const size_t bytes[] = {sizeof(int *), sizeof(int *), sizeof(uint64_t)};
    fake_kernel_register((const void *)double_all, bytes, 3);
    cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    return cuda;
}

void cuda_rig_doubling(const struct gyre_fold_task *task, void *native_queue)
{
    void *to = task->destination[0];
    const void *from = task->source[0];
    uint64_t count = task->count;
    void *arguments[] = {&to, &from, &count};
    dim3 one = {1, 1, 1};
    cudaLaunchKernel((const void *)double_all, one, one, arguments, 0, native_queue);
}

int cuda_rig_reduce(struct gyre_device_queue *queue, struct gyre_region *region, uint64_t token)
{
    void *destination = region->base;
    const void *source = region->base;
    struct gyre_fold_task task = {&destination, &source, 1, 1, 1, 0, false};
    return cuda->reduce(queue, cuda_rig_doubling, &task, token);
}

/* -- memory and queues ------------------------------------------------------------------------- */

struct gyre_region cuda_rig_region(int device)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    if (cuda->alloc(device, CUDA_RIG_LENGTH, GYRE_SHARE_OPEN, &region, &trouble))
        fail_msg("%s", trouble.text);
    return region;
}

struct gyre_device_queue *cuda_rig_queue(int device)
{
    struct gyre_device_queue *queue;
    struct gyre_trouble trouble = {0};
    if (cuda->queue_create(device, &queue, &trouble))
        fail_msg("%s", trouble.text);
    return queue;
}

void cuda_rig_copy(int device, void *to, const void *from, uint64_t length)
{
    struct gyre_device_queue *queue = cuda_rig_queue(device);
    device_suite_finish(cuda, queue, cuda->copy(queue, to, from, length, 9), 9);
    cuda->queue_destroy(queue);
}

void cuda_rig_expect_text(const struct gyre_region *region, const char *text)
{
    char seen[32] = "";
    cuda_rig_copy(region->device, seen, region->base, strlen(text));
    assert_string_equal(seen, text);
}

void cuda_rig_expect_words(const struct gyre_trouble *trouble, const char *words)
{
    if (!strstr(trouble->text, words))
        fail_msg("\"%s\" (expected \"%s\")", trouble->text, words);
}

bool cuda_rig_same_alive(const struct fakecuda_alive *before)
{
    struct fakecuda_alive now = fakecuda_alive();
    return before->handles == now.handles && before->ranges == now.ranges &&
           before->streams == now.streams && before->events == now.events &&
           before->locked == now.locked && before->bytes == now.bytes;
}

/* -- the caller's streams ---------------------------------------------------------------------- */

CUstream cuda_rig_stream(int device)
{
    CUcontext context;
    CUstream stream;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

void cuda_rig_end_stream(CUstream stream)
{
    CUcontext context;
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
}

/* -- processes --------------------------------------------------------------------------------- */

pid_t cuda_rig_start(const char *role, const int *fds, int count)
{
    pid_t child;
    char *arguments[] = {(char *)role, (char *)role, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < count; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], CUDA_RIG_FD + i);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

int cuda_rig_end_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
