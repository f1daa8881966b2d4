/* A build without CUDA: no folds of CUDA memory. */
#include "collectives/kernels/reduce_cuda.h"

const struct gyre_reduce_table *gyre_reduce_cuda_table(void)
{
    return NULL;
}

gyre_fold gyre_scale_cuda(enum gyre_type type)
{
    (void)type;
    return NULL;
}

gyre_fold gyre_cast_cuda(enum gyre_type from, enum gyre_type to)
{
    (void)from;
    (void)to;
    return NULL;
}

void gyre_reduce_cuda_load(void)
{
}
