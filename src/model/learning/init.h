/* What parameters and buffers start with: PyTorch's values for the same seed and the same order of
 * layers. Weights (two or more dimensions) are uniform in kaiming's bounds with a = sqrt(5), biases
 * in +-1/sqrt(fan_in), drawn weight first, row after row, from one MT19937; what has no fan_in is
 * filled and draws nothing.
 *
 * The last bit is that of a multiplication and an addition, each rounded. Builds of PyTorch that
 * fuse the two differ from it, and from each other. */
#ifndef GYRE_MODEL_LEARNING_INIT_H
#define GYRE_MODEL_LEARNING_INIT_H

#include "model/layers/layer.h"

/* `count` parameters in the order of the model, each with its value's memory; then the buffers.
 * Of the seed the low 32 bits matter. */
void gyre_init_parameters(struct gyre_parameter *const *parameters, int count, uint64_t seed);
void gyre_init_buffers(struct gyre_running_buffer *const *buffers, int count);

#endif
