/* A rank's replica of a model: the values, the engine that reduces its gradients, the optimiser.
 * Network and trainer are made of it.
 *
 *     init      model ─▶ memory of its values; the caller fills them
 *     join      the same memory, handed to gyre_ddp_create()
 *     a step    gyre_ddp_begin() ─▶ forward, loss, backward; gyre_ddp_ready() of each parameter
 *               ─▶ gyre_ddp_wait() ─▶ update of this rank's pieces ─▶ gyre_ddp_gather()
 *
 * The engine may move values and gradients in the wait of its first step: addresses are asked for
 * anew by gyre_replica_bind(), and the optimiser is made after that step. */
#ifndef GYRE_MODEL_NETWORK_REPLICA_H
#define GYRE_MODEL_NETWORK_REPLICA_H

#include "model/learning/loss.h"
#include "model/learning/optimizer.h"
#include "model/nets/model.h"

#include <gyre/ddp.h>

/* A part of the optimiser's range: elements first … first + count - 1 of a parameter begin at
 * element `at`. */
struct gyre_replica_piece {
    int parameter;
    uint64_t first, count, at;
};

struct gyre_replica {
    struct gyre_model *model;
    int parameters, buffers;
    struct gyre_parameter *const *parameter;
    struct gyre_running_buffer *const *buffer;
    struct gyre_ddp_parameter *item; /* parameters, then buffers */
    float *values;                   /* of parameters; NULL once a sharded engine has its own */
    uint8_t *running;                /* of buffers, running_bytes */
    size_t running_bytes;

    struct gyre_comm *comm;
    struct gyre_ddp *ddp; /* NULL until it has joined */
    bool
        looks; /* for NaN and infinity in each gradient that backward does not know to be bounded */

    struct gyre_optimizer *optimizer; /* NULL until it is made */
    struct gyre_replica_piece *piece;
    int pieces;
};

/* What a batch is compared with: one of the two. */
struct gyre_wanted {
    const int64_t *labels;
    const float *targets;
};

/* Takes the model over, also where it fails: -ENOMEM. Deinit takes every state, also zeros. */
int gyre_replica_init(struct gyre_replica *replica, struct gyre_model *model);
void gyre_replica_deinit(struct gyre_replica *replica);

/* Makes the engine; options->buffers are the replica's. Collective. The engine's status. */
int gyre_replica_join(struct gyre_replica *replica, struct gyre_comm *comm,
                      const struct gyre_ddp_options *options);

/* Values and gradients to where the engine has them now. */
void gyre_replica_bind(struct gyre_replica *replica);

/* Forward, and the loss with its gradient times `factor` where backward takes it from. Adds to
 * *loss. A failure without a story in `trouble` is the communicator's. */
int gyre_replica_forward(struct gyre_replica *replica, const float *x, size_t samples, bool train,
                         struct gyre_wanted wanted, float factor, struct gyre_loss *loss,
                         struct gyre_trouble *trouble);

/* Gradients are put, or added if `adds`; each is told to the engine if `tells`. Otherwise as
 * forward. */
int gyre_replica_backward(struct gyre_replica *replica, bool adds, bool tells,
                          struct gyre_trouble *trouble);

/* Lists this rank's pieces and makes the optimiser for them. */
int gyre_replica_make_optimizer(struct gyre_replica *replica,
                                const struct gyre_optimizer_settings *settings,
                                struct gyre_trouble *trouble);

/* Steps the optimiser over the pieces, with gradients times `factor`; all ranks get all values. The
 * engine's status. */
int gyre_replica_update(struct gyre_replica *replica, double rate, double factor);

#endif
