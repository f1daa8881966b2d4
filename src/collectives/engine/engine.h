/* The engine runs plans. It is a state machine that never blocks: run() posts what can be posted,
 * folds what can be folded and returns. Time, links and memory are given to it, so the same object
 * code runs over real wires and over the simulator's virtual time.
 *
 * One engine belongs to one communicator of one rank. All calls come from the thread that owns the
 * domain. */
#ifndef GYRE_COLLECTIVES_ENGINE_ENGINE_H
#define GYRE_COLLECTIVES_ENGINE_ENGINE_H

#include "collectives/engine/flight.h"
#include "collectives/engine/plans.h"
#include "collectives/engine/steps.h"

struct gyre_engine_options {
    uint32_t rank, n;
    uint16_t comm;
    const uint32_t *world; /* n, borrowed; NULL: ranks are the links' own */
    struct gyre_links *links;
    struct gyre_mesh *mesh;
    struct gyre_fold_queue *fold_queue; /* borrowed; NULL: all buffers are the host's */
    struct gyre_domain *scratch_domain; /* of scratch that links write in place; NULL: the heap */
    const struct gyre_layout *layout;   /* NULL: all on one node; borrowed */
    enum gyre_link_kind near, far;      /* links inside a node and to the others */
    const struct gyre_preference *preference; /* borrowed while the engine lives; NULL: none */
    const struct gyre_algorithm *algorithm;   /* NULL: select */
    uint64_t slice_bytes;                     /* 0: select */
    uint32_t lanes;                           /* 0: select */
};

int gyre_engine_create(const struct gyre_engine_options *options, struct gyre_engine **engine,
                       struct gyre_trouble *trouble);
void gyre_engine_destroy(struct gyre_engine *engine); /* NULL allowed */

/* Gives back what the scratch domain lent, so the domain may go. Nothing is in flight, or all has
 * failed. */
void gyre_engine_part(struct gyre_engine *engine);

/* Gives up device memory that peers map for this communicator. `share_no_more`: no member uses it,
 * and peers unmap it; else the domain frees it. */
void gyre_engine_drop_windows(struct gyre_engine *engine, bool share_no_more);

/* Moves everything that can move, but for its links; true if anything did. */
bool gyre_engine_run(struct gyre_engine *engine);

/* Writes into the records of what is under way on whom it waits. */
void gyre_engine_note_waits(struct gyre_engine *engine);

/* Turns an exchange of the shortest way, which has its number already, into an operation that other
 * threads can drive. NULL: no room. */
struct gyre_operation *gyre_engine_adopt(struct gyre_engine *engine, struct gyre_plan *plan,
                                         const void *input, void *output, bool begun);

/* Lets streams that wait for operations go on, because the job will fail. The work for which the
 * failure waits may be on such a stream, also behind another communicator's operation. */
void gyre_engine_let_streams_go(struct gyre_engine *engine);

/* Ends every operation with `status`: the job has failed. After the call no rank writes a
 * buffer. */
void gyre_engine_fail(struct gyre_engine *engine, int status);

#endif
