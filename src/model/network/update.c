/* See update.h. Tested by tests/unit/model/network/network_test.c and
 * tests/program/train/parity.c. */
#include "model/network/update.h"

#include "model/network/state.h"

#include <errno.h>
#include <stdlib.h>

/* Gives the optimiser the state that it was to have. */
static int resume_optimizer(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    r->optimizer->steps = r->resumed_steps;
    int status = r->resumed.room ? gyre_replica_spread_states(r, &r->resumed, trouble) : 0;
    gyre_whole_states_free(&r->resumed);
    return status;
}

int gyre_replica_make_optimizer(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    struct gyre_ddp_piece piece;
    uint64_t range = 0;
    while (gyre_ddp_piece(r->ddp, r->pieces, &piece) == 0)
        r->pieces++;
    r->piece = calloc((size_t)r->pieces + 1, sizeof *r->piece);
    r->stretch = calloc((size_t)r->pieces + 1, sizeof *r->stretch);
    if (!r->piece || !r->stretch)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the optimiser's books");
    for (int k = 0; k < r->pieces && gyre_ddp_piece(r->ddp, k, &piece) == 0; k++) {
        r->piece[k] = (struct gyre_replica_piece){piece.parameter, piece.first, piece.count, range};
        range += piece.count;
    }
    int status = gyre_optimizer_create(&r->optimizer, gyre_model_processor(r->model), &r->settings,
                                       range, trouble);
    return status ? status : resume_optimizer(r, trouble);
}

void gyre_replica_list_stretches(struct gyre_replica *r)
{
    for (int k = 0; k < r->pieces; k++) {
        const struct gyre_replica_piece *piece = &r->piece[k];
        const float *gradient = gyre_ddp_gradient(r->ddp, piece->parameter);
        r->stretch[k].value = (float *)gyre_ddp_value(r->ddp, piece->parameter) + piece->first;
        r->stretch[k].gradient = gradient + piece->first;
        r->stretch[k].at = piece->at;
    }
}

static int step_pieces(struct gyre_replica *r, double rate, double factor,
                       struct gyre_trouble *trouble)
{
    gyre_replica_list_stretches(r);
    gyre_optimizer_begin(r->optimizer, rate);
    int status = gyre_optimizer_apply_all(r->optimizer, r->stretch, (size_t)r->pieces,
                                          (float)factor, trouble);
    return status ? status : gyre_ddp_gather(r->ddp);
}

int gyre_replica_update(struct gyre_replica *r, double rate, struct gyre_trouble *trouble)
{
    const struct gyre_ddp_result *result = gyre_ddp_result(r->ddp);
    float unscale = 1;
    bool overflowed = false;
    int status = gyre_scaler_unscale(&r->scaler, !result->nonfinite, &unscale, trouble);
    if (!status)
        status = gyre_scaler_step(&r->scaler, &overflowed, trouble);
    if (!status && !r->optimizer)
        status = gyre_replica_make_optimizer(r, trouble);
    if (!status && !overflowed && !result->nonfinite && !result->skip)
        status = step_pieces(r, rate, result->factor * (double)unscale, trouble);
    return status ? status : gyre_scaler_update(&r->scaler, trouble);
}
