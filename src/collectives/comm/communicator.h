/* The communicator as a struct, which every file of its rooms sees, and the facts about it that
 * need no call. Its outside is gyre/gyre.h.
 *
 *     calls/       every function of gyre/gyre.h                       checks, then one of these:
 *     group/       calls between gyre_group_start() and gyre_group_end()
 *     lifecycle/   makes and ends communicators
 *     comm/        operations.c  all_to_all_v.c  message_wait.c        run or start an operation
 *                  arguments.c   reductions.c                          check and complete a call
 *                  progress.c    helper.c                              drive started work
 *                  handles.c     results.c       pack_memory.c         what users hold of it */
#ifndef GYRE_COLLECTIVES_COMM_COMMUNICATOR_H
#define GYRE_COLLECTIVES_COMM_COMMUNICATOR_H

#include "collectives/comm/handles.h"
#include "collectives/engine/engine.h"
#include "collectives/kernels/reduce.h"
#include "collectives/mapped/mesh.h"

#include <pthread.h>
#include <stdatomic.h>

struct gyre_point_to_point;
struct gyre_progress_engine;

struct gyre_registered {
    void *memory;
    size_t bytes;
};

#define GYRE_REGISTERED_MAX 256

/* Calls between gyre_group_start() and gyre_group_end(); collectives/group/group.c. */
struct gyre_group_call;
struct gyre_pack;
struct gyre_group_run;
struct gyre_group {
    uint32_t depth, calls, call_room, messages, message_room;
    /* The thread that opened the group, by its trouble; NULL: no group is open. Only that thread
     * touches the rest. */
    _Atomic(const struct gyre_trouble *) holder;
    struct gyre_comm *next; /* of the process's ranks with an open group; under their lock */
    pthread_t thread;       /* the holder, for the process's other ranks */
    bool refused;           /* a call of the group was refused */
    int lost;               /* the status with which a good call could not be started; 0: all can */
    /* Over, but for the groups that its thread has open on other ranks. */
    bool ended;
    struct gyre_group_run *room; /* for running the group together with those */
    struct gyre_group_call *call;
    struct gyre_message **message;
    struct gyre_pack *pack; /* all packs that were made */
};

/* Reductions that the caller made; reductions.c. */
#define GYRE_REDUCTIONS_MAX 64u

enum gyre_reduction_kind { GYRE_REDUCTION_NONE, GYRE_REDUCTION_SCALED, GYRE_REDUCTION_USER };

struct gyre_reduction {
    enum gyre_reduction_kind kind;
    enum gyre_type type; /* of the scalar */
    uint8_t scalar[8];
    struct gyre_user_op user[GYRE_TYPE_COUNT];
};

/* This rank's place among the communicator's nodes. */
struct gyre_node_place {
    uint32_t local_rank, local_size, node, nodes;
};

struct gyre_comm {
    struct gyre_progress_engine *progress;
    struct gyre_domain *domain;
    struct gyre_engine *engine; /* NULL: alone */
    struct gyre_mesh *mesh;
    struct gyre_layout *layout; /* NULL: all on one node */
    struct gyre_activity *activity;
    struct gyre_point_to_point *p2p; /* NULL: no message was ever started */
    uint32_t rank, n;
    uint32_t id;     /* of its messages; 0: the world */
    uint32_t name;   /* for the watch: the id, and the lowest rank above it */
    uint32_t *world; /* the world's number of a rank; NULL: its own */
    uint32_t *above; /* of a part of a communicator: the parent's number of a rank */
    struct gyre_node_place node_place;
    uint32_t busy; /* 1: in the progress engine's list */
    struct gyre_work_table work;
    /* Calls that had to wait for room to start: so many came, and so many had their turn. */
    uint32_t queued;
    _Atomic uint32_t turn;
    struct gyre_group group;
    struct gyre_plan *v_plan; /* of all_to_all_v, by type; NULL: none yet */
    struct gyre_reduction reduction[GYRE_REDUCTIONS_MAX];
    uint8_t barrier_in, barrier_out;
    pthread_mutex_t registered_lock;
    struct gyre_registered registered[GYRE_REGISTERED_MAX];
    uint32_t registered_count;
};

static inline uint32_t gyre_comm_world(const struct gyre_comm *comm, uint32_t rank)
{
    return comm->world ? comm->world[rank] : rank;
}

/* Tells the watch: a thread starts something on the communicator, or waits for it. */
static inline void gyre_comm_focus(struct gyre_comm *comm)
{
    gyre_activity_focus(gyre_domain_activity(comm->domain), comm->activity);
}

/* Whether this thread has a group open on the communicator. Calls of other threads are apart from
 * it. */
static inline bool gyre_comm_in_group(const struct gyre_comm *comm)
{
    const struct gyre_trouble *holder =
        atomic_load_explicit(&comm->group.holder, memory_order_relaxed);
    return holder && holder == gyre_thread_trouble();
}

/* How often a wait looks at a peer's line before it waits in the domain's way; less often where the
 * peer may need this very core. */
#define GYRE_LOOKS                64u
#define GYRE_LOOKS_OVERSUBSCRIBED 4u

static inline uint32_t gyre_comm_looks(const struct gyre_comm *comm)
{
    return gyre_domain_oversubscribed(comm->domain) ? GYRE_LOOKS_OVERSUBSCRIBED : GYRE_LOOKS;
}

#endif
