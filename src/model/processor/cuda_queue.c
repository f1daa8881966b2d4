/* Launches on a CUDA processor's queue. Tested by tests/kernel/processor.c. */
#include "model/processor/inside.h"

void gyre_cuda_post(struct gyre_processor *on, void (*post)(void *stream, const void *context),
                    const void *context)
{
    struct gyre_cuda_processor *cuda = (struct gyre_cuda_processor *)on;
    cuda->launches++;
    if (cuda->replaced)
        return;
    int status = cuda->status ? 0 : cuda->device->launch(cuda->queue, post, context);
    cuda->status = cuda->status ? cuda->status : status;
}

int gyre_cuda_multiprocessors(const struct gyre_processor *on)
{
    return ((const struct gyre_cuda_processor *)on)->multiprocessors;
}
