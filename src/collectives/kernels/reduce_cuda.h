/* The folds of CUDA memory: reduce_cuda.cu where nvcc was found, reduce_cuda_absent.c elsewhere.
 *
 * A fold posts one kernel behind what is on its queue, a cudaStream_t of the calling thread's
 * current device, and returns; it allocates nothing and waits for nothing. The task and what it
 * points to may change as soon as it has returned: addresses and numbers travel with the launch.
 * All memory of a task must be reachable from that device; `context` alone is host memory. A launch
 * that fails is remembered by the runtime: ask cudaGetLastError() behind the fold. */
#ifndef GYRE_COLLECTIVES_KERNELS_REDUCE_CUDA_H
#define GYRE_COLLECTIVES_KERNELS_REDUCE_CUDA_H

#include "collectives/kernels/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What gyre_reduce_table(GYRE_MEMORY_CUDA) gives; NULL where CUDA is not built in. Any thread. */
const struct gyre_reduce_table *gyre_reduce_cuda_table(void);

/* As gyre_scale(), of CUDA memory. NULL also where CUDA is not built in. Any thread. */
gyre_fold gyre_scale_cuda(enum gyre_type type);

/* As gyre_cast(), of CUDA memory. NULL also where CUDA is not built in. Any thread. */
gyre_fold gyre_cast_cuda(enum gyre_type from, enum gyre_type to);

/* Makes all kernels ready on the calling thread's current device: what the runtime loads at a first
 * launch may wait for all of the device's work. What fails is told by cudaGetLastError(). */
void gyre_reduce_cuda_load(void);

#ifdef __cplusplus
}
#endif

#endif
