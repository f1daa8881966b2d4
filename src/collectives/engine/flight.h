/* The engine's state; and operations in flight: started, ended, released, and their faults.
 *
 * All calls come from the thread that owns the domain. */
#ifndef GYRE_COLLECTIVES_ENGINE_FLIGHT_H
#define GYRE_COLLECTIVES_ENGINE_FLIGHT_H

#include "collectives/staging/host_mirror.h"
#include "transport/domain/domain.h"
#include "transport/link/links.h"

#define GYRE_OPS_MAX   64u /* operations in flight */
#define GYRE_LANE_POOL 8u  /* lanes that run at a time, over all operations */
#define GYRE_PLANS_MAX 64u /* plans kept */

struct gyre_mesh;

struct gyre_lane {
    struct gyre_operation *op; /* NULL: idle */
    uint32_t generation;
    uint64_t slice_index, base; /* base: bytes before the slice in INPUT and OUTPUT */
    struct gyre_slice slice;
    uint64_t index, rounds; /* of rounds */
    /* The round and the next one, each at its index modulo 2. */
    struct {
        struct gyre_round steps;
        uint32_t outstanding; /* posts without completion */
        uint64_t *event;      /* of the trace: sends and receives, by step */
    } round[2];
    bool looks_ahead;     /* the slice may receive early */
    bool ahead;           /* the next round is known, and has been posted as far as it can be */
    uint32_t pass;        /* over the round's steps, see steps.c */
    uint32_t posted;      /* steps of the round that this pass has looked at */
    uint32_t local;       /* next step that may be COPY or REDUCE */
    uint64_t local_bytes; /* done of the step `local` */
    uint8_t *scratch;
    uint64_t scratch_bytes;
    const void **pointer; /* source_max sources of a REDUCE */
};

struct gyre_engine {
    uint32_t rank, n;
    uint16_t comm;
    const uint32_t *world; /* the links' number of a rank; NULL: its own */
    struct gyre_links *links;
    struct gyre_mesh *mesh; /* NULL: not all ranks share memory */
    const struct gyre_device *device;
    struct gyre_device_queue *queue;
    struct gyre_domain *scratch_domain; /* of the lanes' scratch; NULL: the heap */
    struct gyre_mirror_pool mirrors;
    struct gyre_plan_options planning;

    uint64_t sequence;     /* of the last operation started */
    uint64_t history_hash; /* all operations started, in one number */
    struct gyre_operation op[GYRE_OPS_MAX];
    struct gyre_operation *order[GYRE_OPS_MAX]; /* in flight, by sequence */
    uint32_t orders;
    _Atomic uint32_t ends; /* of operations, and releases; whoever waits for room looks at it */

    struct gyre_lane lane[GYRE_LANE_POOL];
    struct gyre_extent extent; /* the largest of all plans: a lane's storage holds it */

    struct gyre_plan *plan[GYRE_PLANS_MAX];
    struct gyre_plan *recent;
    uint64_t clock; /* of plan use */

    struct gyre_fault fault;
    int failed; /* status of every operation from now on */
};

/* The name of an operation among peers. The lower half is of the operation itself, the upper half
 * of all operations before. Two ranks may have disagreed where no rank could see it (two roots of
 * one broadcast); from then on their names differ. */
static inline uint64_t gyre_engine_fingerprint(const struct gyre_engine *engine,
                                               const struct gyre_plan *plan, uint64_t sequence)
{
    uint64_t own = (plan->fingerprint ^ sequence) * UINT64_C(0x9e3779b97f4a7c15);
    return (engine->history_hash & ~(uint64_t)UINT32_MAX) | own >> 32;
}

/* Adds a started operation to the history. */
static inline void gyre_engine_remember(struct gyre_engine *engine, uint64_t fingerprint)
{
    engine->history_hash = (engine->history_hash ^ fingerprint) * UINT64_C(0xd1342543de82ef95);
}

/* The number by which links and stories know the rank. */
static inline uint32_t gyre_engine_world(const struct gyre_engine *engine, uint32_t rank)
{
    return engine->world ? engine->world[rank] : rank;
}

static inline bool gyre_engine_idle(const struct gyre_engine *engine)
{
    return engine->orders == 0;
}

/* Whether the stream has come with the operation's first bytes. */
static inline bool gyre_engine_due(const struct gyre_operation *op)
{
    return !op->awaits_stream || gyre_stream_wait_steps(&op->stream_wait);
}

/* Whether another operation can be started. Operations that have ended count until they are
 * released. */
bool gyre_engine_has_room(const struct gyre_engine *engine);

/* The turn, past or to come, of the last operation on mapped memory that was started. */
uint64_t gyre_engine_last_turn(const struct gyre_engine *engine);

/* Starts an operation; NULL when GYRE_OPS_MAX are in flight. Buffers are borrowed until its status
 * is not GYRE_AGAIN. */
struct gyre_operation *gyre_engine_start(struct gyre_engine *engine, struct gyre_plan *plan,
                                         const void *input, void *output);

/* Ties the operation that was just started to a stream: the operation waits for what is on the
 * stream now, and what is put there later waits for the operation's end. `captured`: the stream is
 * being captured into a graph, whose part the operation becomes. Where this fails the operation is
 * one like any other. */
int gyre_engine_bind_stream(struct gyre_engine *engine, struct gyre_operation *op, void *stream,
                            bool captured, struct gyre_trouble *trouble);

/* Lets the stream of an operation go on, if it waits for the operation. */
void gyre_engine_let_stream_go(struct gyre_engine *engine, struct gyre_operation *op);

/* Ends an operation whose work is done. One with a host mirror or a window ends when its OUTPUT has
 * been copied back. */
void gyre_engine_finish(struct gyre_engine *engine, struct gyre_operation *op, int status);

/* Ends an operation now. */
void gyre_engine_end(struct gyre_engine *engine, struct gyre_operation *op, int status);

/* Frees the place of an operation that has ended. */
void gyre_engine_release(struct gyre_engine *engine, struct gyre_operation *op);

/* Records the first fault. */
void gyre_engine_fault(struct gyre_engine *engine, int status, uint32_t peer, bool echo,
                       const struct gyre_trouble *trouble);

/* Record a fault of the link to that rank of the world, or of a post that has ended. */
void gyre_engine_link_failed(struct gyre_engine *engine, uint32_t peer, int status);
void gyre_engine_post_failed(struct gyre_engine *engine, int status);

#endif
