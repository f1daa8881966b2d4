/* Gradients that are f32 on a device and travel in half the bytes: gyre_convert(), and the same on
 * a stream between operations, with real processes over the stand-in for CUDA.
 *
 *      stream   get x ─▶ to bf16 ─▶ all_reduce ─▶ to f32 ─▶ to bf16 ─▶ all_reduce ─▶ … ─▶ put
 *
 * Nothing waits on the host between the first and the last of these. tests/gpu/run has it run on
 * real devices. */
#include "rig/comm_rig.h"
#include "device/device.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "program/cuda/stream_capture.h"

#include "base/small_floats.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 70001, ROUNDS = 4, SECONDS = 60 };

struct bench {
    CUstream stream;
    struct gyre_region alone; /* of this process: no peer maps it */
    float *master, *host;
    uint16_t *half; /* a device's, as master is */
};

static int failed(CUresult error)
{
    if (error)
        fprintf(stderr, "CUDA error %d\n", (int)error);
    return error != 0;
}

/* Nobody queues work that waits for peers before they have their memory: their devices are tried in
 * turns. */
static int set_up(struct gyre_comm *comm, struct bench *bench, bool mapped)
{
    CUcontext context;
    void *master, *half;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    *bench = (struct bench){.host = malloc((COUNT + 1) * sizeof(float))};
    if (cuda->alloc(gyre_device(comm), (COUNT + 1) * 2, GYRE_SHARE_OPEN, &bench->alone, NULL) ||
        gyre_alloc_device(comm, (COUNT + 1) * 4, &master) ||
        gyre_alloc_device(comm, (COUNT + 1) * 2, &half) || gyre_barrier(comm))
        return rig_check(false, comm, "memory");
    bench->master = master;
    bench->half = mapped ? half : bench->alone.base;
    return failed(cuDevicePrimaryCtxRetain(&context, gyre_device(comm))) ||
           failed(cuCtxPushCurrent(context)) ||
           failed(cuStreamCreate(&bench->stream, CU_STREAM_NON_BLOCKING));
}

static int tear_down(struct gyre_comm *comm, struct bench *bench, int bad)
{
    free(bench->host);
    bad += gyre_finalize(comm) != 0;
    gyre_device_of(GYRE_MEMORY_CUDA)->free(&bench->alone);
    return bad;
}

/* On the stream, and waits for nothing. */
static int copy(const struct bench *bench, void *to, const void *from)
{
    return failed(cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, COUNT * 4,
                                bench->stream));
}

/* -- in a stream's order ----------------------------------------------------------------------- */

/* No half holds it, and the sum of some halves is exact in f32, whatever its order. */
static float value(int rank, int i)
{
    return (float)(rank + 1) * 100.3f + (float)(i % 1000) * 0.37f;
}

static float through_bf16(float x)
{
    return gyre_f32_of_bf16(gyre_bf16_of_f32(x));
}

static float expected(int n, int i)
{
    float x = 0;
    for (int rank = 0; rank < n; rank++)
        x += through_bf16(value(rank, i));
    x = through_bf16(x);
    for (int round = 1; round < ROUNDS; round++)
        x = through_bf16((float)n * x);
    return x;
}

static int one_round(struct gyre_comm *comm, const struct bench *bench)
{
    float *master = bench->master;
    uint16_t *half = bench->half;
    CUstream stream = bench->stream;
    return rig_check(
        gyre_convert_on(comm, master, GYRE_F32, half, GYRE_BF16, COUNT, stream) == 0 &&
            gyre_all_reduce_on(comm, half, half, COUNT, GYRE_BF16, GYRE_SUM, stream) == 0 &&
            gyre_convert_on(comm, half, GYRE_BF16, master, GYRE_F32, COUNT, stream) == 0,
        comm, "the calls of a round");
}

static int in_order(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench, rig->argument != NULL), i = 0;
    for (int k = 0; k < COUNT; k++)
        bench.host[k] = value(gyre_rank(comm), k);
    bad = bad || copy(&bench, bench.master, bench.host);
    for (int round = 0; round < ROUNDS && !bad; round++)
        bad = one_round(comm, &bench);
    bad =
        bad || copy(&bench, bench.host, bench.master) || failed(cuStreamSynchronize(bench.stream));
    while (!bad && i < COUNT && bench.host[i] == expected(gyre_size(comm), i))
        i++;
    if (!bad && i < COUNT)
        fprintf(stderr, "element %d is %g and not %g\n", i, (double)bench.host[i],
                (double)expected(gyre_size(comm), i));
    return tear_down(comm, &bench, bad || i < COUNT);
}

static void run(int n, const char *transport, void *argument,
                int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = n, .transport = transport, .body = body, .argument = argument};
    assert_int_equal(rig_run(&rig, SECONDS), 0);
}

static void masters_travel_as_halves(void **state)
{
    static int mapped;
    (void)state;
    run(2, "auto", &mapped, in_order);
    run(3, "auto", NULL, in_order);
    run(2, "tcp", NULL, in_order);
}

/* -- blocking ---------------------------------------------------------------------------------- */

/* There and back, from an odd place, by the device and by the host: the same bits. */
static int there_and_back(struct gyre_comm *comm, const struct bench *bench, enum gyre_type type)
{
    static float back[2][COUNT];
    static uint16_t half[COUNT + 1];
    float *master = bench->master + 1;
    uint16_t *away = bench->half + 1;
    for (int i = 0; i < COUNT; i++)
        bench->host[i] = value(i % 7, i);
    int bad = copy(bench, master, bench->host) || failed(cuStreamSynchronize(bench->stream));
    bad = bad || gyre_convert(comm, master, GYRE_F32, away, type, COUNT) ||
          gyre_convert(comm, away, type, master, GYRE_F32, COUNT) ||
          gyre_convert(comm, bench->host, GYRE_F32, half + 1, type, COUNT) ||
          gyre_convert(comm, half + 1, type, back[1], GYRE_F32, COUNT) ||
          copy(bench, back[0], master) || failed(cuStreamSynchronize(bench->stream));
    return bad || rig_check(memcmp(back[0], back[1], sizeof(back[0])) == 0, comm, "equal bits") ||
           rig_check(back[1][1] == (type == GYRE_BF16
                                        ? through_bf16(value(1, 1))
                                        : gyre_f32_of_f16(gyre_f16_of_f32(value(1, 1)))),
                     comm, "a half");
}

static int blocking(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    (void)rig;
    int bad = set_up(comm, &bench, true) || there_and_back(comm, &bench, GYRE_BF16) ||
              there_and_back(comm, &bench, GYRE_F16);
    return tear_down(comm, &bench, bad);
}

static void blocking_calls_have_the_same_bits(void **state)
{
    (void)state;
    run(1, "auto", NULL, blocking);
    run(2, "auto", NULL, blocking);
}

/* -- what is refused --------------------------------------------------------------------------- */

static int refused(struct gyre_comm *comm, int status, const char *words)
{
    return rig_check(status == GYRE_INVALID && strstr(gyre_error(comm), words), comm, words);
}

static int other_stream(struct gyre_comm *comm, const struct bench *bench)
{
    CUcontext context;
    CUstream other;
    if (gyre_device_of(GYRE_MEMORY_CUDA)->probe(NULL) < 2)
        return 0;
    return failed(cuDevicePrimaryCtxRetain(&context, !gyre_device(comm))) ||
           failed(cuCtxPushCurrent(context)) || failed(cuStreamCreate(&other, 1)) ||
           refused(comm,
                   gyre_convert_on(comm, bench->master, GYRE_F32, bench->half, GYRE_BF16, 4, other),
                   "not of CUDA device") ||
           failed(cuCtxPopCurrent(&context));
}

static int refusals(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench, true);
    float *master = bench.master;
    uint16_t *half = bench.half;
    uint16_t host[4];
    (void)rig;
#define CONVERT(from, from_type, to, to_type, count)                                               \
    gyre_convert(comm, from, from_type, to, to_type, count)
    bad =
        bad || refused(comm, CONVERT(master, GYRE_F32, half, GYRE_I32, 4), "no way from type") ||
        refused(comm, CONVERT(NULL, GYRE_F32, half, GYRE_BF16, 4), "NULL") ||
        refused(comm, CONVERT(master, GYRE_F32, host, GYRE_BF16, 4), "the result is the host's") ||
        refused(comm, CONVERT(host, GYRE_BF16, master, GYRE_F32, 4), "the source is the host's") ||
        refused(comm, CONVERT(master, GYRE_F32, master + 1, GYRE_BF16, 4), "overlap") ||
        refused(comm, CONVERT(master, GYRE_F32, half, GYRE_BF16, UINT64_MAX / 2), "memory") ||
        refused(comm, gyre_convert_on(comm, master, GYRE_F32, half, GYRE_BF16, 4, NULL),
                "cudaStreamLegacy") ||
        refused(comm, gyre_convert_on(comm, bench.host, GYRE_F32, host, GYRE_BF16, 4, bench.stream),
                "no stream reaches") ||
        other_stream(comm, &bench) || CONVERT(NULL, GYRE_F32, NULL, GYRE_BF16, 0);
    return tear_down(comm, &bench, bad || gyre_barrier(comm));
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    run(2, "auto", NULL, refusals);
}

/* -- captured, and lost ------------------------------------------------------------------------ */

/* A kernel of a graph like any other. */
static int captured(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench, true);
    (void)rig;
    capture_begin(bench.stream);
    bad = bad || rig_check(gyre_convert_on(comm, bench.master, GYRE_F32, bench.half, GYRE_BF16,
                                           COUNT, bench.stream) == 0,
                           comm, "a conversion in a capture");
    bad = bad || rig_check(!fakecuda_spoiled(bench.stream), comm, "the capture was spoiled");
    capture_end(bench.stream);
    return tear_down(comm, &bench, bad || failed(cuStreamSynchronize(bench.stream)));
}

static void captures_have_it(void **state)
{
    (void)state;
    run(1, "auto", NULL, captured);
}

static int lose(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench, true), status = 0;
    const char *name = rig->argument;
    fakecuda_fail(name, 1, CUDA_ERROR_LAUNCH_FAILED);
    if (!bad)
        status = gyre_convert(comm, bench.master, GYRE_F32, bench.half, GYRE_BF16, COUNT);
    bad += rig_check(status < 0 && strstr(gyre_error(NULL), "cuda device 0"), comm, "the story");
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    fakecuda_heal();
    free(bench.host);
    gyre_finalize(comm);
    gyre_device_of(GYRE_MEMORY_CUDA)->free(&bench.alone);
    return bad;
}

static int lose_on(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench;
    int bad = set_up(comm, &bench, true);
    (void)rig;
    fakecuda_fail("cudaLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED);
    int status =
        gyre_convert_on(comm, bench.master, GYRE_F32, bench.half, GYRE_BF16, COUNT, bench.stream);
    bad += rig_check(status < 0 && strstr(gyre_error(NULL), "CUDA device 0"), comm, "the story");
    return tear_down(comm, &bench, bad);
}

static void a_lost_device_is_told(void **state)
{
    (void)state;
    run(1, "auto", (void *)(uintptr_t) "kernel", lose);
    run(1, "auto", (void *)(uintptr_t) "cudaLaunchKernel", lose);
    run(1, "auto", NULL, lose_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masters_travel_as_halves),
        cmocka_unit_test(blocking_calls_have_the_same_bits),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(captures_have_it),
    };
    const struct CMUnitTest planted[] = {
        cmocka_unit_test(a_lost_device_is_told),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 0);
    setenv("FAKECUDA_DELAY", "300", 1);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    return fakecuda_stands_in() ? failures + cmocka_run_group_tests(planted, NULL, NULL) : failures;
}
