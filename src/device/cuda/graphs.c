/* Graphs: launches of a queue that are repeated together. While they are recorded each launch is
 * made twice, on the queue's stream and on one that captures:
 *
 *     record ─▶ launch, launch … ─▶ keep      the queue's stream    kernel ─ kernel ─ … run as ever
 *                                             the recorder          kernel ─ kernel ─ … ─▶ graph
 *     prepare, repeat                         the queue's stream    graph
 *
 * So a graph that could not be made has harmed nothing. The capture is relaxed: calls of this and
 * of other threads do not spoil it, and it spoils none of theirs.
 *
 * A new stream and a graph that is made ready may wait for all work of the device. The recorder
 * therefore is made once, by the queue's first record, and graphs are made ready by a call of their
 * own. Between these calls a stream may be held. Tested by tests/unit/device/cuda/graphs_test.c. */
#include "device/cuda/queue.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdlib.h>

struct gyre_device_graph {
    int device;
    CUgraph recorded; /* NULL once it is ready */
    CUgraphExec executable;
};

/* -- recorded ---------------------------------------------------------------------------------- */

/* An error from before must not be mistaken for the launch's. */
CUresult gyre_cuda_post_launch(struct gyre_device_queue *queue,
                               void (*post)(void *native_queue, const void *context),
                               const void *context)
{
    cudaGetLastError();
    post(queue->stream, context);
    CUresult error = (CUresult)cudaGetLastError();
    if (error || !queue->recording || queue->unrecorded)
        return error;
    post(queue->recorder, context);
    queue->unrecorded = (CUresult)cudaGetLastError();
    return error;
}

static int make_recorder(struct gyre_device_queue *queue, struct gyre_trouble *trouble)
{
    if (queue->recorder)
        return 0;
    CUresult error =
        gyre_cuda->cuStreamCreateWithPriority(&queue->recorder, CU_STREAM_NON_BLOCKING, 0);
    if (error)
        queue->recorder = NULL;
    return gyre_cuda_failed(error, queue->device, trouble, "cuStreamCreateWithPriority");
}

int gyre_cuda_record(struct gyre_device_queue *queue, struct gyre_trouble *trouble)
{
    int status = queue->status ? queue->status : gyre_cuda_enter(queue->device, trouble);
    if (status)
        return status;
    status = make_recorder(queue, trouble);
    if (!status) {
        CUresult error =
            gyre_cuda->cuStreamBeginCapture(queue->recorder, CU_STREAM_CAPTURE_MODE_RELAXED);
        status = gyre_cuda_failed(error, queue->device, trouble, "cuStreamBeginCapture");
    }
    queue->recording = !status;
    queue->unrecorded = CUDA_SUCCESS;
    gyre_cuda_leave();
    return status;
}

/* -- kept -------------------------------------------------------------------------------------- */

static int hold_recorded(const struct gyre_device_queue *queue, CUgraph recorded,
                         struct gyre_device_graph **graph, struct gyre_trouble *trouble)
{
    struct gyre_device_graph *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a graph");
    *fresh = (struct gyre_device_graph){.device = queue->device, .recorded = recorded};
    *graph = fresh;
    return 0;
}

int gyre_cuda_keep(struct gyre_device_queue *queue, struct gyre_device_graph **graph,
                   struct gyre_trouble *trouble)
{
    CUgraph recorded = NULL;
    int status = queue->recording ? gyre_cuda_enter(queue->device, trouble) : GYRE_INVALID;
    if (status)
        return status;
    CUresult error = gyre_cuda->cuStreamEndCapture(queue->recorder, &recorded);
    queue->recording = false;
    status = gyre_cuda_failed(queue->unrecorded ? queue->unrecorded : error, queue->device, trouble,
                              "recording launches");
    if (!status && graph)
        status = hold_recorded(queue, recorded, graph, trouble);
    if (recorded && (status || !graph))
        gyre_cuda->cuGraphDestroy(recorded);
    gyre_cuda_leave();
    return status;
}

int gyre_cuda_prepare_graph(struct gyre_device_queue *queue, struct gyre_device_graph *graph,
                            struct gyre_trouble *trouble)
{
    int status = graph->recorded ? gyre_cuda_enter(queue->device, trouble) : 0;
    if (status || !graph->recorded)
        return status;
    CUresult error = gyre_cuda->cuGraphInstantiateWithFlags(&graph->executable, graph->recorded, 0);
    status =
        gyre_cuda_failed(error, queue->device, trouble, "cuGraphInstantiate of recorded launches");
    if (!status) {
        error = gyre_cuda->cuGraphUpload(graph->executable, queue->stream);
        status = gyre_cuda_failed(error, queue->device, trouble, "cuGraphUpload");
    } else {
        graph->executable = NULL;
    }
    gyre_cuda->cuGraphDestroy(graph->recorded);
    graph->recorded = NULL;
    gyre_cuda_leave();
    return status;
}

/* -- repeated ---------------------------------------------------------------------------------- */

int gyre_cuda_repeat(struct gyre_device_queue *queue, struct gyre_device_graph *graph,
                     struct gyre_trouble *trouble)
{
    int status = queue->status ? queue->status : gyre_cuda_enter(queue->device, trouble);
    if (status)
        return status;
    CUresult error = gyre_cuda->cuGraphLaunch(graph->executable, queue->stream);
    gyre_cuda_leave();
    return gyre_cuda_failed(error, queue->device, trouble, "cuGraphLaunch");
}

void gyre_cuda_graph_free(struct gyre_device_graph *graph)
{
    if (graph && gyre_cuda_enter(graph->device, NULL) == 0) {
        if (graph->recorded)
            gyre_cuda->cuGraphDestroy(graph->recorded);
        if (graph->executable)
            gyre_cuda->cuGraphExecDestroy(graph->executable);
        gyre_cuda_leave();
    }
    free(graph);
}
