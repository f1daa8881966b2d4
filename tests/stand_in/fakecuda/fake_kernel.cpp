/* Runs the kernels of .cu files that were compiled as host code: one block after the other.
 *
 * A grid's blocks are counted through by a step that has no divisor in common with their number,
 * from a random start, so each launch meets them in another order and each block once. */
#include "fake_kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define KERNELS_MAX 1024
#define THREADS_MAX 1024
#define SHARED_MAX  (48 << 10)

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t dice = 1;
static struct {
    const void *function;
    fake_kernel_call call;
} kernels[KERNELS_MAX];

[[noreturn]] static void refuse(const char *what)
{
    fprintf(stderr, "fakecuda: a kernel was launched that %s\n", what);
    abort();
}

/* Its place, or where it would go. */
static size_t place_of(const void *function)
{
    size_t place = (uintptr_t)function / 16 % KERNELS_MAX;
    for (int tried = 0; tried < KERNELS_MAX; tried++, place = (place + 1) % KERNELS_MAX)
        if (!kernels[place].function || kernels[place].function == function)
            return place;
    refuse("is one more than the table holds");
}

void fake_kernel_define(const void *function, fake_kernel_call call)
{
    pthread_mutex_lock(&lock);
    size_t place = place_of(function);
    kernels[place].function = function;
    kernels[place].call = call;
    pthread_mutex_unlock(&lock);
}

void fake_kernel_seed(uint64_t seed)
{
    pthread_mutex_lock(&lock);
    dice = seed;
    pthread_mutex_unlock(&lock);
}

/* NULL if it was not defined. */
static fake_kernel_call find(const void *function, uint64_t *random)
{
    pthread_mutex_lock(&lock);
    fake_kernel_call call = kernels[place_of(function)].call;
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    *random = dice >> 16;
    pthread_mutex_unlock(&lock);
    return call;
}

struct block_call {
    const void *function;
    fake_kernel_call call;
    void **arguments;
};

/* Threads are turned to in their order, from 0 on after each barrier. */
static void turn_to(unsigned thread)
{
    if (thread == 0) {
        threadIdx = {0, 0, 0};
    } else if (++threadIdx.x == blockDim.x) {
        threadIdx.x = 0;
        threadIdx.z += threadIdx.y + 1 == blockDim.y;
        threadIdx.y = threadIdx.y + 1 == blockDim.y ? 0 : threadIdx.y + 1;
    }
}

static void call_thread(const void *context)
{
    const block_call *block = static_cast<const block_call *>(context);
    block->call(block->function, block->arguments);
}

static void run_block(const void *function, fake_kernel_call call, void **arguments)
{
    const block_call block = {function, call, arguments};
    fake_fibers_run(blockDim.x * blockDim.y * blockDim.z, turn_to, call_thread, &block);
}

static uint64_t divisor_of_both(uint64_t a, uint64_t b)
{
    return b ? divisor_of_both(b, a % b) : a;
}

static void check_launch(dim3 grid, dim3 block, size_t shared_bytes)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || !threads)
        refuse("has no thread");
    if (grid.y > 65535 || grid.z > 65535 || grid.x > INT32_MAX)
        refuse("has more blocks than a device takes");
    if (threads > THREADS_MAX || shared_bytes > SHARED_MAX)
        refuse("has larger blocks than a device takes");
}

void fake_kernel_run(const void *function, dim3 grid, dim3 block, void **arguments,
                     size_t shared_bytes)
{
    uint64_t random;
    check_launch(grid, block, shared_bytes);
    fake_kernel_call call = find(function, &random);
    if (!call) { /* not of a .cu file: a test's own */
        reinterpret_cast<void (*)(void **)>(const_cast<void *>(function))(arguments);
        return;
    }
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, at = random % blocks;
    uint64_t step = 1 + random / 7 % blocks;
    while (divisor_of_both(step, blocks) != 1)
        step++;
    gridDim = {grid.x, grid.y, grid.z};
    blockDim = {block.x, block.y, block.z};
    for (uint64_t i = 0; i < blocks; i++, at = (at + step) % blocks) {
        blockIdx.x = (unsigned)(at % grid.x);
        blockIdx.y = (unsigned)(at / grid.x % grid.y);
        blockIdx.z = (unsigned)(at / grid.x / grid.y);
        run_block(function, call, arguments);
    }
}
