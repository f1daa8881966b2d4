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

bool gyre_cuda_fill_gradients(struct gyre_processor_table *table)
{
    return false;
}

bool gyre_cuda_fill_steps(struct gyre_processor_table *table)
{
    return false;
}

int gyre_cuda_open_products(struct gyre_cuda_processor *cuda, struct gyre_trouble *trouble)
{
    return GYRE_UNSUPPORTED;
}

void gyre_cuda_close_products(struct gyre_cuda_processor *cuda)
{
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

void gyre_cuda_load_gradients(void)
{
}

void gyre_cuda_load_steps(void)
{
}
