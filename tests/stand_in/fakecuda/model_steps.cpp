/* The model's CUDA kernels as host code, for the stand-in. */
#include "model/processor/cuda_steps.cu"
