/* Failures and fills of both kinds of CUDA memory. Tested by tests/unit/device/cuda/cuda_test.c. */
#include "device/cuda/region.h"

int gyre_cuda_memory_failed(CUresult error, int device, uint64_t length, const char *call,
                            struct gyre_trouble *trouble)
{
    size_t unused = 0, total = 0;
    if (error != CUDA_ERROR_OUT_OF_MEMORY || gyre_cuda->cuMemGetInfo(&unused, &total))
        return gyre_cuda_failed(error, device, trouble, "%s of %llu bytes", call,
                                (unsigned long long)length);
    return gyre_cuda_failed(error, device, trouble, "%s of %llu bytes (%zu of %zu MiB are free)",
                            call, (unsigned long long)length, unused >> 20, total >> 20);
}

int gyre_cuda_fill(int device, void *base, const void *from, uint64_t length,
                   struct gyre_trouble *trouble)
{
    CUstream stream = gyre_cuda_fill_stream(device);
    CUresult error = from ? gyre_cuda->cuMemcpyAsync(gyre_cuda_address(base),
                                                     gyre_cuda_address(from), length, stream)
                          : gyre_cuda->cuMemsetD8Async(gyre_cuda_address(base), 0, length, stream);
    if (!error)
        error = gyre_cuda->cuStreamSynchronize(stream);
    return gyre_cuda_failed(error, device, trouble, "filling %llu bytes",
                            (unsigned long long)length);
}
