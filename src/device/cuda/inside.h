/* The inside of the CUDA device, for the files of this room: the driver's calls, found while the
 * program runs, and the ways into and out of a device's context. A file calls only files listed
 * below it.
 *
 *   cuda.c      the table of the device's functions, and queues
 *   streams.c   a queue and the caller's streams
 *   graphs.c    launches of a queue that are repeated together
 *   memory.c    regions: their kind and their owner
 *   export.c    memory that is exported as a descriptor
 *   classic.c   memory that is shared by an IPC handle
 *   apart.c     memory of another device that cannot be mapped
 *   region.c    failures and fills of both kinds
 *   rdma.c      memory for RDMA cards
 *   settle.c    waiting for all work of a device
 *   machine.c   the machine's devices; host memory; the owner of an address
 *   calls.c     the driver's calls
 *   absent.c    in place of all, in builds without CUDA */
#ifndef GYRE_DEVICE_CUDA_INSIDE_H
#define GYRE_DEVICE_CUDA_INSIDE_H

#include "device/device.h"

#include <cuda.h>

/* One line per call of the driver. */
/* clang-format off */
#define GYRE_CUDA_CALLS(call) \
    call(cuInit) \
    call(cuGetErrorName) \
    call(cuDeviceGetCount) \
    call(cuDeviceGet) \
    call(cuDeviceGetAttribute) \
    call(cuDeviceGetName) \
    call(cuDeviceGetUuid) \
    call(cuDeviceTotalMem) \
    call(cuDeviceCanAccessPeer) \
    call(cuDevicePrimaryCtxRetain) \
    call(cuCtxPushCurrent) \
    call(cuCtxPopCurrent) \
    call(cuCtxGetDevice) \
    call(cuCtxGetStreamPriorityRange) \
    call(cuCtxSynchronize) \
    call(cuMemGetInfo) \
    call(cuMemAlloc) \
    call(cuMemFree) \
    call(cuMemGetAllocationGranularity) \
    call(cuMemCreate) \
    call(cuMemRelease) \
    call(cuMemRetainAllocationHandle) \
    call(cuMemAddressReserve) \
    call(cuMemAddressFree) \
    call(cuMemMap) \
    call(cuMemUnmap) \
    call(cuMemSetAccess) \
    call(cuMemExportToShareableHandle) \
    call(cuMemImportFromShareableHandle) \
    call(cuMemGetHandleForAddressRange) \
    call(cuFlushGPUDirectRDMAWrites) \
    call(cuIpcGetMemHandle) \
    call(cuIpcOpenMemHandle) \
    call(cuIpcCloseMemHandle) \
    call(cuMemHostRegister) \
    call(cuMemHostUnregister) \
    call(cuMemHostGetDevicePointer) \
    call(cuPointerGetAttributes) \
    call(cuStreamCreateWithPriority) \
    call(cuStreamDestroy) \
    call(cuStreamQuery) \
    call(cuStreamSynchronize) \
    call(cuStreamWaitEvent) \
    call(cuStreamWaitValue64) \
    call(cuStreamBatchMemOp) \
    call(cuStreamIsCapturing) \
    call(cuStreamGetCtx) \
    call(cuThreadExchangeStreamCaptureMode) \
    call(cuEventCreate) \
    call(cuEventDestroy) \
    call(cuEventRecord) \
    call(cuEventQuery) \
    call(cuMemcpyAsync) \
    call(cuMemcpyPeerAsync) \
    call(cuMemsetD8Async) \
    call(cuStreamBeginCapture) \
    call(cuStreamEndCapture) \
    call(cuGraphInstantiateWithFlags) \
    call(cuGraphUpload) \
    call(cuGraphLaunch) \
    call(cuGraphExecDestroy) \
    call(cuGraphDestroy)
/* clang-format on */

#define GYRE_CUDA_POINTER(name) __typeof__(name) *name;

struct gyre_cuda_calls {
    GYRE_CUDA_CALLS(GYRE_CUDA_POINTER)
};

/* NULL until gyre_cuda_load() has found devices. */
extern const struct gyre_cuda_calls *gyre_cuda;

/* Returns the number of devices that this process sees; 0 with the reason. Makes no context. Any
 * thread; the first answer stands. */
int gyre_cuda_load(struct gyre_trouble *trouble);

/* Checks that there is a device of that number; the message says which there are. */
int gyre_cuda_check_device(int device, struct gyre_trouble *trouble);

/* Makes the device's primary context current in this thread, until gyre_cuda_leave() restores the
 * former one. The first entry to a device makes its context, which lives as long as the process. */
int gyre_cuda_enter(int device, struct gyre_trouble *trouble);
void gyre_cuda_leave(void);

/* Finds the context of a device; makes it where there is none. */
int gyre_cuda_context(int device, CUcontext *context);

/* The stream on which memory of the device is filled: made with the context, because to make a
 * stream may wait for all of a device's work, and of the highest priority. The device has been
 * entered before. */
CUstream gyre_cuda_fill_stream(int device);

/* Between relax and unrelax, which nest, no call of this thread spoils a capture of streams that
 * this or another thread has begun: these calls are never meant for a graph. enter and leave do
 * both. */
void gyre_cuda_relax(void);
void gyre_cuda_unrelax(void);

int gyre_cuda_prepare(int device, void (*load)(void), struct gyre_trouble *trouble);

/* Exportable memory is a multiple of this size. The device has been entered before. */
uint64_t gyre_cuda_granularity(int device);

/* Returns the status for an error of CUDA and puts its sentence into *trouble: "cuMemCreate of
 * 4194304 bytes on CUDA device 1: CUDA_ERROR_OUT_OF_MEMORY; …". `call` is printf's. 0 for
 * CUDA_SUCCESS. */
int gyre_cuda_failed(CUresult error, int device, struct gyre_trouble *trouble, const char *call,
                     ...) __attribute__((format(printf, 4, 5)));

/* The entries of struct gyre_device for regions (memory.c). */
int gyre_cuda_alloc(int device, uint64_t length, enum gyre_share share, struct gyre_region *region,
                    struct gyre_trouble *trouble);
bool gyre_cuda_exports(int device);
void gyre_cuda_free(struct gyre_region *region);
int gyre_cuda_import(int device, int fd, uint64_t length, enum gyre_share share,
                     struct gyre_region *region, struct gyre_trouble *trouble);
void gyre_cuda_unimport(struct gyre_region *region);
int gyre_cuda_adopt(int device, void *base, uint64_t length, struct gyre_region *region,
                    struct gyre_trouble *trouble);
int gyre_cuda_detach(struct gyre_region *region, struct gyre_trouble *trouble);
int gyre_cuda_dma_buf(int device, const void *base, uint64_t length, struct gyre_trouble *trouble);
int gyre_cuda_flush(int device, struct gyre_trouble *trouble);

/* Whether exportable memory can be made such that RDMA cards reach it (rdma.c). The device has been
 * entered before. */
bool gyre_cuda_rdma(int device);

/* Waits for all work of the device, of every stream; GYRE_TIMED_OUT after some seconds. The
 * device's context need not be current. */
int gyre_cuda_settle(int device, struct gyre_trouble *trouble);

/* Memory of another device of this process that cannot be mapped (apart.c). add() notes such
 * memory, drop() forgets it once. apart() tells whether a queue of `device` reaches one of two
 * addresses by copies only. copy() copies then, in its device's context, and keeps its detours in
 * the queue until they are freed. */
struct gyre_cuda_detour;
int gyre_cuda_apart_add(int owner, const void *base, uint64_t length, struct gyre_trouble *trouble);
void gyre_cuda_apart_drop(const void *base);
bool gyre_cuda_apart(int device, CUdeviceptr to, CUdeviceptr from);
CUresult gyre_cuda_apart_copy(struct gyre_cuda_detour **detours, int device, CUstream stream,
                              CUdeviceptr to, CUdeviceptr from, uint64_t length);
void gyre_cuda_detours_free(struct gyre_cuda_detour *detours);

/* The entries of struct gyre_device that ask about the machine, and lock host memory
 * (machine.c). */
int gyre_cuda_identify(int device, struct gyre_device_identity *identity,
                       struct gyre_trouble *trouble);
int gyre_cuda_able(int device, struct gyre_device_abilities *abilities,
                   struct gyre_trouble *trouble);
bool gyre_cuda_reaches(int device, int other);
int gyre_cuda_current(void);
int gyre_cuda_pin(int device, void *memory, uint64_t length, struct gyre_trouble *trouble);
void gyre_cuda_unpin(int device, void *memory);
enum gyre_memory_kind gyre_cuda_classify(const void *address);
int gyre_cuda_admit(int device, const void *address, struct gyre_trouble *trouble);
int gyre_cuda_recognise(int device, const void *address, enum gyre_memory_kind *kind,
                        struct gyre_trouble *trouble);

#endif
