/* An operation in flight: a plan, its buffers and how far it is. The engine starts and ends
 * operations; steps, mapped memory and host mirrors move them. */
#ifndef GYRE_COLLECTIVES_STAGING_OPERATION_H
#define GYRE_COLLECTIVES_STAGING_OPERATION_H

#include "collectives/plan/plan.h"
#include "collectives/staging/stream_wait.h"
#include "transport/recorder/book.h"

#include <stdatomic.h>

#define GYRE_PIECE_BYTES (256u * 1024) /* folded or copied at most between looks at the world */

struct gyre_host_mirror;
struct gyre_push_window;

struct gyre_operation {
    struct gyre_plan *plan;
    const uint8_t *input;
    uint8_t *output;
    uint64_t sequence;
    uint64_t fingerprint;
    _Atomic int status;                  /* GYRE_AGAIN while under way; read by any thread */
    uint64_t next_slice;                 /* STEPS: the next one that a lane may take */
    uint32_t lanes;                      /* STEPS: lanes at work for it */
    uint32_t blocks;                     /* BLOCKS: messages that have not ended */
    struct gyre_host_mirror *mirror;     /* holds input and output, not the caller's; NULL: none */
    struct gyre_push_window *window;     /* has input and output, as `mirror`; NULL: none */
    bool giving;                         /* all has run, and OUTPUT is on its way to the caller's */
    bool direct;                         /* a device runs it; a PUSH: if every rank's can */
    uint8_t *table;                      /* of its folds that stand on a stream; NULL: none do */
    bool folding;                        /* the stream may fold by the table */
    uint64_t turn;                       /* on mapped memory; 0: not known yet */
    bool begun;                          /* the turn's line is written */
    uint32_t output_region;              /* as the line says; 0: no peer maps OUTPUT */
    bool alone;                          /* its stream runs the turn (device/push_stream.h) */
    uint32_t captured;                   /* into a graph, as which of those; 0: not */
    bool resolved;                       /* ahead, and the lines were read */
    uint64_t steps;                      /* alone: those that were seen of its stream */
    bool awaits_stream;                  /* it begins when the stream has come */
    bool held;                           /* released at its end: only a stream waits for it */
    struct gyre_stream_wait stream_wait; /* the stream's words, until it is released */
    struct gyre_record_place record;     /* what the rank remembers of it */
    bool used;
};

/* Whether the operation's line is written ahead: a stream runs the turn, or a graph will. */
static inline bool gyre_operation_is_ahead(const struct gyre_operation *op)
{
    return op->alone || op->captured;
}

/* How peers know an operation. */
struct gyre_op_name {
    uint64_t sequence, fingerprint;
};

/* The first thing that went wrong in an engine, until the job knows. */
struct gyre_fault {
    int status; /* 0: nothing */
    uint32_t peer;
    bool echo; /* perhaps only the echo of another failure */
    struct gyre_trouble trouble;
};

/* Records a fault; does nothing where one is recorded already. */
static inline void gyre_fault_record(struct gyre_fault *fault, int status, uint32_t peer, bool echo,
                                     const struct gyre_trouble *trouble)
{
    if (!fault->status)
        *fault = (struct gyre_fault){status, peer, echo, *trouble};
}

#endif
