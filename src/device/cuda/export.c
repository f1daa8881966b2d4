/* CUDA memory that the driver exports as a descriptor (cuMemCreate). The owner maps it at reserved
 * addresses, and a peer that gets the descriptor maps the same memory:
 *
 *     owner                        driver                      peer
 *     reserve, create, map, export ─▶ memory ◀── import, reserve, map
 *
 * The memory lives until no process maps it and all descriptors are closed. So owner and peers may
 * let go in any order. Detaching maps fresh memory at the old addresses. Tested by
 * tests/unit/device/cuda/regions_test.c. */
#include "device/cuda/region.h"

#include <fcntl.h>
#include <unistd.h>

#define FD_HANDLE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

/* -- addresses --------------------------------------------------------------------------------- */

/* Maps a whole memory at reserved addresses, for this device to read and write. */
static int map_at(int device, CUdeviceptr at, uint64_t length, CUmemGenericAllocationHandle memory,
                  struct gyre_trouble *trouble)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult error = gyre_cuda->cuMemMap(at, length, 0, memory, 0);
    if (error)
        return gyre_cuda_memory_failed(error, device, length, "cuMemMap", trouble);
    error = gyre_cuda->cuMemSetAccess(at, length, &access, 1);
    if (error)
        gyre_cuda->cuMemUnmap(at, length);
    return gyre_cuda_memory_failed(error, device, length, "cuMemSetAccess", trouble);
}

int gyre_cuda_map(int device, uint64_t length, CUmemGenericAllocationHandle memory, void **base,
                  struct gyre_trouble *trouble)
{
    CUdeviceptr at;
    CUresult error = gyre_cuda->cuMemAddressReserve(&at, length, 0, 0, 0);
    if (error)
        return gyre_cuda_memory_failed(error, device, length, "cuMemAddressReserve", trouble);
    int status = map_at(device, at, length, memory, trouble);
    if (status)
        gyre_cuda->cuMemAddressFree(at, length);
    else
        *base = (void *)(uintptr_t)at;
    return status;
}

void gyre_cuda_unmap(const void *base, uint64_t length)
{
    gyre_cuda->cuMemUnmap(gyre_cuda_address(base), length);
    gyre_cuda->cuMemAddressFree(gyre_cuda_address(base), length);
}

bool gyre_cuda_is_exportable(void *base)
{
    CUmemGenericAllocationHandle memory;
    if (gyre_cuda->cuMemRetainAllocationHandle(&memory, base) != CUDA_SUCCESS)
        return false;
    gyre_cuda->cuMemRelease(memory);
    return true;
}

/* -- exportable memory ------------------------------------------------------------------------- */

bool gyre_cuda_exports(int device)
{
    static const CUdevice_attribute needed[] = {
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    };
    CUdevice handle;
    int supported = !gyre_cuda_check_device(device, NULL) &&
                    gyre_cuda->cuDeviceGet(&handle, device) == CUDA_SUCCESS;
    for (int i = 0; i < 2 && supported; i++)
        if (gyre_cuda->cuDeviceGetAttribute(&supported, needed[i], handle) != CUDA_SUCCESS)
            supported = 0;
    return supported;
}

/* Tells a failure to export. Containers and virtual machines refuse with many different errors;
 * where classic memory may do, the status says so. */
static int export_failed(CUresult error, int device, uint64_t length, const char *call,
                         struct gyre_trouble *trouble)
{
    struct gyre_trouble refused = {0};
    int status = gyre_cuda_memory_failed(error, device, length, call, &refused);
    switch ((int)error) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_UNKNOWN:
        status = GYRE_UNSUPPORTED;
    }
    return status ? gyre_trouble_set(trouble, status, "%s", refused.text) : 0;
}

static int create_memory(int device, uint64_t length, CUmemGenericAllocationHandle *memory, int *fd,
                         struct gyre_trouble *trouble)
{
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .requestedHandleTypes = FD_HANDLE,
                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    wanted.allocFlags.gpuDirectRDMACapable = gyre_cuda_rdma(device);
    CUresult error = gyre_cuda->cuMemCreate(memory, length, &wanted, 0);
    if (error)
        return export_failed(error, device, length, "cuMemCreate", trouble);
    error = gyre_cuda->cuMemExportToShareableHandle(fd, *memory, FD_HANDLE, 0);
    if (error)
        gyre_cuda->cuMemRelease(*memory);
    else
        fcntl(*fd, F_SETFD, FD_CLOEXEC);
    return export_failed(error, device, length, "cuMemExportToShareableHandle", trouble);
}

int gyre_cuda_alloc_exportable(struct gyre_region *region, uint64_t length,
                               struct gyre_trouble *trouble)
{
    int fd;
    CUmemGenericAllocationHandle memory;
    int status = create_memory(region->device, length, &memory, &fd, trouble);
    if (status)
        return status;
    status = gyre_cuda_map(region->device, length, memory, &region->base, trouble);
    gyre_cuda->cuMemRelease(memory); /* the mapping and the descriptor keep the memory */
    if (status)
        close(fd);
    else
        region->fd = fd;
    return status;
}

int gyre_cuda_import_exportable(struct gyre_region *region, int fd, uint64_t length,
                                struct gyre_trouble *trouble)
{
    CUmemGenericAllocationHandle memory;
    CUresult error =
        gyre_cuda->cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, FD_HANDLE);
    if (error)
        return gyre_cuda_memory_failed(error, region->device, length,
                                       "cuMemImportFromShareableHandle", trouble);
    int status = gyre_cuda_map(region->device, length, memory, &region->base, trouble);
    gyre_cuda->cuMemRelease(memory);
    return status;
}

/* -- detaching --------------------------------------------------------------------------------- */

/* Puts `fresh`, which is mapped at `scratch`, with the region's content at the region's address, or
 * puts `old` back. All work that uses the region must have ended before. */
static int take_over(struct gyre_region *region, CUmemGenericAllocationHandle old,
                     CUmemGenericAllocationHandle fresh, void *scratch,
                     struct gyre_trouble *trouble)
{
    CUdeviceptr base = gyre_cuda_address(region->base);
    uint64_t length = gyre_cuda_mapped_length(region->device, region->length);
    int status = gyre_cuda_fill(region->device, scratch, region->base, length, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuMemUnmap(base, length);
    if (error)
        return gyre_cuda_memory_failed(error, region->device, length, "cuMemUnmap", trouble);
    status = map_at(region->device, base, length, fresh, trouble);
    if (status)
        map_at(region->device, base, length, old, NULL);
    return status;
}

int gyre_cuda_replace(struct gyre_region *region, CUmemGenericAllocationHandle old,
                      struct gyre_trouble *trouble)
{
    int fd;
    void *scratch;
    CUmemGenericAllocationHandle fresh;
    uint64_t length = gyre_cuda_mapped_length(region->device, region->length);
    int status = gyre_cuda_settle(region->device, trouble);
    if (!status)
        status = create_memory(region->device, length, &fresh, &fd, trouble);
    if (status)
        return status;
    status = gyre_cuda_map(region->device, length, fresh, &scratch, trouble);
    if (!status) {
        status = take_over(region, old, fresh, scratch, trouble);
        gyre_cuda_unmap(scratch, length);
    }
    gyre_cuda->cuMemRelease(fresh);
    close(status ? fd : region->fd);
    if (!status)
        region->fd = fd;
    return status;
}
