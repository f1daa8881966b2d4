/* Host mirrors: how an operation runs on buffers that the CPU cannot touch, over links that cannot
 * either.
 *
 *     INPUT on the device ──copy──▶ mirror ──▶ the operation, as ever ──▶ mirror ──copy──▶ OUTPUT
 *
 * A host mirror is host memory laid out as the caller's buffers are. A slice's bytes are copied
 * when the slice is due and given back when the slice has run, so the device's copy engine works
 * beside the wire, and beside the processors on mapped memory. Peers learn nothing of the mirror:
 * each rank chooses for itself where its buffers are.
 *
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_STAGING_HOST_MIRROR_H
#define GYRE_COLLECTIVES_STAGING_HOST_MIRROR_H

#include "collectives/plan/request.h"
#include "collectives/staging/late_tables.h"
#include "collectives/staging/operation.h"

struct gyre_host_mirror; /* of one operation; from a pool */

/* The host mirrors of one communicator. */
struct gyre_mirror_pool {
    struct gyre_fold_queue *fold_queue; /* NULL: all buffers are the host's */
    uint32_t n, rank;
    struct gyre_host_mirror *first; /* all that were made */
    struct gyre_late_tables tables; /* of folds on streams */
};

/* Finds the host mirror that these buffers want; NULL where they are the host's. Allocates where
 * the pool has none that is large enough. Nothing is copied yet. */
int gyre_mirror_make(struct gyre_mirror_pool *pool, const struct gyre_plan *plan,
                     const struct gyre_request *request, struct gyre_host_mirror **mirror,
                     struct gyre_trouble *trouble);

/* Lets the operation run on the host mirror from here on. NULL: on its own buffers. */
void gyre_mirror_use(struct gyre_operation *op, struct gyre_host_mirror *mirror);

/* Has an operation that was a device's run on a host mirror after all. */
int gyre_mirror_leave_device(struct gyre_mirror_pool *pool, struct gyre_operation *op,
                             struct gyre_trouble *trouble);

/* Posts the operation's way on a stream: its copies in, the words at which the stream arrives and
 * waits, and its copies out. The stream arrives in at most GYRE_MIRROR_STEPS steps. NULL: an
 * operation without a mirror, which has the words alone. Of a mirror that could not be locked the
 * operation posts the copies. */
#define GYRE_MIRROR_STEPS 16u
int gyre_mirror_post_on(struct gyre_host_mirror *mirror, struct gyre_fold_queue *fold_queue,
                        void *stream, struct gyre_stream_wait *stream_wait,
                        struct gyre_trouble *trouble);

/* Posts the copies that are due and learns which have come. True if anything moved. */
bool gyre_mirror_run(struct gyre_host_mirror *mirror);

/* Is the slice's INPUT here? Of an EXCHANGE, which is not cut, all of it. */
bool gyre_mirror_ready(const struct gyre_host_mirror *mirror, uint64_t slice);

/* STEPS: gives the slice's OUTPUT back. False: there is no room on the queue now, ask again. */
bool gyre_mirror_give(struct gyre_host_mirror *mirror, uint64_t slice);

/* Gives back the first `slices` slices, on mapped memory, where slices end in their order. True if
 * anything was given back; ask again for the rest. */
bool gyre_mirror_give_before(struct gyre_host_mirror *mirror, uint64_t slices);

/* Has all of OUTPUT been given back? */
bool gyre_mirror_given(const struct gyre_host_mirror *mirror);

/* Has all of OUTPUT arrived? */
bool gyre_mirror_over(const struct gyre_host_mirror *mirror);

/* Gives the mirror back to its pool. NULL allowed. */
void gyre_mirror_release(struct gyre_host_mirror *mirror);

/* Frees all mirrors of the pool. */
void gyre_mirror_pool_deinit(struct gyre_mirror_pool *pool);

#endif
