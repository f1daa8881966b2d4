/* Regions of CUDA memory, the inside: addresses, exported memory (export.c), and classic memory
 * (classic.c), between which memory.c chooses. All calls are made in the device's context. */
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

/* As gyre_cuda_failed(); the sentence also says how much memory the device has if there was too
 * little. */
int gyre_cuda_memory_failed(CUresult error, int device, uint64_t length, const char *call,
                            struct gyre_trouble *trouble);

/* Zeroes memory, or copies from `from`, and waits for the end, on the device's stream for that. */
int gyre_cuda_fill(int device, void *base, const void *from, uint64_t length,
                   struct gyre_trouble *trouble);

/* -- exported ---------------------------------------------------------------------------------- */

/* Whether cuMemCreate() made the memory at `base`, in whatever process. */
bool gyre_cuda_is_exportable(void *base);

/* Map a whole memory at addresses of its own, for this device; give both up. */
int gyre_cuda_map(int device, uint64_t length, CUmemGenericAllocationHandle memory, void **base,
                  struct gyre_trouble *trouble);
void gyre_cuda_unmap(const void *base, uint64_t length);

/* Allocates a region's memory; fills in base and descriptor. GYRE_UNSUPPORTED: classic memory may
 * do. */
int gyre_cuda_alloc_exportable(struct gyre_region *region, uint64_t length,
                               struct gyre_trouble *trouble);
int gyre_cuda_import_exportable(struct gyre_region *region, int fd, uint64_t length,
                                struct gyre_trouble *trouble);

/* Puts fresh memory of equal content in the place of the region's, which is `old`. */
int gyre_cuda_replace(struct gyre_region *region, CUmemGenericAllocationHandle old,
                      struct gyre_trouble *trouble);

/* -- classic ----------------------------------------------------------------------------------- */

/* Allocates a region's memory; fills in the base, and the descriptor if there can be one. */
int gyre_cuda_alloc_classic(struct gyre_region *region, uint64_t length,
                            struct gyre_trouble *trouble);

/* Opens a ticket. 1: the base is filled in; 0: the descriptor is no ticket and was not looked at
 * further. */
int gyre_cuda_import_classic(struct gyre_region *region, int fd, uint64_t length,
                             struct gyre_trouble *trouble);

#endif
