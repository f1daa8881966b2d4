/* Regions of CUDA memory, the inside: addresses, memory that is exported (export.c), and classic
 * memory (classic.c), between which memory.c chooses. All calls: in the device's context. */
#ifndef GYRE_DEVICE_CUDA_REGION_H
#define GYRE_DEVICE_CUDA_REGION_H

#include "device/cuda/inside.h"

#include "base/size.h"

static inline uint64_t gyre_cuda_mapped_length(int device, uint64_t length)
{
    return gyre_round_up(length, gyre_cuda_granularity(device));
}

static inline CUdeviceptr gyre_cuda_address(const void *base)
{
    return (CUdeviceptr)(uintptr_t)base;
}

/* As gyre_cuda_failed(), and says how much the device has if that was not enough. */
int gyre_cuda_memory_failed(CUresult error, int device, uint64_t length, const char *call,
                            struct gyre_trouble *trouble);

/* Zeroes, or copies what is at `from`, and waits for it, on a stream of its own. */
int gyre_cuda_fill(int device, void *base, const void *from, uint64_t length,
                   struct gyre_trouble *trouble);

/* -- exported ---------------------------------------------------------------------------------- */

/* Whether the memory at `base` was made by cuMemCreate(), in whatever process. */
bool gyre_cuda_is_exportable(void *base);

/* Maps all of a memory at addresses of its own, for this device; and gives both up. */
int gyre_cuda_map(int device, uint64_t length, CUmemGenericAllocationHandle memory, void **base,
                  struct gyre_trouble *trouble);
void gyre_cuda_unmap(const void *base, uint64_t length);

/* Fills in base and descriptor; GYRE_UNSUPPORTED where classic memory may do. */
int gyre_cuda_alloc_exportable(struct gyre_region *region, uint64_t length,
                               struct gyre_trouble *trouble);
int gyre_cuda_import_exportable(struct gyre_region *region, int fd, uint64_t length,
                                struct gyre_trouble *trouble);

/* Puts fresh memory of equal content in the place of the region's, which is `old`. */
int gyre_cuda_replace(struct gyre_region *region, CUmemGenericAllocationHandle old,
                      struct gyre_trouble *trouble);

/* -- classic ----------------------------------------------------------------------------------- */

/* Fills in the base, and the descriptor if there can be one. */
int gyre_cuda_alloc_classic(struct gyre_region *region, uint64_t length,
                            struct gyre_trouble *trouble);

/* 1: the descriptor was a ticket, and the base is filled in; 0: it is something else, not looked at
 * any further. */
int gyre_cuda_import_classic(struct gyre_region *region, int fd, uint64_t length,
                             struct gyre_trouble *trouble);

#endif
