/* The engine runs plans. It is a state machine that never blocks: poll() posts what can be posted,
 * folds what can be folded and returns. Time, links and memory are given to it, so the same object
 * code runs over real wires and over the simulator's virtual time.
 *
 * One engine belongs to one communicator of one rank. All calls come from the thread that owns the
 * domain. */
#ifndef GYRE_COLLECTIVES_ENGINE_ENGINE_H
#define GYRE_COLLECTIVES_ENGINE_ENGINE_H

#include "collectives/staging/stream_wait.h"
#include "collectives/plan/plan.h"
#include "transport/domain/domain.h"
#include "transport/link/links.h"

#include <stdatomic.h>

/* In a token the communicator's id stands above 16 bits that say what the lower 32 mean: a lane, or
 * this: a message of collectives/messages/point_to_point.h. */
#define GYRE_TOKEN_MESSAGE 0xffffu

#define GYRE_OPS_MAX     64u /* operations in flight */
#define GYRE_LANE_POOL   8u  /* lanes that run at a time, over all operations */
#define GYRE_PLANS_MAX   64u /* plans kept; the least recently used one that is idle goes */
#define GYRE_PIECE_BYTES (256u * 1024) /* folded or copied at most between looks at the world */

struct
    gyre_mesh; /* boards of a communicator whose ranks all share memory; collectives/mapped/mesh.h */
struct gyre_fold_queue;
struct gyre_host_mirror;

struct gyre_operation {
    struct gyre_plan *plan;
    const uint8_t *input;
    uint8_t *output;
    uint64_t sequence;
    uint64_t fingerprint;
    _Atomic int status;  /* GYRE_AGAIN while under way; read by any thread */
    uint64_t next_slice; /* STEPS: the next one that a lane may take */
    uint32_t lanes;      /* STEPS: lanes at work for it */
    uint32_t blocks;     /* BLOCKS: messages that have not ended */
    struct gyre_host_mirror
        *mirror;          /* input and output are there, the caller's elsewhere; NULL: no */
    bool giving;          /* all has run, and OUTPUT is on its way to the caller's */
    bool direct;          /* PUSH: a device runs it, if every rank's can */
    uint64_t stream_mark; /* of the stream that it waits for; 0: none */
    bool held;            /* a stream waits for it, and nobody else: */
    struct gyre_stream_wait stream_wait; /* its word, until it is released */
    bool used;
};

struct gyre_lane {
    struct gyre_operation *op; /* NULL: idle */
    uint32_t generation;
    uint64_t slice_index, base; /* base: bytes before the slice in INPUT and OUTPUT */
    struct gyre_slice slice;
    uint64_t index, rounds; /* of rounds */
    struct gyre_round round;
    uint32_t pass;        /* over the round's steps, see steps.c */
    uint32_t posted;      /* how many of them have been looked at in this pass */
    uint32_t outstanding; /* posts without completion */
    uint32_t local;       /* next step that may be COPY or REDUCE */
    uint64_t local_bytes; /* done of that one */
    uint8_t *scratch;
    uint64_t scratch_bytes;
    const void **pointer; /* source_max sources of a REDUCE */
};

/* What went wrong and is not told to the job yet. */
struct gyre_fault {
    int status; /* 0: nothing */
    uint32_t peer;
    bool echo; /* perhaps only the echo of another failure */
    struct gyre_trouble trouble;
};

struct gyre_engine {
    uint32_t rank, n;
    uint16_t comm;
    const uint32_t *world; /* the links' number of a rank; NULL: its own */
    struct gyre_links *links;
    struct gyre_mesh *mesh; /* NULL: not all ranks share memory */
    const struct gyre_device *device;
    struct gyre_device_queue *queue;
    struct gyre_fold_queue *fold_queue; /* NULL: all buffers are the host's */
    struct gyre_domain *scratch_domain; /* of the lanes' scratch; NULL: the heap */
    struct gyre_host_mirror *mirrors;   /* all that were made */
    struct gyre_plan_options planning;

    uint64_t sequence;     /* of the last operation started */
    uint64_t history_hash; /* all operations started, in one number */
    struct gyre_operation op[GYRE_OPS_MAX];
    struct gyre_operation *order[GYRE_OPS_MAX]; /* in flight, by sequence */
    uint32_t orders;

    struct gyre_lane lane[GYRE_LANE_POOL];
    struct gyre_extent extent; /* the largest of all plans: what a lane's storage must hold */

    struct gyre_plan *plan[GYRE_PLANS_MAX];
    struct gyre_plan *recent;
    uint64_t clock; /* of plan use */

    struct gyre_fault fault;
    int failed; /* status of every operation from now on */
};

struct gyre_engine_options {
    uint32_t rank, n;
    uint16_t comm;
    const uint32_t *world; /* n, borrowed; NULL: ranks are the links' own */
    struct gyre_links *links;
    struct gyre_mesh *mesh;
    struct gyre_fold_queue *fold_queue; /* borrowed; NULL: all buffers are the host's */
    struct gyre_domain
        *scratch_domain; /* of scratch that links write in place; borrowed; NULL: the heap */
    const struct gyre_layout *layout;         /* NULL: all on one node; borrowed */
    enum gyre_link_kind near, far;            /* links inside a node and to the others */
    const struct gyre_preference *preference; /* borrowed while the engine lives; NULL: none */
    const struct gyre_algorithm *algorithm;   /* NULL: select */
    uint64_t slice_bytes;                     /* 0: select */
    uint32_t lanes;                           /* 0: select */
};

int gyre_engine_create(const struct gyre_engine_options *options, struct gyre_engine **engine,
                       struct gyre_trouble *trouble);
void gyre_engine_destroy(struct gyre_engine *engine); /* NULL allowed */

/* Nothing is in flight, or all has failed: gives back what the scratch domain lent, who may go
 * then. */
void gyre_engine_part(struct gyre_engine *engine);

struct gyre_op_name {
    uint64_t sequence, fingerprint;
};

/* Its lower half is of this operation, its upper half of all before it: ranks that disagreed where
 * nobody could see it, as two roots of one broadcast do, differ from then on. */
static inline uint64_t gyre_engine_fingerprint(const struct gyre_engine *engine,
                                               const struct gyre_plan *plan, uint64_t sequence)
{
    uint64_t own = (plan->fingerprint ^ sequence) * UINT64_C(0x9e3779b97f4a7c15);
    return (engine->history_hash & ~(uint64_t)UINT32_MAX) | own >> 32;
}

/* The operation is started, or over, and will not be asked for again. */
static inline void gyre_engine_remember(struct gyre_engine *engine, uint64_t fingerprint)
{
    engine->history_hash = (engine->history_hash ^ fingerprint) * UINT64_C(0xd1342543de82ef95);
}

/* The operation that was just started waits for what the gate stands for, and the stream for the
 * operation, which is released when it ends. If that fails it is one like any other. */
int gyre_engine_bind_stream(struct gyre_engine *engine, struct gyre_operation *op,
                            uint64_t stream_mark, void *stream, struct gyre_trouble *trouble);

/* Has what the operation waits for come? */
bool gyre_engine_due(const struct gyre_engine *engine, const struct gyre_operation *op);

/* The plan of a shape, from the cache or made now. */
int gyre_engine_plan(struct gyre_engine *engine, const struct gyre_shape *shape,
                     struct gyre_plan **plan, struct gyre_trouble *trouble);

/* Can another operation be started? Those that have ended count until they are released. */
bool gyre_engine_has_room(const struct gyre_engine *engine);

/* Starts an operation; NULL when GYRE_OPS_MAX are in flight. Buffers are borrowed until its status
 * is not GYRE_AGAIN. */
struct gyre_operation *gyre_engine_start(struct gyre_engine *engine, struct gyre_plan *plan,
                                         const void *input, void *output);
void gyre_engine_release(struct gyre_engine *engine,
                         struct gyre_operation *op); /* of an operation that has ended */

/* Moves everything that can move, but for its links; true if anything did. Completions of its
 * tokens, which have the communicator's id in their upper 16 bits, are handed to complete(). */
bool gyre_engine_run(struct gyre_engine *engine);
void gyre_engine_complete(struct gyre_engine *engine, const struct gyre_completion *done);

/* Both, and polls the links, for an engine that has them alone. */
bool gyre_engine_poll(struct gyre_engine *engine, uint64_t now);

/* As stories and links know the rank. */
static inline uint32_t gyre_engine_world(const struct gyre_engine *engine, uint32_t rank)
{
    return engine->world ? engine->world[rank] : rank;
}

static inline bool gyre_engine_idle(const struct gyre_engine *engine)
{
    return engine->orders == 0;
}

/* The job will fail: streams that wait for operations go on. What a failure waits for may be behind
 * them, also behind another communicator's. */
void gyre_engine_let_streams_go(struct gyre_engine *engine);

/* The job has failed: every operation ends with `status` and no buffer is written by anybody after
 * this returns. */
void gyre_engine_fail(struct gyre_engine *engine, int status);

/* Ends an operation that is under way (steps.c and collectives/mapped/mapped.c call it); one with a
 * host mirror, when its OUTPUT has been given back. */
void gyre_engine_finish(struct gyre_engine *engine, struct gyre_operation *op, int status);

/* Record what is wrong with the link to that rank of the world, or with a post that has ended. */
void gyre_engine_link_failed(struct gyre_engine *engine, uint32_t peer, int status);
void gyre_engine_post_failed(struct gyre_engine *engine, int status);

/* Records the first fault. */
void gyre_engine_fault(struct gyre_engine *engine, int status, uint32_t peer, bool echo,
                       const struct gyre_trouble *trouble);

/* steps.c: rounds over message links. */
bool gyre_steps_run(struct gyre_engine *engine);
int gyre_steps_fit(struct gyre_engine *engine,
                   uint32_t lanes); /* the first lanes get storage, where idle */
void gyre_steps_drop(struct gyre_engine *engine);
void gyre_steps_deinit(struct gyre_engine *engine);

#endif
