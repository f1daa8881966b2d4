/* The folds of CUDA memory: reduce_cuda.cu where nvcc was found, reduce_cuda_absent.c elsewhere.
 *
 * A fold posts one kernel behind the work already on its queue, a cudaStream_t of the calling
 * thread's current device, and returns. A fold allocates nothing and waits for nothing. The task
 * and the arrays it points to may change as soon as the fold has returned: addresses and numbers
 * travel with the launch. All memory of a task must be reachable from that device; `context` alone
 * is host memory. The runtime remembers a launch that fails: ask cudaGetLastError() behind the
 * fold. */
#ifndef GYRE_COLLECTIVES_KERNELS_REDUCE_CUDA_H
#define GYRE_COLLECTIVES_KERNELS_REDUCE_CUDA_H

#include "collectives/kernels/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The table that gyre_reduce_table(GYRE_MEMORY_CUDA) returns; NULL where CUDA is not built in. Any
 * thread. */
const struct gyre_reduce_table *gyre_reduce_cuda_table(void);

/* The fold of gyre_scale() for CUDA memory. NULL also where CUDA is not built in. Any thread. */
gyre_fold gyre_scale_cuda(enum gyre_type type);

/* The fold of gyre_cast() for CUDA memory. NULL also where CUDA is not built in. Any thread. */
gyre_fold gyre_cast_cuda(enum gyre_type from, enum gyre_type to);

/* Loads all kernels on the calling thread's current device, because a kernel loaded at its first
 * launch may wait for all of the device's work. cudaGetLastError() tells failures. */
void gyre_reduce_cuda_load(void);

#ifdef __cplusplus
}
#endif

#endif
