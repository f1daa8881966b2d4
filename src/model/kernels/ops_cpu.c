/* The reference: what the compiler makes of the loops for any CPU of this architecture. Tested by
 * tests/kernel/ops.c. */
#include "model/kernels/ops_sets.h"

#define VARIANT  "scalar"
#define GYRE_OPS gyre_ops_scalar
#include "model/kernels/ops_loops.inc"
