/* CUDA memory where the driver refuses to export descriptors (older virtual machines, some
 * containers). The memory is cudaMalloc()'s and is shared by a classic IPC handle of 64 bytes. The
 * handle is put into a small sealed file, a *ticket*, so that other code still passes a descriptor:
 *
 *     owner                             peer
 *     cuMemAlloc ─▶ handle ─▶ ticket ─▶ fd ─▶ read, checked ─▶ cuIpcOpenMemHandle
 *
 * Such memory cannot be detached: memory that a peer has opened stays open. Where handles are
 * refused too, a region is this process's only. Tested by tests/unit/device/cuda/regions_test.c. */
#include "device/cuda/region.h"

#include "base/disk/regular.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICKET_MAGIC UINT64_C(0x746b63616475431f)
#define TICKET_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct ticket {
    uint64_t magic, length; /* of the region */
    CUipcMemHandle handle;
};

/* Writes a sealed file with the region's handle. Negative: the memory cannot be shared. */
static int write_ticket(const struct gyre_region *region, uint64_t length,
                        struct gyre_trouble *trouble)
{
    struct ticket ticket = {.magic = TICKET_MAGIC, .length = length};
    CUresult error = gyre_cuda->cuIpcGetMemHandle(&ticket.handle, gyre_cuda_address(region->base));
    if (error)
        return gyre_cuda_failed(error, region->device, trouble, "cuIpcGetMemHandle");
    int fd = memfd_create("gyre-cuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && gyre_regular_write(fd, &ticket, sizeof ticket) &&
        fcntl(fd, F_ADD_SEALS, TICKET_SEALS) == 0)
        return fd;
    int status = gyre_trouble_set(trouble, -errno, "file for an IPC handle: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

int gyre_cuda_alloc_classic(struct gyre_region *region, uint64_t length,
                            struct gyre_trouble *trouble)
{
    CUdeviceptr base;
    struct gyre_trouble unshared = {0};
    CUresult error = gyre_cuda->cuMemAlloc(&base, length);
    if (error)
        return gyre_cuda_memory_failed(error, region->device, length, "cuMemAlloc", trouble);
    region->base = (void *)(uintptr_t)base;
    int fd = write_ticket(region, length, &unshared);
    if (fd >= 0)
        region->fd = fd;
    else
        gyre_log(GYRE_LOG_INFO, "CUDA memory stays with this process: %s", unshared.text);
    return 0;
}

/* Reads a ticket. 1: the ticket; 0: `fd` is something else; negative: the ticket is not the
 * announced one. */
static int read_ticket(int fd, uint64_t length, struct ticket *ticket, struct gyre_trouble *trouble)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return gyre_trouble_set(trouble, -errno, "descriptor %d of a peer's memory: %s", fd,
                                strerror(errno));
    if (!S_ISREG(file.st_mode) || file.st_size != sizeof *ticket)
        return 0;
    if (!gyre_has_seals(fd, TICKET_SEALS) ||
        pread(fd, ticket, sizeof *ticket, 0) != sizeof *ticket || ticket->magic != TICKET_MAGIC)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a peer's file is no handle of CUDA memory that Gyre made");
    if (ticket->length != length)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "a peer's memory has %llu bytes where %llu were announced",
                                (unsigned long long)ticket->length, (unsigned long long)length);
    return 1;
}

static int open_ticket(struct gyre_region *region, const struct ticket *ticket,
                       struct gyre_trouble *trouble)
{
    CUdeviceptr base;
    CUresult error =
        gyre_cuda->cuIpcOpenMemHandle(&base, ticket->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (!error)
        region->base = (void *)(uintptr_t)base;
    return gyre_cuda_failed(error, region->device, trouble, "cuIpcOpenMemHandle");
}

int gyre_cuda_import_classic(struct gyre_region *region, int fd, uint64_t length,
                             struct gyre_trouble *trouble)
{
    struct ticket ticket;
    int found = read_ticket(fd, length, &ticket, trouble);
    if (found <= 0)
        return found;
    int status = open_ticket(region, &ticket, trouble);
    return status ? status : 1;
}
