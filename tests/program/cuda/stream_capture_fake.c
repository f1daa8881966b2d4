/* The stand-in knows no graphs. */
#include "program/cuda/stream_capture.h"

#include "stand_in/fakecuda/fakecuda.h"

void capture_begin(CUstream stream)
{
    fakecuda_capture(stream, true);
}

void capture_end(CUstream stream)
{
    fakecuda_capture(stream, false);
}
