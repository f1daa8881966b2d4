/* Regions of CUDA memory: their kind and their owner.
 *
 *     alloc    exportable (export.c), or classic (classic.c), or of this process only
 *     import   a descriptor of the first, or a ticket of the second
 *     adopt    the same inside a process
 *
 * An adopted region is exportable memory that is mapped once more, by its handle, at addresses of
 * its own, so detaching works as between processes. A device that cannot map the region copies it
 * at the owner's address (apart.c). Classic memory cannot be opened in the process that made it;
 * the same device uses it at the owner's address.
 *
 * No peer can be kept from writing CUDA memory, so GYRE_SHARE_SEALED is refused. Tested by
 * tests/unit/device/cuda/regions_test.c. */
#include "device/cuda/region.h"

#include "base/log.h"

#include <errno.h>
#include <unistd.h>

#define ADOPTED    (-2) /* as a descriptor: memory of this process, at the owner's address */
#define LENGTH_MAX (UINT64_C(1) << 48)

static struct gyre_region empty_region(int device)
{
    return (struct gyre_region){.kind = GYRE_MEMORY_CUDA, .device = device, .fd = -1};
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

/* -- regions ----------------------------------------------------------------------------------- */

/* Allocates exportable memory where possible, else classic. Classic memory has whole granules too:
 * the driver cuts smaller pieces from one block, and opening one piece opens the whole block. */
static int alloc_some(struct gyre_region *region, uint64_t length, struct gyre_trouble *trouble)
{
    struct gyre_trouble refused = {0};
    if (gyre_cuda_exports(region->device)) {
        int status = gyre_cuda_alloc_exportable(region, length, &refused);
        if (status != GYRE_UNSUPPORTED)
            return status ? gyre_trouble_set(trouble, status, "%s", refused.text) : 0;
        gyre_log(GYRE_LOG_INFO, "classic IPC handles will serve: %s", refused.text);
    }
    return gyre_cuda_alloc_classic(region, length, trouble);
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
    status = alloc_some(&fresh, gyre_cuda_mapped_length(device, length), trouble);
    if (!status)
        status = gyre_cuda_fill(device, fresh.base, NULL, gyre_cuda_mapped_length(device, length),
                                trouble);
    gyre_cuda_leave();
    if (status)
        gyre_cuda_free(&fresh);
    else
        *region = fresh;
    return status;
}

/* Gives up addresses. Classic memory takes the call that fits how it was made. */
static void let_go(struct gyre_region *region, bool owner)
{
    if (region->copied)
        gyre_cuda_apart_drop(region->base);
    if (region->fd != ADOPTED && gyre_cuda_enter(region->device, NULL) == 0) {
        if (gyre_cuda_is_exportable(region->base))
            gyre_cuda_unmap(region->base, gyre_cuda_mapped_length(region->device, region->length));
        else if (owner)
            gyre_cuda->cuMemFree(gyre_cuda_address(region->base));
        else
            gyre_cuda->cuIpcCloseMemHandle(gyre_cuda_address(region->base));
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
    struct gyre_region view = empty_region(device);
    *region = empty_region(device);
    int status = check_request(length, share, trouble);
    if (!status)
        status = gyre_cuda_enter(device, trouble);
    if (status)
        return status;
    uint64_t mapped = gyre_cuda_mapped_length(device, length);
    int found = gyre_cuda_import_classic(&view, fd, mapped, trouble);
    if (found <= 0)
        status = found ? found : gyre_cuda_import_exportable(&view, fd, mapped, trouble);
    gyre_cuda_leave();
    view.length = length;
    if (!status)
        *region = view;
    return status;
}

/* The device that owns this memory; -1: none. */
static int device_of_memory(const void *base)
{
    int owner = -1;
    void *found[] = {&owner};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    return gyre_cuda->cuPointerGetAttributes(1, wanted, found, gyre_cuda_address(base)) ? -1
                                                                                        : owner;
}

static int adopt_classic(struct gyre_region *view, void *base, struct gyre_trouble *trouble)
{
    int owner = device_of_memory(base);
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
    int owner = device_of_memory(base);
    if (owner < 0 || gyre_cuda_reaches(view->device, owner))
        return gyre_cuda_map(view->device, gyre_cuda_mapped_length(view->device, length), memory,
                             &view->base, trouble);
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

int gyre_cuda_detach(struct gyre_region *region, struct gyre_trouble *trouble)
{
    CUmemGenericAllocationHandle old;
    int status = gyre_cuda_enter(region->device, trouble);
    if (status)
        return status;
    if (gyre_cuda->cuMemRetainAllocationHandle(&old, region->base) == CUDA_SUCCESS) {
        status = gyre_cuda_replace(region, old, trouble);
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
