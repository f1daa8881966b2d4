/* What a .cu file needs to be compiled as host code: the words of the language, and a launch that
 * tells the stand-in how the kernel is called.
 *
 *     reduce_cuda.cu   cudaLaunchKernel(kernel, grid, block, arguments, 0, stream)
 *           │ its type says which arguments the kernel takes
 *           ▼
 *     fake_kernel_define(kernel, how to call it), fake_kernel_register(kernel, sizes)
 *           ▼
 *     the runtime copies the arguments, and one day a stream runs them:
 *     fake_kernel_run(kernel, grid, block, arguments, shared)
 *
 * Blocks run in an order that a seed shuffles. Threads of a block run one after the other, each as
 * far as a barrier, where the next one goes on (fake_fiber.cpp). The variables of a launch
 * (threadIdx …), and memory that a block shares, belong to the host thread that runs the block, so
 * several streams may run kernels at once. */
#ifndef GYRE_TESTS_STAND_IN_FAKECUDA_FAKE_KERNEL_H
#define GYRE_TESTS_STAND_IN_FAKECUDA_FAKE_KERNEL_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls `function` once, for one thread, with the arguments that are pointed to. */
typedef void (*fake_kernel_call)(const void *function, void **arguments);

/* Any thread; what is known already is not changed. */
void fake_kernel_define(const void *function, fake_kernel_call call);

/* The runtime's: how long each argument is. */
void fake_kernel_register(const void *function, const size_t *argument_bytes, int arguments);

/* Runs a grid and returns. Ends the process with a message where the launch is none that a device
 * would take. What was not defined is a void (*)(void **arguments), called once. Any thread. */
void fake_kernel_run(const void *function, dim3 grid, dim3 block, void **arguments,
                     size_t shared_bytes);

/* Runs call(context) for each of `threads` threads of a block, which may meet at barriers: `before`
 * is called whenever the host thread turns to another of them, with its number: from 0 to the last
 * one, and again after each barrier. Ends the process with a message where some threads of a block
 * end and others wait. Any thread. */
void fake_fibers_run(unsigned threads, void (*before)(unsigned thread),
                     void (*call)(const void *context), const void *context);

/* A barrier of the block's threads. */
void fake_fibers_meet(void);

/* The order of blocks; each launch draws another. 1 at the start. */
void fake_kernel_seed(uint64_t seed);

#ifdef __cplusplus
}

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__    static thread_local
#define __syncthreads fake_fibers_meet

struct uint3 {
    unsigned int x, y, z;
};
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};

extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;

/* One argument at a time is taken from the list, so that they reach the call in their order. */
template <class... Rest> struct fake_arguments;
template <> struct fake_arguments<> {
    template <class Kernel, class... Taken>
    static void call(Kernel kernel, void **, const Taken &...taken)
    {
        kernel(taken...);
    }
};
template <class First, class... Rest> struct fake_arguments<First, Rest...> {
    template <class Kernel, class... Taken>
    static void call(Kernel kernel, void **arguments, const Taken &...taken)
    {
        fake_arguments<Rest...>::call(kernel, arguments + 1, taken...,
                                      *static_cast<const First *>(*arguments));
    }
};

template <class... Arguments> void fake_kernel_call_of(const void *function, void **arguments)
{
    typedef void (*kernel)(Arguments...);
    fake_arguments<Arguments...>::call(reinterpret_cast<kernel>(const_cast<void *>(function)),
                                       arguments);
}

template <class... Arguments> const void *fake_kernel_known(void (*kernel)(Arguments...))
{
    const void *function = reinterpret_cast<const void *>(kernel);
    const size_t bytes[] = {sizeof(Arguments)...};
    fake_kernel_define(function, fake_kernel_call_of<Arguments...>);
    fake_kernel_register(function, bytes, sizeof...(Arguments));
    return function;
}

/* As CUDA's own header has them: calls that know the kernel's type. */
template <class... Arguments>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(Arguments...))
{
    return cudaFuncGetAttributes(attributes, fake_kernel_known(kernel));
}

template <class... Arguments>
cudaError_t cudaLaunchKernel(void (*kernel)(Arguments...), dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    return cudaLaunchKernel(fake_kernel_known(kernel), grid, block, arguments, shared_bytes,
                            stream);
}
#endif

#endif
