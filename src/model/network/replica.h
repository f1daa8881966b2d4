/* A rank's replica of a model: the values, the engine that reduces its gradients, the optimiser and
 * the loss scale. Network and trainer are made of it.
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
#include "model/learning/scaler.h"
#include "model/network/on_device.h"
#include "model/network/running.h"
#include "model/processor/repeat.h"

#include <gyre/ddp.h>

/* A part of the optimiser's range: elements first … first + count - 1 of a parameter begin at
 * element `at`. */
struct gyre_replica_piece {
    int parameter;
    uint64_t first, count, at;
};

/* All of the optimiser's state; state.h. */
struct gyre_whole_states {
    int count;
    float *whole[2]; /* rank 0: of all parameters, in their order */
    float *room;     /* of this rank, for one parameter */
};

/* Steps that end late: late.h. */
struct gyre_late_news {
    struct gyre_tally tally;
    struct gyre_verdict verdict;
};

struct gyre_late {
    bool wanted;                   /* by the owner, before the replica joins */
    bool repeats;                  /* the same: its steps may be graphs, also those that end now */
    struct gyre_late_news *news;   /* the device's; NULL: the host tells losses their scale */
    struct gyre_step_terms *terms; /* the device's, of the last step; NULL: steps end at once */
    struct gyre_verdict known;     /* what the device's verdict was when all steps were settled */
    struct gyre_repeat repeat;     /* its steps */
    uint64_t layout;               /* the engine's, when the last one began */
    uint64_t sent, settled;        /* steps */
};

struct gyre_replica {
    struct gyre_model *model;
    int parameters, buffers;
    struct gyre_parameter *const *parameter;
    struct gyre_running_buffer *const *buffer;
    struct gyre_ddp_parameter *host_item; /* in host memory: parameters, then buffers */
    struct gyre_running running;          /* what the buffers hold */
    float *values; /* of parameters; NULL once a sharded engine has its own */

    struct gyre_comm *comm;
    struct gyre_ddp *ddp; /* NULL until it has joined */
    bool sharded;
    bool
        looks; /* for NaN and infinity in each gradient that backward does not know to be bounded */
    int *unseen; /* parameters whose gradients are to be looked at before their bucket starts */
    int unseen_count;

    struct gyre_optimizer_settings settings;
    struct gyre_optimizer *optimizer; /* NULL until it is made */
    struct gyre_replica_piece *piece;
    struct gyre_step_span *stretch; /* the pieces, where they lie in a step */
    int pieces;
    uint64_t updated; /* a network's: the engine's step that was applied, or loaded over, last */
    struct gyre_whole_states resumed; /* for the optimiser, until it is made; room NULL: none */
    int64_t resumed_steps;            /* that it has made */
    struct gyre_scaler scaler;        /* enabled where products are of f16 */
    struct gyre_loss_meter meter;
    struct gyre_on_device device; /* where the CPU does not compute */
    struct gyre_late late;
};

/* What a batch is compared with: one of the two. */
struct gyre_wanted {
    const int64_t *labels;
    const float *targets;
};

/* Takes the model over, also where it fails: -ENOMEM, or a device's failure told in `trouble`.
 * Deinit takes every state, also zeros. */
int gyre_replica_init(struct gyre_replica *replica, struct gyre_model *model,
                      const struct gyre_optimizer_settings *settings, struct gyre_trouble *trouble);
void gyre_replica_deinit(struct gyre_replica *replica);
void gyre_whole_states_free(struct gyre_whole_states *states);

/* Makes the engine; options->buffers are the replica's, and `norm` is computed where the loss is
 * scaled, for only the norm tells that a sum of gradients overflowed. Collective. The engine's
 * status. */
int gyre_replica_join(struct gyre_replica *replica, struct gyre_comm *comm,
                      const struct gyre_ddp_options *options);

/* Goes on with the ranks of another communicator (gyre_ddp_regroup()), with the values and buffers
 * of the rank that has completed most steps. Collective. The engine's status. */
int gyre_replica_regroup(struct gyre_replica *replica, struct gyre_comm *comm);

/* Before anybody reads the values that host_item[].value shows, and when somebody has written them:
 * where a device computes they are copies of its own, once there is an engine. Buffers have their
 * own calls: running.h. */
int gyre_replica_values_home(struct gyre_replica *replica, struct gyre_trouble *trouble);
int gyre_replica_values_written(struct gyre_replica *replica, struct gyre_trouble *trouble);

/* Values and gradients to where the engine has them now. */
void gyre_replica_bind(struct gyre_replica *replica);

/* Forward, and the loss with its gradient times the loss scale where backward takes it from. The
 * loss is added to the replica's own until it is taken. A failure without a story in `trouble` is
 * the communicator's. */
int gyre_replica_forward(struct gyre_replica *replica, const float *x, size_t samples, bool train,
                         struct gyre_wanted wanted, struct gyre_trouble *trouble);

/* Forward alone; *outputs is host memory until the next forward. */
int gyre_replica_predict(struct gyre_replica *replica, const float *x, size_t samples,
                         const float **outputs, struct gyre_trouble *trouble);

/* Gradients are put, or added if `adds`; each is told to the engine if `tells`. Otherwise as
 * forward. */
int gyre_replica_backward(struct gyre_replica *replica, bool adds, bool tells,
                          struct gyre_trouble *trouble);

/* Adds the loss of all forwards since the last take to *loss. Behind backward this waits for
 * nothing more than backward's own end. */
int gyre_replica_take_loss(struct gyre_replica *replica, struct gyre_loss *loss,
                           struct gyre_trouble *trouble);

/* Forgets the loss of a step that was given up. */
void gyre_replica_clear_loss(struct gyre_replica *replica);

#endif
