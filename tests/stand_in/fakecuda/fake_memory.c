/* Device memory: memfds that the application may not touch, exported by descriptor.
 *
 * A *memory* is what cuMemCreate() makes: a memfd and the stand-in's own mapping of it. A *range*
 * is what the application has of addresses; it shows a memory, or nothing yet. cuMemAlloc() makes
 * both at once. A memory lives as long as handles or ranges refer to it. */
#include "fake_parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORIES = 1024, RANGES = 1024, HOLE_BYTES = 64 << 10, UNWRITTEN_BYTES = 256 << 10 };

#define NAME        "fakecuda-"
#define ARENA       (UINT64_C(1) << 37) /* what a thread sanitizer always has room for */
#define ARENA_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

enum origin { RESERVED, ALLOCATED, OPENED }; /* by cuMemAddressReserve, cuMemAlloc, cuIpcOpen... */

struct memory {
    int references; /* 0: free */
    int handles;
    int fd;
    int device; /* whose bytes this process uses up; -1: another process does */
    int home;   /* the device that has them, in whatever process */
    uint64_t length;
    char *alias;
    bool for_cards; /* other devices of the machine may reach it */
};

struct range {
    char *base; /* NULL: free */
    uint64_t length;
    enum origin origin;
    struct memory *memory; /* NULL: nothing is mapped */
    uint64_t shown;        /* bytes of it */
    unsigned access;       /* a bit per device */
};

/* What travels in a classic IPC handle. */
struct ticket {
    int pid, fd;
    uint64_t length;
};

static struct memory memories[MEMORIES];
static struct range ranges[RANGES];
static int openers;   /* devices that have it open */
static bool all_open; /* no range has come, or has been given access, since it was opened */
static char *arena;   /* all addresses of device memory, used once each */
static uint64_t arena_used;

/* -- memories ---------------------------------------------------------------------------------- */

static CUresult add_memory(int fd, int device, uint64_t length, struct memory **made)
{
    for (int i = 0; i < MEMORIES; i++)
        if (!memories[i].references) {
            void *alias = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (alias == MAP_FAILED)
                return CUDA_ERROR_OPERATING_SYSTEM;
            memories[i] = (struct memory){1, 0, fd, device, device, length, alias, false};
            *made = &memories[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Fresh memory begins with what nobody wrote, as on a device. */
static CUresult make_memory(int device, uint64_t length, struct memory **made)
{
    if (!length || length > fake_settings.memory ||
        fake_device[device].used > fake_settings.memory - length)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char name[32];
    snprintf(name, sizeof name, NAME "%d", device);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    CUresult status = ftruncate(fd, (off_t)length) ? CUDA_ERROR_OPERATING_SYSTEM
                                                   : add_memory(fd, device, length, made);
    if (status) {
        close(fd);
        return status;
    }
    memset((*made)->alias, 0xd7, length < UNWRITTEN_BYTES ? length : UNWRITTEN_BYTES);
    fake_device[device].used += length;
    return CUDA_SUCCESS;
}

static void drop_memory(struct memory *memory)
{
    if (--memory->references)
        return;
    munmap(memory->alias, memory->length);
    close(memory->fd);
    if (memory->device >= 0)
        fake_device[memory->device].used -= memory->length;
}

static CUmemGenericAllocationHandle give_handle(struct memory *memory)
{
    memory->handles++;
    fake_counts.handles++;
    return (CUmemGenericAllocationHandle)(memory - memories) + 1;
}

static struct memory *memory_of(CUmemGenericAllocationHandle handle)
{
    if (handle < 1 || handle > MEMORIES || !memories[handle - 1].handles)
        return NULL;
    return &memories[handle - 1];
}

/* A memory's name says which device it is of. */
static int home_of(int fd)
{
    char path[64], name[64] = "";
    int device = 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof name - 1) > 0)
        sscanf(name, "/memfd:" NAME "%d", &device);
    return device;
}

static bool within_reach(const struct memory *memory, int device)
{
    return fake_settings.peers || memory->home == device;
}

/* -- ranges ------------------------------------------------------------------------------------ */

static struct range *range_at(uint64_t address)
{
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].base && address >= (uint64_t)(uintptr_t)ranges[i].base &&
            address - (uint64_t)(uintptr_t)ranges[i].base < ranges[i].length)
            return &ranges[i];
    return NULL;
}

/* Fresh addresses that nobody may touch, never used before, with a gap behind them. */
static struct range *add_range(uint64_t length, enum origin origin)
{
    if (!arena) {
        void *all = mmap(NULL, ARENA, PROT_NONE, ARENA_FLAGS, -1, 0);
        if (all == MAP_FAILED)
            return NULL;
        arena = all;
        arena_used = FAKE_GRANULARITY - (uintptr_t)all % FAKE_GRANULARITY;
    }
    for (int i = 0; i < RANGES && length < ARENA - FAKE_GRANULARITY - arena_used; i++)
        if (!ranges[i].base) {
            ranges[i] = (struct range){arena + arena_used, length, origin, NULL, 0, 0};
            arena_used += (length + 2 * FAKE_GRANULARITY - 1) / FAKE_GRANULARITY * FAKE_GRANULARITY;
            fake_counts.ranges++;
            return &ranges[i];
        }
    return NULL;
}

static void hide(struct range *range)
{
    mmap(range->base, range->length, PROT_NONE, ARENA_FLAGS | MAP_FIXED, -1, 0);
    range->memory = NULL;
    range->access = 0;
}

static void remove_range(struct range *range)
{
    hide(range);
    range->base = NULL;
    fake_counts.ranges--;
}

static CUresult show(struct range *range, struct memory *memory, uint64_t length)
{
    if (mmap(range->base, length, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->fd, 0) == MAP_FAILED)
        return CUDA_ERROR_MAP_FAILED;
    range->memory = memory;
    range->shown = length;
    memory->references++;
    return CUDA_SUCCESS;
}

static void give_access(struct range *range, int device)
{
    range->access |= 1U << device;
    all_open = false;
}

/* What was mapped is for the devices that were given access; what was allocated the driver copies
 * from and to any. */
static bool lets(const struct range *range, int device)
{
    return range->origin == RESERVED ? range->access >> device & 1 : range->access != 0;
}

CUresult fake_visit(int device, uint64_t address, uint64_t length, struct fake_place *place)
{
    struct range *range = range_at(address);
    *place = (struct fake_place){(void *)(uintptr_t)address, NULL};
    if (!range) /* the host's, or freed before the work began */
        return arena && address - (uint64_t)(uintptr_t)arena < ARENA ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                                     : CUDA_SUCCESS;
    uint64_t offset = address - (uint64_t)(uintptr_t)range->base;
    if (!range->memory || !lets(range, device) || offset > range->shown ||
        length > range->shown - offset)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    *place = (struct fake_place){range->memory->alias + offset, range->memory};
    range->memory->references++;
    return CUDA_SUCCESS;
}

CUresult fake_leave(const struct fake_place *place)
{
    bool freed = place->memory && place->memory->references == 1;
    if (place->memory)
        drop_memory(place->memory);
    return freed ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

/* A large piece becomes a hole of the file: its pages come, zeroed, as somebody touches them. */
void fake_clear(const struct fake_place *place, uint64_t length)
{
    const struct memory *memory = place->memory;
    int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (!memory || length < HOLE_BYTES ||
        fallocate(memory->fd, flags, (char *)place->at - memory->alias, (off_t)length) != 0)
        memset(place->at, 0, length);
}

bool fake_is_device_memory(uint64_t address)
{
    const struct range *range = range_at(address);
    return range && range->memory;
}

bool fake_is_foreign(const struct fake_place *place, int device)
{
    return place->memory && place->memory->home != device;
}

static void protect_all(int protection)
{
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].base && ranges[i].memory && ranges[i].access)
            mprotect(ranges[i].base, ranges[i].shown, protection);
}

void fake_open_memory(struct CUctx_st *device)
{
    openers += !device->open;
    device->open = true;
    if (!all_open)
        protect_all(PROT_READ | PROT_WRITE);
    all_open = true;
}

void fake_close_memory(struct CUctx_st *device)
{
    openers -= device->open;
    if (device->open && openers == 0) {
        protect_all(PROT_NONE);
        all_open = false;
    }
    device->open = false;
}

/* -- plain memory ------------------------------------------------------------------------------ */

CUresult cuMemGetInfo(size_t *unused, size_t *total)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status) {
        *total = fake_settings.memory;
        *unused = fake_settings.memory - fake_current()->used;
    }
    return fake_end(status);
}

/* A range that shows `memory`, whose reference it takes over. */
static CUresult range_of(struct memory *memory, enum origin origin, CUdeviceptr *base)
{
    struct range *range = add_range(memory->length, origin);
    CUresult status = range ? show(range, memory, memory->length) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!status) {
        give_access(range, fake_current()->device);
        *base = (CUdeviceptr)(uintptr_t)range->base;
    } else if (range) {
        remove_range(range);
    }
    drop_memory(memory);
    return status;
}

static CUresult remove_whole(uint64_t base, enum origin origin)
{
    struct range *range = range_at(base);
    if (!range || range->origin != origin || (uint64_t)(uintptr_t)range->base != base)
        return CUDA_ERROR_INVALID_VALUE;
    drop_memory(range->memory);
    remove_range(range);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *base, size_t length)
{
    struct memory *memory;
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status)
        fake_synchronise(__func__);
    if (!status)
        status = make_memory(fake_current()->device, length, &memory);
    if (!status)
        status = range_of(memory, ALLOCATED, base);
    return fake_end(status);
}

CUresult cuMemFree(CUdeviceptr base)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status && fake_current())
        fake_synchronise(__func__);
    return fake_end(status ? status : remove_whole(base, ALLOCATED));
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr address)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct range *range = range_at(address);
    for (unsigned i = 0; i < count && !status; i++)
        if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
            *(unsigned *)values[i] = range && range->memory ? CU_MEMORYTYPE_DEVICE : 0;
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
            *(unsigned *)values[i] = 0;
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) /* -2: the host's */
            *(int *)values[i] = range && range->memory ? range->memory->home : -2;
        else if (attributes[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS && range && fake_current())
            *(unsigned *)values[i] = range->access >> fake_current()->device & 1
                                         ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                         : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
        else
            status = CUDA_ERROR_INVALID_VALUE;
    return fake_end(status);
}

/* -- exportable memory ------------------------------------------------------------------------- */

static CUresult check_properties(const CUmemAllocationProp *properties)
{
    if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.id < 0 || properties->location.id >= fake_settings.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status)
        status = check_properties(properties);
    if (!status)
        *granularity = FAKE_GRANULARITY;
    return fake_end(status);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t length,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    struct memory *memory;
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status)
        status = check_properties(properties);
    if (!status && length % FAKE_GRANULARITY)
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status && properties->requestedHandleTypes && !fake_settings.export)
        status = CUDA_ERROR_NOT_SUPPORTED;
    if (!status)
        status = make_memory(properties->location.id, length, &memory);
    if (!status) {
        memory->for_cards = properties->allocFlags.gpuDirectRDMACapable;
        *handle = give_handle(memory);
    }
    return fake_end(status);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct memory *memory = memory_of(handle);
    if (!status && !memory)
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status) {
        memory->handles--;
        fake_counts.handles--;
        drop_memory(memory);
    }
    return fake_end(status);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct range *range = range_at((uint64_t)(uintptr_t)address);
    if (!status && (!range || range->origin != RESERVED || !range->memory))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status) {
        range->memory->references++;
        *handle = give_handle(range->memory);
    }
    return fake_end(status);
}

CUresult cuMemAddressReserve(CUdeviceptr *base, size_t length, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct range *range = NULL;
    if (!status && (!length || length % FAKE_GRANULARITY))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status && !(range = add_range(length, RESERVED)))
        status = CUDA_ERROR_OUT_OF_MEMORY;
    if (!status)
        *base = (CUdeviceptr)(uintptr_t)range->base;
    return fake_end(status);
}

/* The reserved range that begins at `base` and has that length. */
static struct range *reserved(CUdeviceptr base, size_t length)
{
    struct range *range = range_at(base);
    if (!range || range->origin != RESERVED || range->length != length ||
        (CUdeviceptr)(uintptr_t)range->base != base)
        return NULL;
    return range;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t length)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct range *range = reserved(base, length);
    if (!status && (!range || range->memory))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status)
        remove_range(range);
    return fake_end(status);
}

CUresult cuMemMap(CUdeviceptr base, size_t length, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct range *range = reserved(base, length);
    struct memory *memory = memory_of(handle);
    if (!status && (!range || range->memory || !memory || offset || length > memory->length))
        status = CUDA_ERROR_INVALID_VALUE;
    return fake_end(status ? status : show(range, memory, length));
}

CUresult cuMemUnmap(CUdeviceptr base, size_t length)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct range *range = reserved(base, length);
    if (!status && (!range || !range->memory))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status)
        fake_linger();
    if (!status) {
        drop_memory(range->memory);
        hide(range);
    }
    return fake_end(status);
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t length, const CUmemAccessDesc *access,
                        size_t count)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct range *range = reserved(base, length);
    if (!status && (!range || !range->memory))
        status = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !status; i++)
        if (!within_reach(range->memory, access[i].location.id))
            status = CUDA_ERROR_INVALID_DEVICE;
        else if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            give_access(range, access[i].location.id);
    return fake_end(status);
}

/* -- between processes ------------------------------------------------------------------------- */

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    struct memory *memory = memory_of(handle);
    if (!status && (!memory || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        status = CUDA_ERROR_INVALID_VALUE;
    int fd = status ? -1 : fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
    if (!status && fd < 0)
        status = CUDA_ERROR_OPERATING_SYSTEM;
    if (!status)
        *(int *)shareable = fd;
    return fake_end(status);
}

/* Takes over `fd`. */
static CUresult open_memory(int fd, struct memory **memory)
{
    struct stat file;
    if (fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0 &&
        file.st_size % FAKE_GRANULARITY == 0)
        status = add_memory(fd, -1, (uint64_t)file.st_size, memory);
    if (status)
        close(fd);
    else
        (*memory)->home = home_of(fd);
    return status;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type)
{
    struct memory *memory;
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status)
        status = open_memory(fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0), &memory);
    if (!status)
        *handle = give_handle(memory);
    return fake_end(status);
}

/* A card gets the memory itself, and with exportable memory only what was made for that. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr base, size_t length,
                                       CUmemRangeHandleType type, unsigned long long flags)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    const struct range *range = range_at(base);
    if (!status && (!range || !range->memory || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
                    flags || (uint64_t)(uintptr_t)range->base != base || length > range->shown))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status && range->origin == RESERVED && !range->memory->for_cards)
        status = CUDA_ERROR_NOT_SUPPORTED;
    int fd = status ? -1 : fcntl(range->memory->fd, F_DUPFD_CLOEXEC, 0);
    if (!status && fd < 0)
        status = CUDA_ERROR_OPERATING_SYSTEM;
    if (!status)
        *(int *)handle = fd;
    return fake_end(status);
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
                    scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER))
        status = CUDA_ERROR_INVALID_VALUE;
    return fake_end(status);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr base)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    struct range *range = range_at(base);
    if (!status && (!range || range->origin != ALLOCATED))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status) {
        struct ticket ticket = {getpid(), range->memory->fd, range->length};
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &ticket, sizeof ticket);
    }
    return fake_end(status);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *base, CUipcMemHandle handle, unsigned int flags)
{
    struct ticket ticket;
    struct memory *memory;
    char path[64];
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    memcpy(&ticket, &handle, sizeof ticket);
    if (!status && ticket.pid == getpid())
        status = CUDA_ERROR_INVALID_CONTEXT;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket.pid, ticket.fd);
    if (!status)
        status = open_memory(open(path, O_RDWR | O_CLOEXEC), &memory);
    if (!status && !within_reach(memory, fake_current()->device)) {
        drop_memory(memory);
        status = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    if (!status)
        status = range_of(memory, OPENED, base);
    return fake_end(status);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr base)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    if (!status)
        fake_linger();
    return fake_end(status ? status : remove_whole(base, OPENED));
}
