/* A stream that is being captured into a graph, for a while; by the stand-in or by CUDA itself. */
#ifndef GYRE_TESTS_PROGRAM_CUDA_STREAM_CAPTURE_H
#define GYRE_TESTS_PROGRAM_CUDA_STREAM_CAPTURE_H

#include <cuda.h>

void capture_begin(CUstream stream);
void capture_end(CUstream stream);

#endif
