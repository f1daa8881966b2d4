/* A rank that cannot post to its device: its copies, on memory that peers cannot map, or its
 * kernels, on memory that they do. No rank's call says that it went well. */
#include "comm_rig.h"
#include "device/device.h"
#include "fakecuda/fakecuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#define COUNT 70001u

/* Without a barrier: its end could meet the other rank's failure. */
static int lost(struct gyre_comm *comm, struct rig *rig, const char *call, void *input,
                void *output)
{
    rig->shared->ready++;
    rig_until(&rig->shared->ready, 2);
    if (gyre_rank(comm) == 1)
        fakecuda_fail(call, 1, CUDA_ERROR_LAUNCH_FAILED);
    return rig_check(gyre_all_reduce(comm, input, output, COUNT, GYRE_I32, GYRE_SUM) != 0 &&
                         gyre_all_reduce(comm, input, output, COUNT, GYRE_I32, GYRE_SUM) != 0,
                     comm, "a lost device was taken for a result");
}

static int lost_copies(struct gyre_comm *comm, struct rig *rig)
{
    struct gyre_region alone;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (cuda->alloc(gyre_device(comm), COUNT * 4, GYRE_SHARE_OPEN, &alone, NULL))
        return 1;
    int bad = lost(comm, rig, "cuMemcpyAsync", alone.base, alone.base);
    gyre_finalize(comm);
    return bad;
}

static int lost_kernels(struct gyre_comm *comm, struct rig *rig)
{
    void *memory;
    if (gyre_alloc_device(comm, COUNT * 4, &memory))
        return 1;
    int bad = lost(comm, rig, "cudaLaunchKernel", memory, memory);
    gyre_finalize(comm);
    return bad;
}

static void copies(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = lost_copies}, 30),
                     0);
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "tcp", .body = lost_copies}, 30),
                     0);
}

static void kernels(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2, .transport = "shm", .body = lost_kernels}, 30),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies),
        cmocka_unit_test(kernels),
    };
    setenv("GYRE_DEVICES", "0,0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
