/* Graphs: what a stream captures is recorded, and a launch posts all of it anew.
 *
 *     begin capture ─▶ copy, kernel, wait for a word, write one … ─▶ end capture ─▶ graph
 *     launch        ─▶ the same jobs, behind what is on the stream
 *
 * A graph is the work of one stream. Calls that end a capture or a graph do so also where they
 * fail, so that what is planted leaves nothing behind. */
#include "fake_work.h"

#include <stdlib.h>

static CUgraph new_graph(void)
{
    CUgraph graph = calloc(1, sizeof *graph);
    graph->last = &graph->first;
    return graph;
}

static void free_graph(CUgraph graph)
{
    while (graph && graph->first) {
        struct job *job = graph->first;
        graph->first = job->next;
        free(job);
    }
    free(graph);
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    bool legacy = stream == CU_STREAM_LEGACY;
    stream = fake_named(stream);
    if (!status && (legacy || !fake_alive(stream)))
        status = legacy ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_INVALID_HANDLE;
    if (!status && stream->captured)
        status = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (!status) {
        stream->captured = true;
        stream->spoiled = false;
        stream->mode = mode;
        stream->graph = new_graph();
    }
    return fake_end(status);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    *graph = NULL;
    stream = fake_named(stream);
    if (!fake_alive(stream) || !stream->graph)
        return fake_end(status ? status : CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (!status && stream->spoiled)
        status = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (status)
        free_graph(stream->graph);
    else
        *graph = stream->graph;
    stream->captured = stream->spoiled = false;
    stream->graph = NULL;
    return fake_end(status);
}

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    CUresult status = fake_begin("cuGraphInstantiateWithFlags", FAKE_CONTEXT);
    if (!status && (!graph || flags))
        status = CUDA_ERROR_INVALID_VALUE;
    if (!status) {
        *executable = calloc(1, sizeof **executable);
        (*executable)->graph = new_graph();
        for (const struct job *job = graph->first; job; job = job->next)
            fake_record((*executable)->graph, job);
    }
    return fake_end(status);
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    if (!status && (!executable || !fake_alive(fake_named(stream))))
        status = CUDA_ERROR_INVALID_HANDLE;
    return fake_end(status);
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    CUresult status = fake_begin(__func__, FAKE_CONTEXT);
    stream = fake_named(stream);
    for (const struct job *job = executable->graph->first; job && !status; job = job->next)
        status = fake_post(stream, job);
    return fake_end(status);
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    free_graph(executable->graph);
    free(executable);
    return fake_end(status);
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult status = fake_begin(__func__, FAKE_DRIVER);
    free_graph(graph);
    return fake_end(status);
}
