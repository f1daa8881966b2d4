/* CUDA memory that no peer maps, as a program's own allocator gives it: operations inside a node go
 * by way of windows on the device, and no byte of them by way of the host. The stand-in for CUDA
 * counts bytes. */
#include "program/cuda/alone/alone_rig.h"
#include "device/device.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 150001u /* elements of a block */

enum way { RUN, START, ON, WAYS };
enum place { APART, MAPPED, HOST }; /* of a rank's buffers; APART: a device's, which no peer maps */

struct bench {
    CUdeviceptr apart; /* INPUT, and behind it OUTPUT */
    void *memory[3][2];
    CUstream stream;
    int32_t *host;
    uint64_t bytes; /* of a buffer */
};

static int set_up(struct gyre_comm *comm, struct bench *bench, bool proven)
{
    CUcontext context;
    void *first;
    bench->bytes = (uint64_t)COUNT * 4 * (uint64_t)gyre_size(comm);
    bench->host = calloc(1, bench->bytes);
    if (proven && gyre_alloc_device(comm, 2 * bench->bytes, &first))
        return rig_check(false, comm, "gyre_alloc_device");
    if (cuDevicePrimaryCtxRetain(&context, gyre_device(comm)) || cuCtxPushCurrent(context) ||
        cuMemAlloc(&bench->apart, 2 * bench->bytes) ||
        cuStreamCreate(&bench->stream, CU_STREAM_NON_BLOCKING))
        return rig_check(false, comm, "memory and a stream");
    for (int i = 0; i < 2; i++) {
        bench->memory[APART][i] = (char *)(uintptr_t)bench->apart + i * bench->bytes;
        bench->memory[MAPPED][i] = proven ? (char *)first + i * bench->bytes : NULL;
        bench->memory[HOST][i] = calloc(1, bench->bytes);
    }
    return rig_check(gyre_barrier(comm) == 0, comm, "all have memory");
}

static int tear_down(struct gyre_comm *comm, struct bench *bench)
{
    for (int i = 0; i < 2; i++)
        free(bench->memory[HOST][i]);
    free(bench->host);
    int bad = gyre_finalize(comm) != 0;
    return bad + (cuMemFree(bench->apart) != CUDA_SUCCESS);
}

static int carry(const struct bench *bench, void *to, const void *from)
{
    return cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bench->bytes,
                         bench->stream) ||
           cuStreamSynchronize(bench->stream);
}

/* Element i of a rank's block b. */
static int32_t value(int rank, int b, uint64_t i)
{
    return (int32_t)(rank * 1000 + b * 100 + (int)(i % 89));
}

static int sum(struct gyre_comm *comm, const struct bench *bench, enum way way, const void *input,
               void *output)
{
    struct gyre_work *work = NULL;
    if (way == ON)
        return gyre_all_reduce_on(comm, input, output, COUNT, GYRE_I32, GYRE_SUM, bench->stream) ||
               cuStreamSynchronize(bench->stream) ||
               alone_await_end(comm); /* before, the rank makes no window */
    if (way == RUN)
        return gyre_all_reduce(comm, input, output, COUNT, GYRE_I32, GYRE_SUM);
    return gyre_all_reduce_start(comm, input, output, COUNT, GYRE_I32, GYRE_SUM, &work) ||
           gyre_work_wait(work, -1);
}

/* One sum; *moved: bytes over the host. */
static int try_sum(struct gyre_comm *comm, const struct bench *bench, enum way way,
                   enum place place, bool in_place, uint64_t *moved)
{
    int n = gyre_size(comm);
    void *input = bench->memory[place][0], *output = bench->memory[place][!in_place];
    for (uint64_t i = 0; i < COUNT; i++)
        bench->host[i] = value(gyre_rank(comm), 0, i);
    if (carry(bench, input, bench->host))
        return rig_check(false, comm, "a copy");
    uint64_t before = fakecuda_host_bytes();
    if (rig_check(sum(comm, bench, way, input, output) == 0, comm, "a sum"))
        return 1;
    *moved = fakecuda_host_bytes() - before;
    if (carry(bench, bench->host, output))
        return rig_check(false, comm, "a copy");
    for (uint64_t i = 0; i < COUNT; i++)
        if (bench->host[i] != n * value(0, 0, i) + 500 * n * (n - 1))
            return rig_check(false, comm, "a sum's elements");
    return 0;
}

/* All ranks have memory apart, or every second has mapped memory. */
static int stay_on_devices(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, true);
    (void)rig;
    for (int i = 0; i < 4 * WAYS && !bad; i++) {
        uint64_t moved = 1;
        enum place place = i / WAYS % 2 && gyre_rank(comm) % 2 ? MAPPED : APART;
        bad = try_sum(comm, &bench, (enum way)(i % WAYS), place, i / WAYS / 2, &moved) ||
              rig_check(moved == 0, comm, "bytes of a sum went over the host");
    }
    return tear_down(comm, &bench) || bad;
}

/* Blocks: each rank's go to all, and are all read. */
static int gather_and_exchange(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, true), n = gyre_size(comm), rank = gyre_rank(comm);
    (void)rig;
    for (int exchange = 0; exchange < 2 && !bad; exchange++) {
        void *const *memory = bench.memory[APART];
        for (uint64_t i = 0; i < (uint64_t)n * COUNT; i++)
            bench.host[i] = value(rank, (int)(i / COUNT), i % COUNT);
        bad = carry(&bench, memory[0], bench.host);
        uint64_t before = fakecuda_host_bytes();
        bad |= rig_check(
            (exchange ? gyre_all_to_all(comm, memory[0], memory[1], COUNT, GYRE_I32)
                      : gyre_all_gather(comm, memory[0], memory[1], COUNT, GYRE_I32)) == 0 &&
                fakecuda_host_bytes() == before,
            comm, "blocks, or bytes of them over the host");
        bad |= carry(&bench, bench.host, memory[1]);
        for (uint64_t i = 0; i < (uint64_t)n * COUNT && !bad; i++)
            bad =
                rig_check(bench.host[i] == value((int)(i / COUNT), exchange ? rank : 0, i % COUNT),
                          comm, "elements of a block");
    }
    return tear_down(comm, &bench) || bad;
}

/* Rank 1 has its buffers on the host, so all leave the device; windows are left for mirrors. */
static int leave_devices(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, true);
    (void)rig;
    for (int i = 0; i < 2 * WAYS && !bad; i++) {
        uint64_t moved;
        bad = try_sum(comm, &bench, (enum way)(i % WAYS), gyre_rank(comm) == 1 ? HOST : APART,
                      i / WAYS, &moved);
    }
    return tear_down(comm, &bench) || bad;
}

/* No copies between the two devices have been tried, and an operation is no time for it. */
static int try_nothing(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    int bad = set_up(comm, &bench, false), maps = fakecuda_calls("cuMemMap");
    (void)rig;
    for (int way = 0; way < WAYS && !bad; way++) {
        uint64_t moved = 0;
        bad = try_sum(comm, &bench, (enum way)way, APART, false, &moved) ||
              rig_check(moved == 2 * COUNT * 4 && fakecuda_calls("cuMemMap") == maps, comm,
                        "memory was shared between devices that had not been tried");
    }
    return tear_down(comm, &bench) || bad;
}

/* A part's windows are given up with it, and the world has its own. */
static int split_and_end(struct gyre_comm *comm, struct rig *rig)
{
    struct bench bench = {0};
    struct gyre_comm *part;
    int bad = set_up(comm, &bench, true);
    (void)rig;
    uint64_t moved = 0, before = fakecuda_alive().bytes;
    for (int i = 0; i < 3 && !bad; i++)
        bad = rig_check(gyre_split(comm, 0, 0, &part) == 0, comm, "gyre_split") ||
              try_sum(part, &bench, (enum way)i, APART, false, &moved) ||
              rig_check(gyre_finalize(part) == 0 && moved == 0 && fakecuda_alive().bytes == before,
                        comm, "a window is left of a part");
    return tear_down(comm, &bench) || bad;
}

static void run(int n, int (*body)(struct gyre_comm *, struct rig *))
{
    struct rig rig = {.n = n, .transport = "auto", .body = body};
    assert_int_equal(rig_run(&rig, 60), 0);
}

static void nothing_goes_over_the_host(void **state)
{
    (void)state;
    run(2, stay_on_devices);
    run(3, stay_on_devices);
    run(3, gather_and_exchange);
}

static void host_memory_makes_all_leave(void **state)
{
    (void)state;
    run(2, leave_devices);
    run(3, leave_devices);
}

static void untried_devices_share_nothing(void **state)
{
    (void)state;
    run(2, try_nothing);
}

static void a_part_leaves_no_window(void **state)
{
    (void)state;
    run(2, split_and_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_over_the_host),
        cmocka_unit_test(host_memory_makes_all_leave),
        cmocka_unit_test(untried_devices_share_nothing),
        cmocka_unit_test(a_part_leaves_no_window),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("GYRE_DEVICES", "0,1,0,1", 1);
    setenv("FAKECUDA_DELAY", "300", 1); /* what is not waited for comes late */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
