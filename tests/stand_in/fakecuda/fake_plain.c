/* The least of a runtime: a launch runs its kernel at once, on host memory. */
#include "device/device.h"
#include "fake_kernel.h"

extern const struct gyre_device gyre_device_cpu;

const struct gyre_device *gyre_device_of(enum gyre_memory_kind kind)
{
    (void)kind;
    return &gyre_device_cpu;
}

void fake_kernel_register(const void *function, const size_t *argument_bytes, int arguments)
{
    (void)function;
    (void)argument_bytes;
    (void)arguments;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = 2;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    *attributes = (struct cudaFuncAttributes){0};
    (void)function;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    (void)stream;
    fake_kernel_run(function, grid, block, arguments, shared_bytes);
    return cudaSuccess;
}
