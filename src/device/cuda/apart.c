/* Memory of another device of this process that this device cannot map. Copies reach such memory,
 * kernels do not.
 *
 *     device 0: memory ──▶ device 1: memory    cuMemcpyPeerAsync; the driver stages where needed
 *     device 0: memory ──▶ the host            a stream of device 0, the queue's stream around it:
 *
 *         the queue's   … ─▶ before ····················▶ waits for `after` ─▶ …
 *         device 0's             └─▶ copy ─▶ after ───────────┘
 *
 * Addresses are unique in a process, so such a region keeps its owner's address. This file keeps
 * the list of these regions. Only ranks of one process have such regions: no other process knows
 * the address. Tested by tests/unit/device/cuda/regions_test.c. */
#include "device/cuda/inside.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct apart_span {
    struct apart_span *next;
    uintptr_t base;
    uint64_t length;
    int owner;
};

struct gyre_cuda_detour {
    struct gyre_cuda_detour *next;
    int device;
    CUstream stream;
    CUevent before, after;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct apart_span *spans;
static atomic_int count; /* of regions: most processes have none, and look no further */

/* -- which memory ------------------------------------------------------------------------------ */

int gyre_cuda_apart_add(int owner, const void *base, uint64_t length, struct gyre_trouble *trouble)
{
    struct apart_span *span = malloc(sizeof(*span));
    if (!span)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to adopt memory of CUDA device %d",
                                owner);
    pthread_mutex_lock(&lock);
    *span = (struct apart_span){spans, (uintptr_t)base, length, owner};
    spans = span;
    atomic_fetch_add(&count, 1);
    pthread_mutex_unlock(&lock);
    return 0;
}

void gyre_cuda_apart_drop(const void *base)
{
    pthread_mutex_lock(&lock);
    struct apart_span **at = &spans;
    while (*at && (*at)->base != (uintptr_t)base)
        at = &(*at)->next;
    struct apart_span *found = *at;
    if (found) {
        *at = found->next;
        atomic_fetch_sub(&count, 1);
    }
    pthread_mutex_unlock(&lock);
    free(found);
}

static int owner_of(CUdeviceptr address, int otherwise)
{
    int owner = otherwise;
    pthread_mutex_lock(&lock);
    for (const struct apart_span *span = spans; span; span = span->next)
        if ((uintptr_t)address - span->base < span->length)
            owner = span->owner;
    pthread_mutex_unlock(&lock);
    return owner;
}

bool gyre_cuda_apart(int device, CUdeviceptr to, CUdeviceptr from)
{
    return atomic_load(&count) &&
           (owner_of(to, device) != device || owner_of(from, device) != device);
}

/* -- copies ------------------------------------------------------------------------------------ */

/* Fills a detour, in the owner's context. */
static CUresult fill_detour(struct gyre_cuda_detour *detour)
{
    int least = 0, priority = 0;
    CUresult error = gyre_cuda->cuCtxGetStreamPriorityRange(&least, &priority);
    if (!error)
        error = gyre_cuda->cuStreamCreateWithPriority(&detour->stream, CU_STREAM_NON_BLOCKING,
                                                      priority);
    if (!error)
        error = gyre_cuda->cuEventCreate(&detour->after, CU_EVENT_DISABLE_TIMING);
    return error;
}

static void free_detour(struct gyre_cuda_detour *detour)
{
    if (detour->before)
        gyre_cuda->cuEventDestroy(detour->before);
    if (gyre_cuda_enter(detour->device, NULL) == 0) {
        if (detour->after)
            gyre_cuda->cuEventDestroy(detour->after);
        if (detour->stream)
            gyre_cuda->cuStreamDestroy(detour->stream);
        gyre_cuda_leave();
    }
    free(detour);
}

/* Finds the queue's detour over that device; makes one at the first need. */
static CUresult find_detour(struct gyre_cuda_detour **list, int device,
                            struct gyre_cuda_detour **out)
{
    struct gyre_cuda_detour *detour = *list;
    while (detour && detour->device != device)
        detour = detour->next;
    *out = detour;
    if (detour)
        return CUDA_SUCCESS;
    detour = calloc(1, sizeof(*detour));
    if (!detour)
        return CUDA_ERROR_OUT_OF_MEMORY;
    detour->device = device;
    CUresult error = gyre_cuda->cuEventCreate(&detour->before, CU_EVENT_DISABLE_TIMING);
    if (!error && gyre_cuda_enter(device, NULL))
        error = CUDA_ERROR_INVALID_CONTEXT;
    else if (!error) {
        error = fill_detour(detour);
        gyre_cuda_leave();
    }
    if (error) {
        free_detour(detour);
        return error;
    }
    detour->next = *list;
    *out = *list = detour;
    return CUDA_SUCCESS;
}

/* Copies on the owner's stream, in the owner's context. */
static CUresult copy_there(const struct gyre_cuda_detour *detour, CUdeviceptr to, CUdeviceptr from,
                           uint64_t length)
{
    if (gyre_cuda_enter(detour->device, NULL))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult error =
        gyre_cuda->cuStreamWaitEvent(detour->stream, detour->before, CU_EVENT_WAIT_DEFAULT);
    if (!error)
        error = gyre_cuda->cuMemcpyAsync(to, from, length, detour->stream);
    if (!error)
        error = gyre_cuda->cuEventRecord(detour->after, detour->stream);
    gyre_cuda_leave();
    return error;
}

static CUresult copy_by_detour(struct gyre_cuda_detour **list, int device, CUstream stream,
                               CUdeviceptr to, CUdeviceptr from, uint64_t length)
{
    struct gyre_cuda_detour *detour;
    CUresult error = find_detour(list, device, &detour);
    if (!error)
        error = gyre_cuda->cuEventRecord(detour->before, stream);
    if (!error)
        error = copy_there(detour, to, from, length);
    return error ? error
                 : gyre_cuda->cuStreamWaitEvent(stream, detour->after, CU_EVENT_WAIT_DEFAULT);
}

CUresult gyre_cuda_apart_copy(struct gyre_cuda_detour **detours, int device, CUstream stream,
                              CUdeviceptr to, CUdeviceptr from, uint64_t length)
{
    CUcontext into, out_of;
    int there = owner_of(to, device), here = owner_of(from, device);
    /* The address that is not apart, if one of the two is not. */
    CUdeviceptr own = there != device ? from : to;
    if (gyre_cuda_classify((const void *)(uintptr_t)own) == GYRE_MEMORY_HOST)
        return copy_by_detour(detours, there != device ? there : here, stream, to, from, length);
    if (gyre_cuda_context(there, &into) || gyre_cuda_context(here, &out_of))
        return CUDA_ERROR_INVALID_CONTEXT;
    return gyre_cuda->cuMemcpyPeerAsync(to, into, from, out_of, length, stream);
}

void gyre_cuda_detours_free(struct gyre_cuda_detour *detours)
{
    while (detours) {
        struct gyre_cuda_detour *first = detours;
        detours = first->next;
        free_detour(first);
    }
}
