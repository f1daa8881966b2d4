/* CUDA memory for other devices of the machine, such as RDMA cards.
 *
 *     region ─▶ dma-buf ─▶ the card's driver maps it ─▶ the card writes ─▶ "it is done"
 *                                                                            │
 *                                                     flush ◀────────────────┘
 *                                                       └─▶ kernels and copies posted now see it
 *
 * A card's bytes may still be on their way inside the machine when the host hears that the write is
 * done, because news and bytes go different ways. Only the driver knows whether a device orders
 * them by itself; where a device does, flush() costs nothing. Tested by
 * tests/unit/transport/link/verbs/on_device_test.c. */
#include "device/cuda/inside.h"

#include "base/size.h"

#define PAGE UINT64_C(4096)

bool gyre_cuda_rdma(int device)
{
    CUdevice handle;
    int supported = 0;
    return gyre_cuda->cuDeviceGet(&handle, device) == CUDA_SUCCESS &&
           gyre_cuda->cuDeviceGetAttribute(
               &supported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, handle) ==
               CUDA_SUCCESS &&
           supported;
}

int gyre_cuda_dma_buf(int device, const void *base, uint64_t length, struct gyre_trouble *trouble)
{
    int fd = -1;
    if ((uintptr_t)base % PAGE)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "CUDA memory at %p does not begin with a page", base);
    int status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuMemGetHandleForAddressRange(
        &fd, (CUdeviceptr)(uintptr_t)base, gyre_round_up(length, PAGE),
        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    gyre_cuda_leave();
    status = gyre_cuda_failed(error, device, trouble, "cuMemGetHandleForAddressRange of %llu bytes",
                              (unsigned long long)length);
    return status ? status : fd;
}

int gyre_cuda_flush(int device, struct gyre_trouble *trouble)
{
    int status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    CUresult error =
        gyre_cuda->cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                              CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    gyre_cuda_leave();
    return gyre_cuda_failed(error, device, trouble, "cuFlushGPUDirectRDMAWrites");
}
