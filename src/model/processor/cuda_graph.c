/* Steps, or parts of them, that repeat on a CUDA device. Their launches are recorded once; from
 * then on whoever makes a step goes the same way through layers and losses, but what would be
 * launched is left out, and the graph is posted at the end. What the host tells meanwhile goes
 * ahead of it, in one copy:
 *
 *     record     put, launch, put, launch, launch  ─▶ keep       as ever; the launches, a graph
 *     replace    put, -     , put, -     , -       ─▶ repeat     one copy, one post of the graph
 *
 * Tested by tests/kernel/processor.c and tests/unit/model/network/late_test.c. */
#include "model/processor/inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNED 256u

struct gyre_processor_graph {
    struct gyre_device_graph *graph;
    uint64_t launches;
};

static struct gyre_cuda_processor *common_of(struct gyre_processor *on)
{
    return (struct gyre_cuda_processor *)on;
}

/* -- told -------------------------------------------------------------------------------------- */

bool gyre_cuda_begin_told(struct gyre_cuda_processor *cuda, void *there)
{
    cuda->told.here = there ? calloc(1, GYRE_CUDA_TOLD_BYTES) : NULL;
    cuda->told.there = cuda->told.here ? there : NULL;
    return cuda->told.here != NULL;
}

void *gyre_cuda_cut_told(struct gyre_cuda_processor *cuda, size_t bytes)
{
    struct gyre_cuda_told *told = &cuda->told;
    const uint64_t whole = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    if (bytes > GYRE_CUDA_TOLD_BYTES || whole > GYRE_CUDA_TOLD_BYTES - told->used)
        return NULL;
    told->used += whole;
    return told->there + told->used - whole;
}

void gyre_cuda_end_told(struct gyre_cuda_processor *cuda)
{
    free(cuda->told.here);
    cuda->told = (struct gyre_cuda_told){0};
}

bool gyre_cuda_tell(struct gyre_processor *on, const void *to, const void *host, size_t bytes)
{
    const struct gyre_cuda_processor *cuda = common_of(on);
    struct gyre_cuda_told *told = &common_of(on)->told;
    const uint64_t at = (uint64_t)((uintptr_t)to - (uintptr_t)told->there);
    if (!told->there || at >= told->used)
        return false;
    if (told->here + at != host)
        memcpy(told->here + at, host, bytes);
    if (!cuda->replaced)
        return false;
    told->low = at < told->low ? at : told->low;
    told->high = at + bytes > told->high ? at + bytes : told->high;
    return true;
}

/* -- recorded ---------------------------------------------------------------------------------- */

int gyre_cuda_record_step(struct gyre_processor *on, struct gyre_trouble *trouble)
{
    struct gyre_cuda_processor *cuda = common_of(on);
    int status = cuda->device->record(cuda->queue, trouble);
    cuda->recording = !status;
    cuda->unrecorded = false;
    cuda->launches = 0;
    return status;
}

static int keep_launches(struct gyre_cuda_processor *cuda, struct gyre_processor_graph *graph,
                         struct gyre_trouble *trouble)
{
    int status = cuda->device->keep(cuda->queue, graph ? &graph->graph : NULL, trouble);
    cuda->recording = false;
    cuda->blas_stream = NULL;
    if (!status && cuda->unrecorded)
        status = gyre_trouble_set(trouble, -EIO,
                                  "a product on CUDA device %d could not be recorded", cuda->index);
    return status;
}

int gyre_cuda_keep_step(struct gyre_processor *on, struct gyre_processor_graph **graph,
                        struct gyre_trouble *trouble)
{
    struct gyre_cuda_processor *cuda = common_of(on);
    struct gyre_processor_graph *fresh = calloc(1, sizeof *fresh);
    int status = cuda->recording ? keep_launches(cuda, fresh, trouble) : GYRE_INVALID;
    if (!status && !fresh)
        status = gyre_trouble_set(trouble, -ENOMEM, "no memory for a graph");
    if (status) {
        gyre_cuda_free_step(on, fresh);
        return status;
    }
    fresh->launches = cuda->launches;
    *graph = fresh;
    return 0;
}

uint64_t gyre_cuda_graph_launches(const struct gyre_processor_graph *graph)
{
    return graph->launches;
}

int gyre_cuda_prepare_step(struct gyre_processor *on, struct gyre_processor_graph *graph,
                           struct gyre_trouble *trouble)
{
    struct gyre_cuda_processor *cuda = common_of(on);
    return cuda->device->prepare_graph(cuda->queue, graph->graph, trouble);
}

/* -- repeated ---------------------------------------------------------------------------------- */

void gyre_cuda_replace_step(struct gyre_processor *on, const struct gyre_processor_graph *graph)
{
    struct gyre_cuda_processor *cuda = common_of(on);
    cuda->replaced = graph;
    cuda->launches = 0;
    cuda->told.low = UINT64_MAX;
    cuda->told.high = 0;
}

int gyre_cuda_end_replaced(struct gyre_cuda_processor *cuda,
                           const struct gyre_processor_graph **replaced,
                           struct gyre_trouble *trouble)
{
    const struct gyre_processor_graph *graph = *replaced = cuda->replaced;
    cuda->replaced = NULL;
    if (!graph || graph->launches != cuda->launches)
        return gyre_trouble_set(trouble, -EIO,
                                "a step on CUDA device %d made %" PRIu64 " launches, and the graph "
                                "of such steps has %" PRIu64 ": run it with GYRE_GRAPHS=0",
                                cuda->index, cuda->launches, graph ? graph->launches : 0);
    return 0;
}

int gyre_cuda_post_step(struct gyre_cuda_processor *cuda, const struct gyre_processor_graph *graph,
                        struct gyre_trouble *trouble)
{
    return cuda->device->repeat(cuda->queue, graph->graph, trouble);
}

void gyre_cuda_free_step(struct gyre_processor *on, struct gyre_processor_graph *graph)
{
    struct gyre_cuda_processor *cuda = common_of(on);
    if (cuda->recording)
        (void)keep_launches(cuda, NULL, NULL);
    cuda->replaced = NULL;
    if (graph && graph->graph)
        cuda->device->graph_free(graph->graph);
    free(graph);
}
