/* Regions of CUDA memory.
 *
 * A region is memory that the driver exports as a descriptor (cuMemCreate). It is mapped where this
 * process has reserved addresses, and a peer that is given the descriptor maps the same memory:
 *
 *     owner                        driver                      peer
 *     reserve, create, map, export ─▶ memory ◀── import, reserve, map
 *
 * It lives until nobody maps it and all descriptors are closed, so the order in which owner and
 * peers let go does not matter. To detach is to map fresh memory at the old addresses.
 *
 * Where that is refused (older virtual machines, some containers), memory is cudaMalloc()'s and
 * travels as a classic IPC handle, 64 bytes. Those are put into a small sealed file, a *ticket*, so
 * that a region still is a descriptor to everybody else. Such memory cannot be detached: what a
 * peer has opened stays open. Where even that is refused, a region is of this process only.
 *
 * Inside a process a region is adopted: exportable memory is mapped once more, by its handle, at
 * addresses of its own, so that detaching is as between processes. By a device that cannot map it, it is
 * copied where it stands (cuda_apart.c). Classic memory cannot be opened where it was made; it is used
 * where it stands, by the same device.
 *
 * Nobody but the owner can be kept from writing CUDA memory, so GYRE_SHARE_SEALED is refused. */
#include "device/cuda_parts.h"

#include "base/log.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADOPTED      (-2) /* as a descriptor: memory of this process, where it stands */
#define FD_HANDLE    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define LENGTH_MAX   (UINT64_C(1) << 48)
#define TICKET_MAGIC UINT64_C(0x746b63616475431f)
#define TICKET_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct ticket {
    uint64_t magic, length; /* of the region */
    CUipcMemHandle handle;
};

static struct gyre_region empty_region(int device)
{
    return (struct gyre_region){.kind = GYRE_MEMORY_CUDA, .device = device, .fd = -1};
}

static uint64_t mapped_length(int device, uint64_t length)
{
    return gyre_round_up(length, gyre_cuda_granularity(device));
}

static CUdeviceptr address_of(const void *base)
{
    return (CUdeviceptr)(uintptr_t)base;
}

static int check_request(uint64_t length, enum gyre_share share, struct gyre_trouble *trouble)
{
    if (share == GYRE_SHARE_SEALED)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "CUDA memory cannot be sealed against the writing of peers: share "
                                "it open, or use host memory");
    if (length == 0 || length > LENGTH_MAX)
        return gyre_trouble_set(trouble, length ? -ENOMEM : GYRE_INVALID,
                                "there is no CUDA memory of %llu bytes",
                                (unsigned long long)length);
    return 0;
}

/* As gyre_cuda_failed(), and says how much the device has if that was not enough. */
static int memory_failed(CUresult error, int device, uint64_t length, const char *call,
                         struct gyre_trouble *trouble)
{
    size_t unused = 0, total = 0;
    if (error != CUDA_ERROR_OUT_OF_MEMORY || gyre_cuda->cuMemGetInfo(&unused, &total))
        return gyre_cuda_failed(error, device, trouble, "%s of %llu bytes", call,
                                (unsigned long long)length);
    return gyre_cuda_failed(error, device, trouble, "%s of %llu bytes (%zu of %zu MiB are free)",
                            call, (unsigned long long)length, unused >> 20, total >> 20);
}

/* -- addresses --------------------------------------------------------------------------------- */

/* Maps all of a memory at reserved addresses, for this device to read and write. */
static int place(int device, CUdeviceptr at, uint64_t length, CUmemGenericAllocationHandle memory,
                 struct gyre_trouble *trouble)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult error = gyre_cuda->cuMemMap(at, length, 0, memory, 0);
    if (error)
        return memory_failed(error, device, length, "cuMemMap", trouble);
    error = gyre_cuda->cuMemSetAccess(at, length, &access, 1);
    if (error)
        gyre_cuda->cuMemUnmap(at, length);
    return memory_failed(error, device, length, "cuMemSetAccess", trouble);
}

static int map_somewhere(int device, uint64_t length, CUmemGenericAllocationHandle memory,
                         void **base, struct gyre_trouble *trouble)
{
    CUdeviceptr at;
    CUresult error = gyre_cuda->cuMemAddressReserve(&at, length, 0, 0, 0);
    if (error)
        return memory_failed(error, device, length, "cuMemAddressReserve", trouble);
    int status = place(device, at, length, memory, trouble);
    if (status)
        gyre_cuda->cuMemAddressFree(at, length);
    else
        *base = (void *)(uintptr_t)at;
    return status;
}

static void unmap(const void *base, uint64_t length)
{
    gyre_cuda->cuMemUnmap(address_of(base), length);
    gyre_cuda->cuMemAddressFree(address_of(base), length);
}

/* Whether the memory at `base` was made by cuMemCreate(), in whatever process. */
static bool is_exportable(void *base)
{
    CUmemGenericAllocationHandle memory;
    if (gyre_cuda->cuMemRetainAllocationHandle(&memory, base) != CUDA_SUCCESS)
        return false;
    gyre_cuda->cuMemRelease(memory);
    return true;
}

/* -- filling ----------------------------------------------------------------------------------- */

/* Zeroes, or copies what is at `from`, and waits for it, on a stream of its own. */
static int fill(int device, void *base, const void *from, uint64_t length,
                struct gyre_trouble *trouble)
{
    CUstream stream;
    CUresult error = gyre_cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (error)
        return gyre_cuda_failed(error, device, trouble, "cuStreamCreate");
    error = from ? gyre_cuda->cuMemcpyAsync(address_of(base), address_of(from), length, stream)
                 : gyre_cuda->cuMemsetD8Async(address_of(base), 0, length, stream);
    if (!error)
        error = gyre_cuda->cuStreamSynchronize(stream);
    gyre_cuda->cuStreamDestroy(stream);
    return gyre_cuda_failed(error, device, trouble, "filling %llu bytes",
                            (unsigned long long)length);
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

/* Containers and virtual machines refuse to export in many words. Classic memory may do; where it
 * does not, that is told. */
static int export_failed(CUresult error, int device, uint64_t length, const char *call,
                         struct gyre_trouble *trouble)
{
    struct gyre_trouble refused = {0};
    int status = memory_failed(error, device, length, call, &refused);
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

/* Fills in base and descriptor. */
static int alloc_exportable(struct gyre_region *region, uint64_t length,
                            struct gyre_trouble *trouble)
{
    int fd;
    CUmemGenericAllocationHandle memory;
    int status = create_memory(region->device, length, &memory, &fd, trouble);
    if (status)
        return status;
    status = map_somewhere(region->device, length, memory, &region->base, trouble);
    gyre_cuda->cuMemRelease(memory); /* the mapping and the descriptor keep it */
    if (status)
        close(fd);
    else
        region->fd = fd;
    return status;
}

static int import_exportable(struct gyre_region *region, int fd, uint64_t length,
                             struct gyre_trouble *trouble)
{
    CUmemGenericAllocationHandle memory;
    CUresult error =
        gyre_cuda->cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, FD_HANDLE);
    if (error)
        return memory_failed(error, region->device, length, "cuMemImportFromShareableHandle",
                             trouble);
    int status = map_somewhere(region->device, length, memory, &region->base, trouble);
    gyre_cuda->cuMemRelease(memory);
    return status;
}

/* -- classic memory ---------------------------------------------------------------------------- */

/* A sealed file with the region's handle; negative: the memory cannot be shared. */
static int write_ticket(const struct gyre_region *region, uint64_t length,
                        struct gyre_trouble *trouble)
{
    struct ticket ticket = {.magic = TICKET_MAGIC, .length = length};
    CUresult error = gyre_cuda->cuIpcGetMemHandle(&ticket.handle, address_of(region->base));
    if (error)
        return gyre_cuda_failed(error, region->device, trouble, "cuIpcGetMemHandle");
    int fd = memfd_create("gyre-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && write(fd, &ticket, sizeof ticket) == sizeof ticket &&
        fcntl(fd, F_ADD_SEALS, TICKET_SEALS) == 0)
        return fd;
    int status = gyre_trouble_set(trouble, -errno, "file for an IPC handle: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

/* Fills in the base, and the descriptor if there can be one. */
static int alloc_classic(struct gyre_region *region, uint64_t length, struct gyre_trouble *trouble)
{
    CUdeviceptr base;
    struct gyre_trouble unshared = {0};
    CUresult error = gyre_cuda->cuMemAlloc(&base, length);
    if (error)
        return memory_failed(error, region->device, length, "cuMemAlloc", trouble);
    region->base = (void *)(uintptr_t)base;
    int fd = write_ticket(region, length, &unshared);
    if (fd >= 0)
        region->fd = fd;
    else
        gyre_log(GYRE_LOG_INFO, "CUDA memory stays with this process: %s", unshared.text);
    return 0;
}

/* 1 and the ticket, 0 if `fd` is something else, negative if it is not what was announced. */
static int read_ticket(int fd, uint64_t length, struct ticket *ticket, struct gyre_trouble *trouble)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return gyre_trouble_set(trouble, -errno, "descriptor %d of a peer's memory: %s", fd,
                                strerror(errno));
    if (!S_ISREG(file.st_mode) || file.st_size != sizeof *ticket)
        return 0;
    if ((fcntl(fd, F_GET_SEALS) & TICKET_SEALS) != TICKET_SEALS ||
        pread(fd, ticket, sizeof *ticket, 0) != sizeof *ticket || ticket->magic != TICKET_MAGIC)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a peer's file is no handle of CUDA memory that Gyre made");
    if (ticket->length != length)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a peer's memory has %llu bytes where %llu were announced",
                                (unsigned long long)ticket->length, (unsigned long long)length);
    return 1;
}

static int import_classic(struct gyre_region *region, const struct ticket *ticket,
                          struct gyre_trouble *trouble)
{
    CUdeviceptr base;
    CUresult error =
        gyre_cuda->cuIpcOpenMemHandle(&base, ticket->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (!error)
        region->base = (void *)(uintptr_t)base;
    return gyre_cuda_failed(error, region->device, trouble, "cuIpcOpenMemHandle");
}

/* -- regions ----------------------------------------------------------------------------------- */

/* Exportable if that is possible here, else classic. Classic memory has whole granules too: the
 * driver hands out smaller pieces of one block, and opening one opens all of it. */
static int alloc_some(struct gyre_region *region, uint64_t length, struct gyre_trouble *trouble)
{
    struct gyre_trouble refused = {0};
    if (gyre_cuda_exports(region->device)) {
        int status = alloc_exportable(region, length, &refused);
        if (status != GYRE_UNSUPPORTED)
            return status ? gyre_trouble_set(trouble, status, "%s", refused.text) : 0;
        gyre_log(GYRE_LOG_INFO, "classic IPC handles will serve: %s", refused.text);
    }
    return alloc_classic(region, length, trouble);
}

int gyre_cuda_alloc(int device, uint64_t length, enum gyre_share share, struct gyre_region *region,
                    struct gyre_trouble *trouble)
{
    struct gyre_region fresh = empty_region(device);
    *region = empty_region(device);
    int status = check_request(length, share, trouble);
    if (!status)
        status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    fresh.length = length;
    status = alloc_some(&fresh, mapped_length(device, length), trouble);
    if (!status)
        status = fill(device, fresh.base, NULL, mapped_length(device, length), trouble);
    gyre_cuda_leave();
    if (status)
        gyre_cuda_free(&fresh);
    else
        *region = fresh;
    return status;
}

/* Gives up addresses; classic memory by the call that fits how it came. */
static void let_go(struct gyre_region *region, bool owner)
{
    if (region->copied)
        gyre_cuda_apart_drop(region->base);
    if (region->fd != ADOPTED && gyre_cuda_enter(region->device, NULL) == 0) {
        if (is_exportable(region->base))
            unmap(region->base, mapped_length(region->device, region->length));
        else if (owner)
            gyre_cuda->cuMemFree(address_of(region->base));
        else
            gyre_cuda->cuIpcCloseMemHandle(address_of(region->base));
        gyre_cuda_leave();
    }
    if (owner && region->fd >= 0)
        close(region->fd);
    *region = empty_region(region->device);
}

void gyre_cuda_free(struct gyre_region *region)
{
    if (region->base)
        let_go(region, true);
}

void gyre_cuda_unimport(struct gyre_region *region)
{
    if (region->base)
        let_go(region, false);
}

int gyre_cuda_import(int device, int fd, uint64_t length, enum gyre_share share,
                     struct gyre_region *region, struct gyre_trouble *trouble)
{
    struct ticket ticket;
    struct gyre_region view = empty_region(device);
    *region = empty_region(device);
    int status = check_request(length, share, trouble);
    if (!status)
        status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    uint64_t mapped = mapped_length(device, length);
    int found = read_ticket(fd, mapped, &ticket, trouble);
    if (found < 0)
        status = found;
    else if (found)
        status = import_classic(&view, &ticket, trouble);
    else
        status = import_exportable(&view, fd, mapped, trouble);
    gyre_cuda_leave();
    view.length = length;
    if (!status)
        *region = view;
    return status;
}

/* The device that has this memory; -1: it is not a device's. */
static int owner_of(const void *base)
{
    int owner = -1;
    void *found[] = {&owner};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    return gyre_cuda->cuPointerGetAttributes(1, wanted, found, address_of(base)) ? -1 : owner;
}

static int adopt_classic(struct gyre_region *view, void *base, struct gyre_trouble *trouble)
{
    int owner = owner_of(base);
    if (owner != view->device)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "memory of CUDA device %d that is not exportable stays with it: "
                                "device %d does not map it",
                                owner, view->device);
    view->base = base;
    view->fd = ADOPTED;
    return 0;
}

static int adopt_exportable(struct gyre_region *view, void *base, uint64_t length,
                            CUmemGenericAllocationHandle memory, struct gyre_trouble *trouble)
{
    int owner = owner_of(base);
    if (owner < 0 || gyre_cuda_reaches(view->device, owner))
        return map_somewhere(view->device, mapped_length(view->device, length), memory, &view->base,
                             trouble);
    int status = gyre_cuda_apart_add(owner, base, length, trouble);
    if (status)
        return status;
    view->base = base;
    view->fd = ADOPTED;
    view->copied = true;
    return 0;
}

int gyre_cuda_adopt(int device, void *base, uint64_t length, struct gyre_region *region,
                    struct gyre_trouble *trouble)
{
    CUmemGenericAllocationHandle memory;
    struct gyre_region view = empty_region(device);
    *region = empty_region(device);
    int status = check_request(length, GYRE_SHARE_OPEN, trouble);
    if (!status)
        status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    if (gyre_cuda->cuMemRetainAllocationHandle(&memory, base) == CUDA_SUCCESS) {
        status = adopt_exportable(&view, base, length, memory, trouble);
        gyre_cuda->cuMemRelease(memory);
    } else {
        status = adopt_classic(&view, base, trouble);
    }
    gyre_cuda_leave();
    view.length = length;
    if (!status)
        *region = view;
    return status;
}

/* -- detaching --------------------------------------------------------------------------------- */

/* Puts `fresh`, which is mapped at `scratch`, with the region's content at the region's address, or
 * `old` back. Work that uses the region must have ended before its addresses change hands. */
static int take_over(struct gyre_region *region, CUmemGenericAllocationHandle old,
                     CUmemGenericAllocationHandle fresh, void *scratch,
                     struct gyre_trouble *trouble)
{
    CUdeviceptr base = address_of(region->base);
    uint64_t length = mapped_length(region->device, region->length);
    int status = gyre_cuda_settle(region->device, trouble);
    if (!status)
        status = fill(region->device, scratch, region->base, length, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuMemUnmap(base, length);
    if (error)
        return memory_failed(error, region->device, length, "cuMemUnmap", trouble);
    status = place(region->device, base, length, fresh, trouble);
    if (status)
        place(region->device, base, length, old, NULL);
    return status;
}

static int replace(struct gyre_region *region, CUmemGenericAllocationHandle old,
                   struct gyre_trouble *trouble)
{
    int fd;
    void *scratch;
    CUmemGenericAllocationHandle fresh;
    uint64_t length = mapped_length(region->device, region->length);
    int status = create_memory(region->device, length, &fresh, &fd, trouble);
    if (status)
        return status;
    status = map_somewhere(region->device, length, fresh, &scratch, trouble);
    if (!status) {
        status = take_over(region, old, fresh, scratch, trouble);
        unmap(scratch, length);
    }
    gyre_cuda->cuMemRelease(fresh);
    close(status ? fd : region->fd);
    if (!status)
        region->fd = fd;
    return status;
}

int gyre_cuda_detach(struct gyre_region *region, struct gyre_trouble *trouble)
{
    CUmemGenericAllocationHandle old;
    int status = gyre_cuda_enter(region->device, trouble);
    if (status)
        return status;
    if (gyre_cuda->cuMemRetainAllocationHandle(&old, region->base) == CUDA_SUCCESS) {
        status = replace(region, old, trouble);
        gyre_cuda->cuMemRelease(old);
    } else {
        status = gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                  "what peers opened by an IPC handle stays theirs until they end");
    }
    gyre_cuda_leave();
    if (status)
        gyre_trouble_wrap(trouble, "replacing CUDA memory that a lost peer may still write");
    return status;
}
