/* What network.c and file.c share. The outside is gyre/model.h. */
#ifndef GYRE_MODEL_NETWORK_NETWORK_H
#define GYRE_MODEL_NETWORK_NETWORK_H

#include "model/nets/model.h"
#include "model/learning/optimizer.h"

#include <gyre/model.h>

struct gyre_network {
    struct gyre_model *model;
    int parameters, buffers;
    struct gyre_parameter *const *parameter;
    struct gyre_running_buffer *const *buffer;
    struct gyre_ddp_parameter *item; /* parameters, then buffers */
    uint8_t *memory;                 /* of their values */
    uint64_t batch;

    struct gyre_comm *comm;
    struct gyre_ddp *ddp; /* NULL until it has joined */
    int ready_status;     /* the first failure of gyre_ddp_ready() in this pass */

    struct gyre_optimizer_settings settings;
    struct gyre_optimizer *optimizer; /* NULL until the first update: pieces are not final before */
    uint64_t updated;                 /* the engine's step that was applied last */
};

/* This thread's record of failures, empty. */
struct gyre_trouble *gyre_network_trouble(void);

/* Values and gradients to where the engine has them now. */
void gyre_network_bind(struct gyre_network *network);

#endif
