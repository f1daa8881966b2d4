/* The contract of device.h over the real driver: the suite that unit/device/cuda/cuda_test runs
 * over the stand-in, with a fold out of the library's table. */
#include "collectives/kernels/reduce.h"
#include "rig/device_suite.h"

#include <stdio.h>

static void doubling(const struct gyre_fold_task *task, void *native_queue)
{
    const void *twice[] = {task->source[0], task->source[0]};
    struct gyre_fold_task sum = *task;
    sum.source = twice;
    sum.sources = 2;
    gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_I32][GYRE_SUM](&sum, native_queue);
}

int main(void)
{
    struct gyre_trouble trouble = {0};
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    if (!cuda || !cuda->probe(&trouble)) {
        printf("skipped: no CUDA device: %s\n", cuda ? trouble.text : "not built in");
        return 77;
    }
    return device_suite_run("the contract, by CUDA", cuda, doubling);
}
