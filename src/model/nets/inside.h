/* How mlp.c and convnet.c put a model together. */
#ifndef GYRE_MODEL_NETS_INSIDE_H
#define GYRE_MODEL_NETS_INSIDE_H

#include "model/nets/model.h"

#define GYRE_LAYERS_MOST 64
#define GYRE_SIZE_MOST   ((size_t)1 << 24) /* of a batch, an image, a layer's outputs */

/* An empty model. */
int gyre_model_begin(struct gyre_model **model, struct gyre_volume input,
                     const struct gyre_model_settings *settings, struct gyre_trouble *trouble);

/* Puts a layer behind the last one, which gives it its `in`. */
int gyre_model_add(struct gyre_model *model, const struct gyre_layer *layer,
                   struct gyre_trouble *trouble);

/* Allocates what its layers need. If `status`, or the allocation, is a failure, the model is
 * destroyed and *out not written. */
int gyre_model_finish(struct gyre_model *model, int status, struct gyre_model **out,
                      struct gyre_trouble *trouble);

#endif
