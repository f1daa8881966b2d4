/* A rank that cannot post to its device: its copies, on memory that peers cannot map, or its
 * kernels, on memory that they do. No rank's call says that it went well. And ranks that stop while
 * the streams of others wait for them. */
#include "rig/comm_rig.h"
#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT       70001u
#define TEARDOWN_NS UINT64_C(1000000000) /* far longer than an echo waits for its cause */

/* The caller's, made in the device's context, which stays current. */
static CUstream new_stream(struct gyre_comm *comm)
{
    CUcontext context;
    CUstream stream = NULL;
    rig_check(!cuDevicePrimaryCtxRetain(&context, gyre_device(comm)) &&
                  !cuCtxPushCurrent(context) && !cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
              comm, "a stream");
    return stream;
}

/* Without a barrier: its end could meet the other rank's failure. */
static int lost(struct gyre_comm *comm, struct rig *rig, const char *call, void *input,
                void *output)
{
    rig->shared->ready++;
    rig_until(&rig->shared->ready, 2);
    if (gyre_rank(comm) == 1)
        fakecuda_fail(call, 1, CUDA_ERROR_LAUNCH_FAILED);
    return rig_check(gyre_all_reduce(comm, input, output, COUNT, GYRE_I32, GYRE_SUM) != 0 &&
                         gyre_all_reduce(comm, input, output, COUNT, GYRE_I32, GYRE_SUM) != 0 &&
                         strstr(gyre_error(comm), "cuda device 0"),
                     comm, "a lost device was taken for a result, or not told");
}

/* The same in the order of a stream: the call is right, or hears of the loss, as it may on the
 * other rank, too, where that calls late. The stream goes on everywhere, and what is called then
 * fails with the story. */
static int lost_on(struct gyre_comm *comm, struct rig *rig, const char *work, void *memory)
{
    CUstream stream = new_stream(comm);
    rig->shared->ready++;
    rig_until(&rig->shared->ready, 2);
    if (gyre_rank(comm) == 1)
        fakecuda_fail(work, 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)gyre_all_reduce_on(comm, memory, memory, COUNT, GYRE_I32, GYRE_SUM, stream);
    CUresult after = cuStreamSynchronize(stream);
    while (!gyre_barrier(comm))
        continue;
    return rig_check(after == (gyre_rank(comm) ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS) &&
                         strcasestr(gyre_error(comm), "cuda device 0"),
                     comm, "a device lost under a stream");
}

/* Of the copies, or of the kernels: what fails when it is posted, when it runs, or under a
 * stream. */
static const char *const copy_calls[] = {"cuMemcpyAsync", "copy"};
static const char *const kernel_calls[] = {"cudaLaunchKernel", "kernel"};

static int lost_in(struct gyre_comm *comm, struct rig *rig, const char *const *calls, void *memory)
{
    int way = (int)(intptr_t)rig->argument;
    int bad = way < 2 ? lost(comm, rig, calls[way], memory, memory)
                      : lost_on(comm, rig, calls[1], memory);
    gyre_finalize(comm);
    return bad;
}

static int lost_copies(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_region alone;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (cuda->alloc(gyre_device(comm), COUNT * 4, GYRE_SHARE_OPEN, &alone, NULL))
        return 1;
    return lost_in(comm, rig, copy_calls, alone.base);
}

static int lost_kernels(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    if (gyre_alloc_device(comm, COUNT * 4, &memory))
        return 1;
    return lost_in(comm, rig, kernel_calls, memory);
}

static void lose(const char *transport, int (*body)(struct gyre_comm *, struct rig *))
{
    for (intptr_t way = 0; way < 3; way++) {
        struct rig rig = {.n = 2, .transport = transport, .body = body, .argument = (void *)way};
        assert_int_equal(rig_run(&rig, 30), 0);
    }
}

static void copies(void **state)
{
    (void)state;
    lose("shm", lost_copies);
    lose("tcp", lost_copies);
}

static void kernels(void **state)
{
    (void)state;
    lose("shm", lost_kernels);
}

/* -- streams ----------------------------------------------------------------------------------- */

/* The other rank is stopped between the call and its turn. It may write later what is this rank's
 * OUTPUT, so that is replaced, for which the stream must have gone on. */
static int left_by_a_stopped(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    if (gyre_alloc_device(comm, COUNT * 4, &memory) || gyre_barrier(comm))
        return 1;
    CUstream stream = new_stream(comm);
    atomic_fetch_add(&rig->shared->ready, 1);
    rig_until(&rig->shared->flag, gyre_rank(comm) + 1);
    int maps = fakecuda_calls("cuMemMap");
    int status = gyre_all_reduce_on(comm, memory, memory, COUNT, GYRE_I32, GYRE_SUM, stream);
    if (rig_check(status == 0 && !cuStreamSynchronize(stream), comm, "the stream"))
        return 1;
    while (fakecuda_calls("cuMemMap") < maps + 2) /* fresh memory: to be filled, and in its place */
        sched_yield();
    rig_note(rig, comm, gyre_barrier(comm), rig_now());
    gyre_finalize(comm);
    return 0;
}

static void a_stopped_rank_releases_the_stream(void **state)
{
    struct rig rig = {
        .n = 2, .transport = "auto", .body = left_by_a_stopped, .dead_ms = 1500 * rig_slow()};
    (void)state;
    rig_start(&rig);
    rig_until(&rig.shared->ready, 2);
    rig_stop(&rig, 1);
    atomic_store(&rig.shared->flag, 1);
    assert_int_equal(rig_wait(&rig, 15, 2), 0);
    assert_int_equal(rig.shared->status[0], GYRE_PEER_LOST);
    assert_non_null(strstr(rig.shared->error[0], "rank 1"));
}

/* -- a slow end -------------------------------------------------------------------------------- */

/* Ends all connections of this process, which lives on: as while a driver takes down what a killed
 * process had on its device. */
static void shut_sockets(void)
{
    struct stat file;
    for (int fd = 3; fd < 1024; fd++)
        if (fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode))
            shutdown(fd, SHUT_RDWR);
}

/* Rank 1 loses its connections long before it ends. The failure is told when it has ended: then it
 * writes nothing any more, and rank 0's memory stays as it is. */
static int left_by_a_slow_end(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    if (gyre_alloc_device(comm, COUNT * 4, &memory) || gyre_barrier(comm))
        return 1;
    CUstream stream = new_stream(comm);
    if (gyre_rank(comm) == 1) {
        rig_until(&rig->shared->flag, 1);
        shut_sockets();
        atomic_store(&rig->shared->flag, 2);
        rig_until(&rig->shared->flag, 3);
        _exit(1);
    }
    int settled = fakecuda_calls("cuCtxSynchronize"), status;
    status = gyre_all_reduce_on(comm, memory, memory, COUNT, GYRE_I32, GYRE_SUM, stream);
    atomic_store(&rig->shared->flag, 1);
    rig_until(&rig->shared->flag, 2);
    const uint64_t until = rig_now() + TEARDOWN_NS;
    while (rig_now() < until && cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        sched_yield();
    int bad = rig_check(status == 0 && cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, comm,
                        "the end of a socket was told as the end of its process");
    atomic_store(&rig->shared->flag, 3);
    bad |= rig_check(!cuStreamSynchronize(stream), comm, "the stream");
    rig_note(rig, comm, gyre_barrier(comm), rig_now());
    bad |= rig_check(fakecuda_calls("cuCtxSynchronize") == settled, comm,
                     "memory was replaced that nobody could write");
    gyre_finalize(comm);
    return bad;
}

static void the_end_of_a_process_is_awaited(void **state)
{
    struct rig rig = {
        .n = 2, .transport = "auto", .body = left_by_a_slow_end, .dead_ms = 600 * 1000};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 2), 0);
    assert_int_equal(rig.shared->status[0], GYRE_PEER_LOST);
    assert_non_null(strstr(rig.shared->error[0], "rank 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),
        cmocka_unit_test(kernels),
        cmocka_unit_test(the_end_of_a_process_is_awaited),
        cmocka_unit_test(a_stopped_rank_releases_the_stream),
    };
    setenv("GYRE_DEVICES", "0,0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
