/* A build without CUDA: no kernels. */
#include "model/processor/inside.h"

bool gyre_cuda_fill_elements(struct gyre_processor_table *table)
{
    return false;
}

bool gyre_cuda_fill_images(struct gyre_processor_table *table)
{
    return false;
}

bool gyre_cuda_fill_dense(struct gyre_processor_table *table)
{
    return false;
}

void gyre_cuda_load_elements(void)
{
}

void gyre_cuda_load_images(void)
{
}

void gyre_cuda_load_dense(void)
{
}
