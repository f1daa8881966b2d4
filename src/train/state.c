/* What all ranks hold together of a training's state, on its way to and from rank 0, which alone
 * writes and reads.
 *
 * A state of the optimiser is a whole tensor for each parameter; a rank holds all of it, or where
 * the engine is sharded its pieces. One parameter after the other passes through the ranks' rooms:
 *
 *     rank 0   [ 0.weight │ 0.bias │ 2.weight │ … ]      all of a state
 *     rank r   [ room ]                                  as large as the largest parameter
 *
 * With halves on the wire each rank has a feedback of its own, and a step scales by the one before.
 * Rank 0 writes all of them, [world, elements] for each parameter; only as many ranks can go on
 * with them, others begin at zero, which is said. Tested by tests/program/train/resume.c. */
#include "train/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_memory_for_state(struct gyre_train *t)
{
    return gyre_trouble_set(t->trouble, -ENOMEM, "rank %d: no memory for a checkpoint", t->rank);
}

/* -- the optimiser's state --------------------------------------------------------------------- */

uint64_t gyre_train_elements(const struct gyre_train *t, int parameters)
{
    uint64_t sum = 0;
    for (int i = 0; i < parameters; i++)
        sum += t->replica.parameter[i]->count;
    return sum;
}

/* Room for the largest parameter: a state passes through it one parameter after the other, so only
 * rank 0 ever holds all of one. */
static float *make_state_room(const struct gyre_train *t)
{
    uint64_t most = 1;
    for (int i = 0; i < t->replica.parameters; i++)
        most = t->replica.parameter[i]->count > most ? t->replica.parameter[i]->count : most;
    return malloc(most * sizeof(float));
}

static void give_pieces(const struct gyre_train *t, int parameter, int state, float *whole)
{
    for (int k = 0; k < t->replica.pieces; k++)
        if (t->replica.piece[k].parameter == parameter)
            memcpy(whole + t->replica.piece[k].first,
                   t->replica.optimizer->state[state] + t->replica.piece[k].at,
                   t->replica.piece[k].count * sizeof(float));
}

static void take_pieces(struct gyre_train *t, int parameter, int state, const float *whole)
{
    for (int k = 0; k < t->replica.pieces; k++)
        if (t->replica.piece[k].parameter == parameter)
            memcpy(t->replica.optimizer->state[state] + t->replica.piece[k].at,
                   whole + t->replica.piece[k].first, t->replica.piece[k].count * sizeof(float));
}

/* The whole of a state on rank 0. Bits are summed, not numbers: each comes from one rank. */
static int collect_state(struct gyre_train *t, int state, float *full, float *room)
{
    int status = 0;
    for (int i = 0; !status && i < t->replica.parameters; i++) {
        float *whole = t->rank ? room : full + gyre_train_elements(t, i);
        if (!t->rank || t->options->sharded) {
            memset(whole, 0, t->replica.parameter[i]->count * sizeof(float));
            give_pieces(t, i, state, whole);
        }
        if (t->options->sharded)
            status = gyre_reduce(t->comm, whole, whole, t->replica.parameter[i]->count, GYRE_U32,
                                 GYRE_SUM, 0);
    }
    return status;
}

static int allocate_states(struct gyre_train *t, float **full, float **room)
{
    *room = make_state_room(t);
    bool good = *room != NULL;
    for (int s = 0; !t->rank && s < t->replica.optimizer->states; s++) {
        full[s] = malloc((gyre_train_elements(t, t->replica.parameters) + 1) * sizeof(float));
        good &= full[s] != NULL;
    }
    return good ? 0 : no_memory_for_state(t);
}

int gyre_train_collect_states(struct gyre_train *t, float **full)
{
    float *room;
    int status = gyre_train_agree(t, allocate_states(t, full, &room));
    for (int s = 0; !status && s < t->replica.optimizer->states; s++)
        status = collect_state(t, s, full[s], room);
    free(room);
    return status;
}

static int spread_state(struct gyre_train *t, int state, float *room)
{
    int status = 0;
    for (int i = 0; !status && i < t->replica.parameters; i++) {
        float *whole = t->rank ? room : t->resumed.full[state] + gyre_train_elements(t, i);
        status = gyre_broadcast(t->comm, whole, whole, t->replica.parameter[i]->count, GYRE_F32, 0);
        if (!status)
            take_pieces(t, i, state, whole);
    }
    return status;
}

int gyre_train_restore_optimizer(struct gyre_train *t)
{
    t->replica.optimizer->steps = t->resumed.steps;
    if (!t->resumed.given)
        return 0;
    float *room = make_state_room(t);
    int status = gyre_train_agree(t, room ? 0 : no_memory_for_state(t));
    for (int s = 0; !status && s < t->replica.optimizer->states; s++)
        status = spread_state(t, s, room);
    free(room);
    for (int s = 0; s < 2; s++) {
        free(t->resumed.full[s]);
        t->resumed.full[s] = NULL;
    }
    return status;
}

/* -- what halves on the wire left -------------------------------------------------------------- */

bool gyre_train_has_feedback(const struct gyre_train *t)
{
    return t->replica.parameters && gyre_ddp_feedback(t->replica.ddp, 0) &&
           gyre_ddp_wire_scale(t->replica.ddp) > 0;
}

static float *allocate_feedback(const struct gyre_train *t)
{
    uint64_t all = gyre_train_elements(t, t->replica.parameters) * (uint64_t)t->n;
    return t->rank ? NULL : malloc((all + 1) * sizeof(float));
}

int gyre_train_collect_feedback(struct gyre_train *t, float **all)
{
    *all = gyre_train_has_feedback(t) ? allocate_feedback(t) : NULL;
    if (!gyre_train_has_feedback(t))
        return 0;
    int status = gyre_train_agree(t, t->rank || *all ? 0 : no_memory_for_state(t));
    for (int i = 0; !status && i < t->replica.parameters; i++) {
        float *blocks = t->rank ? NULL : *all + gyre_train_elements(t, i) * (uint64_t)t->n;
        status = gyre_gather(t->comm, gyre_ddp_feedback(t->replica.ddp, i), blocks,
                             t->replica.parameter[i]->count, GYRE_F32, 0);
    }
    return status;
}

int gyre_train_restore_feedback(struct gyre_train *t)
{
    double scale = t->resumed.wire_scale;
    if (!t->replica.parameters || !gyre_ddp_feedback(t->replica.ddp, 0))
        return 0;
    int status = gyre_broadcast(t->comm, &scale, &scale, 1, GYRE_F64, 0);
    if (!status && scale > 0)
        status = gyre_ddp_set_wire_scale(t->replica.ddp, scale);
    for (int i = 0; !status && scale > 0 && i < t->replica.parameters; i++) {
        const float *blocks =
            t->rank ? NULL : t->resumed.feedback + gyre_train_elements(t, i) * (uint64_t)t->n;
        status = gyre_scatter(t->comm, blocks, gyre_ddp_feedback(t->replica.ddp, i),
                              t->replica.parameter[i]->count, GYRE_F32, 0);
    }
    free(t->resumed.feedback);
    t->resumed.feedback = NULL;
    t->resumed.feedback_lost = t->resumed.given && !(scale > 0);
    return status ? gyre_trouble_set(t->trouble, status, "%s", gyre_error(t->comm)) : 0;
}
