/* The stand-in knows no graphs. */
#include "stream_capture.h"

#include "fakecuda/fakecuda.h"

void capture_begin(CUstream stream)
{
    fakecuda_capture(stream, true);
}

void capture_end(CUstream stream)
{
    fakecuda_capture(stream, false);
}
