/* See state.h. Tested by tests/program/train/resume.c. */
#include "model/network/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FOLLOWED = 32768 }; /* numbers of a state that ranks pass on at once */

static uint64_t all_elements(const struct gyre_replica *r)
{
    uint64_t sum = 0;
    for (int i = 0; i < r->parameters; i++)
        sum += r->parameter[i]->count;
    return sum;
}

static uint64_t largest_parameter(const struct gyre_replica *r)
{
    uint64_t most = 1;
    for (int i = 0; i < r->parameters; i++)
        most = r->parameter[i]->count > most ? r->parameter[i]->count : most;
    return most;
}

/* -- memory ------------------------------------------------------------------------------------ */

int gyre_replica_allocate_states(const struct gyre_replica *r, struct gyre_whole_states *states)
{
    const char *name[2];
    *states = (struct gyre_whole_states){.room = calloc(largest_parameter(r), sizeof(float))};
    states->count = gyre_optimizer_states(&r->settings, name);
    bool good = states->room != NULL;
    for (int s = 0; gyre_rank(r->comm) == 0 && s < states->count; s++) {
        states->whole[s] = calloc(all_elements(r) + 1, sizeof(float));
        good = good && states->whole[s];
    }
    return good ? 0 : -ENOMEM;
}

/* -- to rank 0 --------------------------------------------------------------------------------- */

static int put_pieces_together(const struct gyre_replica *r, int parameter, int state, float *whole,
                               struct gyre_trouble *trouble)
{
    int status = 0;
    for (int k = 0; !status && k < r->pieces; k++)
        if (r->piece[k].parameter == parameter)
            status = gyre_optimizer_read(r->optimizer, state, r->piece[k].at, r->piece[k].count,
                                         whole + r->piece[k].first, trouble);
    return status;
}

/* Bits are summed, not numbers: each comes from one rank. */
static int collect_one(const struct gyre_replica *r, int state,
                       const struct gyre_whole_states *states, struct gyre_trouble *trouble)
{
    const int rank = gyre_rank(r->comm);
    float *whole = rank ? states->room : states->whole[state];
    int status = 0;
    for (int i = 0; !status && i < r->parameters; i++) {
        uint64_t count = r->parameter[i]->count;
        if (rank == 0 || r->sharded) {
            memset(whole, 0, count * sizeof(float));
            status = put_pieces_together(r, i, state, whole, trouble);
        }
        if (!status && r->sharded)
            status = gyre_reduce(r->comm, whole, whole, count, GYRE_U32, GYRE_SUM, 0);
        whole += rank ? 0 : count;
    }
    return status;
}

int gyre_replica_collect_states(const struct gyre_replica *r, struct gyre_whole_states *states,
                                struct gyre_trouble *trouble)
{
    int status = 0;
    for (int s = 0; !status && s < states->count; s++) {
        if (r->optimizer)
            status = collect_one(r, s, states, trouble);
        else if (r->resumed.whole[s])
            memcpy(states->whole[s], r->resumed.whole[s], all_elements(r) * sizeof(float));
    }
    return status;
}

/* -- from rank 0 ------------------------------------------------------------------------------- */

static int take_own_pieces(struct gyre_replica *r, int parameter, int state, const float *whole,
                           struct gyre_trouble *trouble)
{
    int status = 0;
    for (int k = 0; !status && k < r->pieces; k++)
        if (r->piece[k].parameter == parameter)
            status = gyre_optimizer_write(r->optimizer, state, r->piece[k].at, r->piece[k].count,
                                          whole + r->piece[k].first, trouble);
    return status;
}

int gyre_replica_spread_states(struct gyre_replica *r, const struct gyre_whole_states *states,
                               struct gyre_trouble *trouble)
{
    const int rank = gyre_rank(r->comm);
    int status = 0;
    for (int s = 0; s < states->count; s++) {
        float *whole = rank ? states->room : states->whole[s];
        for (int i = 0; !status && i < r->parameters; i++) {
            uint64_t count = r->parameter[i]->count;
            status = gyre_broadcast(r->comm, whole, whole, count, GYRE_F32, 0);
            if (!status)
                status = take_own_pieces(r, i, s, whole, trouble);
            whole += rank ? 0 : count;
        }
    }
    return status;
}

/* -- from any rank ----------------------------------------------------------------------------- */

/* In pieces, through host memory, wherever the state lies. */
static int follow_state(struct gyre_replica *r, int state, int rank, struct gyre_trouble *trouble)
{
    struct gyre_optimizer *optimizer = r->optimizer;
    float room[FOLLOWED];
    int status = 0;
    for (size_t at = 0; !status && at < optimizer->count; at += FOLLOWED) {
        const size_t count =
            optimizer->count - at < FOLLOWED ? optimizer->count - at : (size_t)FOLLOWED;
        if (gyre_rank(r->comm) == rank)
            status = gyre_optimizer_read(optimizer, state, at, count, room, trouble);
        if (!status)
            status = gyre_broadcast(r->comm, room, room, count, GYRE_F32, rank);
        if (!status)
            status = gyre_optimizer_write(optimizer, state, at, count, room, trouble);
    }
    return status;
}

int gyre_replica_follow(struct gyre_replica *r, int rank, struct gyre_trouble *trouble)
{
    struct gyre_optimizer *optimizer = r->optimizer;
    int status = gyre_broadcast(r->comm, &optimizer->steps, &optimizer->steps, 1, GYRE_I64, rank);
    for (int s = 0; !status && s < optimizer->states; s++)
        status = follow_state(r, s, rank, trouble);
    return status
               ? status
               : gyre_broadcast(r->comm, &r->scaler, &r->scaler, sizeof r->scaler, GYRE_U8, rank);
}
