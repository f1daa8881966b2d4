/* The CUDA folds as host code, for the stand-in. */
#include "collectives/kernels/reduce_cuda.cu"
