/* The few calls of the runtime API: finding the driver's, launching kernels, the last error. */
#include "fake_parts.h"

#include <string.h>

static _Thread_local cudaError_t last_error;

/* clang-format off */
static const struct {
    const char *name;
    void *function;
} entries[] = {
#define entry(name) {#name, (void *)name},
    entry(cuInit)
    entry(cuGetErrorName)
    entry(cuDeviceGetCount)
    entry(cuDeviceGet)
    entry(cuDeviceGetAttribute)
    entry(cuDeviceGetName)
    entry(cuDeviceGetUuid)
    entry(cuDeviceTotalMem)
    entry(cuDeviceCanAccessPeer)
    entry(cuDevicePrimaryCtxRetain)
    entry(cuCtxPushCurrent)
    entry(cuCtxPopCurrent)
    entry(cuCtxGetCurrent)
    entry(cuCtxGetDevice)
    entry(cuCtxGetStreamPriorityRange)
    entry(cuCtxSynchronize)
    entry(cuMemGetInfo)
    entry(cuMemAlloc)
    entry(cuMemFree)
    entry(cuMemGetAllocationGranularity)
    entry(cuMemCreate)
    entry(cuMemRelease)
    entry(cuMemRetainAllocationHandle)
    entry(cuMemAddressReserve)
    entry(cuMemAddressFree)
    entry(cuMemMap)
    entry(cuMemUnmap)
    entry(cuMemSetAccess)
    entry(cuMemExportToShareableHandle)
    entry(cuMemImportFromShareableHandle)
    entry(cuMemGetHandleForAddressRange)
    entry(cuFlushGPUDirectRDMAWrites)
    entry(cuIpcGetMemHandle)
    entry(cuIpcOpenMemHandle)
    entry(cuIpcCloseMemHandle)
    entry(cuMemHostRegister)
    entry(cuMemHostUnregister)
    entry(cuMemHostGetDevicePointer)
    entry(cuPointerGetAttributes)
    entry(cuStreamCreate)
    entry(cuStreamCreateWithPriority)
    entry(cuStreamDestroy)
    entry(cuStreamQuery)
    entry(cuStreamSynchronize)
    entry(cuStreamWaitEvent)
    entry(cuStreamWaitValue64)
    entry(cuStreamWriteValue64)
    entry(cuStreamBatchMemOp)
    entry(cuStreamIsCapturing)
    entry(cuStreamGetCtx)
    entry(cuThreadExchangeStreamCaptureMode)
    entry(cuEventCreate)
    entry(cuEventDestroy)
    entry(cuEventRecord)
    entry(cuEventQuery)
    entry(cuMemcpyAsync)
    entry(cuMemcpyPeerAsync)
    entry(cuMemsetD8Async)
    entry(cuStreamBeginCapture)
    entry(cuStreamEndCapture)
    entry(cuGraphInstantiateWithFlags)
    entry(cuGraphUpload)
    entry(cuGraphLaunch)
    entry(cuGraphExecDestroy)
    entry(cuGraphDestroy)
#undef entry
};
/* clang-format on */

cudaError_t cudaDriverGetVersion(int *version)
{
    CUresult status = fake_begin(__func__, FAKE_NOTHING);
    *version = fake_settings.devices < 0 ? 0 : fake_settings.driver;
    return (cudaError_t)fake_end(status);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    CUresult status = fake_begin(__func__, FAKE_NOTHING);
    if (!status && fake_settings.devices < 0)
        status = (CUresult)cudaErrorInsufficientDriver;
    *function = NULL;
    *result = cudaDriverEntryPointSymbolNotFound;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0] && !status; i++)
        if (!strcmp(entries[i].name, symbol)) {
            *function = entries[i].function;
            *result = cudaDriverEntryPointSuccess;
        }
    return (cudaError_t)fake_end(status);
}

void fake_error(cudaError_t error)
{
    if (error)
        last_error = error;
}

cudaError_t cudaGetLastError(void)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT); /* a lost device is told again */
    cudaError_t error = last_error ? last_error : (cudaError_t)status;
    last_error = cudaSuccess;
    fake_end(CUDA_SUCCESS);
    return error;
}

cudaError_t cudaGetDevice(int *device)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    *device = fake_current() ? fake_current()->device : 0;
    return (cudaError_t)fake_end(status);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    return (cudaError_t)cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared_bytes, cudaStream_t stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status)
        status = fake_launch(stream, function, grid, block, arguments, shared_bytes);
    fake_end(status);
    fake_error((cudaError_t)status);
    return (cudaError_t)status;
}
