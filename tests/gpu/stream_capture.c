/* Into a graph that nobody runs. */
#include "program/cuda/stream_capture.h"

#include <stddef.h>

void capture_begin(CUstream stream)
{
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

void capture_end(CUstream stream)
{
    CUgraph graph = NULL;
    cuStreamEndCapture(stream, &graph);
    if (graph)
        cuGraphDestroy(graph);
}
