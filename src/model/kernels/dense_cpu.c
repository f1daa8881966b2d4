/* Vectors of four, which every compiler knows how to do without. Tested by tests/kernel/dense.c. */
#define WIDTH          4
#define ROWS           4
#define VECTORS        2
#define VARIANT        "scalar"
#define TILE           gyre_tile_scalar
#define SPREAD(x)      ((vector){(x), (x), (x), (x)})
#define FUSED(a, b, c) ((a) * (b) + (c))
#include "model/kernels/dense_tile.inc"
