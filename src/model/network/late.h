/* Steps whose end the host learns one step late, where a device computes. Norm, loss scale and
 * whether the update is made are found on the device, behind the reductions, and the update reads
 * them there. One copy brings them home:
 *
 *     device   step k ─▶ verdict k ─▶ update k ─▶ news k ─▶ step k + 1 ─▶ verdict k + 1 ─▶ …
 *     host     posts step k          posts step k + 1 │    settles step k: norm, loss scale
 *
 * A replica of one rank waits for nothing else: its loss, and what was found of NaN and infinity,
 * come with the news. With several ranks loss and looks are told to the others in the step, and the
 * host waits for them as ever. A sharded engine's ranks tell each other their shares of the norm,
 * too: the host brings the sum to the verdict, and gathers values when the update has ended.
 *
 * Without a loss scale a step that is not finite ends all updates on the device, until its owner
 * has settled it. */
#ifndef GYRE_MODEL_NETWORK_LATE_H
#define GYRE_MODEL_NETWORK_LATE_H

#include "model/network/replica.h"

/* What the host learns of a step. */
struct gyre_late_step {
    double norm;           /* of the mean gradient, without the loss scale */
    bool finite;           /* otherwise it was left out */
    int bad;               /* the parameter whose gradient was not finite; -1: none was found */
    struct gyre_loss loss; /* of a single rank */
};

/* Whether this replica's steps end so, and whether its loss comes late, too. */
bool gyre_late_on(const struct gyre_replica *replica);
bool gyre_late_loss(const struct gyre_replica *replica);

/* Begins a batch, before gyre_ddp_begin() and behind the end of the step before. Its rows are at
 * `x` on the device, or they are brought there from the host (x NULL, or the host's). A batch that
 * repeats what those of its kind have done before, with as many samples, is posted as graphs
 * (repeat.h); it has one forward and one backward then. Of a single rank its end posts it whole,
 * and until then nothing waits for its passes; of several, backward has posted all up to its end.
 * Without this call, or `late.repeats`, batches are made by their launches. */
void gyre_late_begin(struct gyre_replica *replica, const float *x, uint64_t samples);

/* Ends a batch before gyre_ddp_wait(): one that is not its step's last, and where steps do not end
 * late any, so that all of backward is posted. The late update ends the last. */
int gyre_late_end_batch(struct gyre_replica *replica, struct gyre_trouble *trouble);

/* As gyre_replica_update(), behind gyre_ddp_wait(); `clip` is a norm without the loss scale, 0:
 * none. The step before is settled first, or this one's news would take its place. Of a sharded
 * engine it is collective, and a failure without a story in `trouble` is the engine's. */
int gyre_late_update(struct gyre_replica *replica, double rate, double clip,
                     struct gyre_trouble *trouble);

/* Settles the oldest step that is not settled, and waits for its news. GYRE_AGAIN: there is
 * none. */
int gyre_late_settle(struct gyre_replica *replica, struct gyre_late_step *step,
                     struct gyre_trouble *trouble);

/* Steps that are not settled: 2 at most, behind an update. */
int gyre_late_open(const struct gyre_replica *replica);

#endif
