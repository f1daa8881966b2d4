/* The communicator's inside, for the files of this room only. Its outside is
 * gyre/gyre.h. */
#ifndef GYRE_COLLECTIVES_COMM_COMM_H
#define GYRE_COLLECTIVES_COMM_COMM_H

#include "collectives/engine/engine.h"
#include "collectives/comm/progress.h"
#include "collectives/mapped/mesh.h"
#include "collectives/messages/staged_message.h"
#include "collectives/messages/point_to_point.h"
#include "collectives/comm/handles.h"

#include <pthread.h>

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
    struct gyre_comm *next;      /* of the process's ranks, with one open; under their lock */
    pthread_t thread;            /* that opened it */
    bool refused;                /* a call of it was */
    bool ended;                  /* but for the groups that its thread has on other ranks */
    struct gyre_group_run *room; /* for running it with those */
    struct gyre_group_call *call;
    struct gyre_message **message;
    struct gyre_pack *pack; /* all that were made */
};

/* An all_to_all_v; collectives/calls/all_to_all_v.c. */
struct gyre_all_to_all_v_side { /* what goes out, or what comes in */
    const char *name;
    uint8_t *data;
    const uint64_t *count, *at; /* by rank; `at` NULL: behind each other */
};

struct gyre_all_to_all_v_call {
    const char *call;
    struct gyre_all_to_all_v_side out, in;
    enum gyre_type type;
};

/* Reductions that the caller made; reductions.c. */
#define GYRE_OP_MADE        64u
#define GYRE_REDUCTIONS_MAX 64u

enum gyre_reduction_kind { GYRE_REDUCTION_NONE, GYRE_REDUCTION_SCALED, GYRE_REDUCTION_USER };

struct gyre_reduction {
    enum gyre_reduction_kind kind;
    enum gyre_type type; /* of the scalar */
    uint8_t scalar[8];
    struct gyre_user_op user[GYRE_TYPE_COUNT];
};

/* Where this rank stands among the communicator's nodes. */
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
    struct gyre_staged_pool staged_pool;
    uint32_t rank, n;
    uint32_t id;     /* of its messages; 0: the world */
    uint32_t name;   /* for the watch: the id, and the lowest rank above it */
    uint32_t *world; /* the world's number of a rank; NULL: its own */
    uint32_t *above; /* the parent's, of a part */
    struct gyre_node_place node_place;
    bool busy; /* in the progress engine's list */
    struct gyre_work_table work;
    struct gyre_group group;
    struct gyre_plan *v_plan; /* of all_to_all_v, by type; NULL: none yet */
    struct gyre_reduction reduction[GYRE_REDUCTIONS_MAX];
    uint8_t barrier_in, barrier_out;
    pthread_mutex_t registered_lock;
    struct gyre_registered registered[GYRE_REGISTERED_MAX];
    uint32_t registered_count;
};

/* -- for the watch ----------------------------------------------------------------------------- */

/* A thread starts something on it, or waits for it. */
static inline void gyre_comm_focus(struct gyre_comm *comm)
{
    gyre_activity_focus(gyre_domain_activity(comm->domain), comm->activity);
}

static inline void gyre_comm_note_started(struct gyre_comm *comm, const struct gyre_plan *plan,
                                          uint64_t sequence, uint64_t fingerprint)
{
    gyre_activity_enter(comm->activity, comm->name, sequence, fingerprint, plan->signature,
                        plan->shape.count);
    if (comm->progress->activities > 1)
        gyre_comm_focus(comm);
}

/* At what a peer will write, before the domain's way of waiting; fewer where that peer may need
 * this very core. */
#define GYRE_LOOKS                64u
#define GYRE_LOOKS_OVERSUBSCRIBED 4u

static inline uint32_t gyre_comm_looks(const struct gyre_comm *comm)
{
    return gyre_domain_oversubscribed(comm->domain) ? GYRE_LOOKS_OVERSUBSCRIBED : GYRE_LOOKS;
}

static inline void gyre_comm_note_finished(struct gyre_comm *comm)
{
    const struct gyre_engine *engine = comm->engine;
    uint64_t finished = engine->orders ? engine->order[0]->sequence - 1 : engine->sequence;
    gyre_activity_finish(comm->activity, finished);
}

/* A call came to nothing here, for the reason in the thread's trouble, and peers may wait in
 * theirs: it goes into the books, unless `status` is 0 or the communicator's own failure. The
 * second: what an open group lacks is missing behind all that it has started. Return `status`. */
int gyre_comm_refused(struct gyre_comm *comm, int status);
void gyre_comm_refused_in_group(struct gyre_comm *comm);

/* The same of a message; not the owner. */
int gyre_message_refused(struct gyre_comm *comm, int status);

/* -- for the room ------------------------------------------------------------------------------ */

/* 0 if a call may go on; otherwise why not. */
int gyre_comm_check(struct gyre_comm *comm, const char *call);

/* operations.c. Runs an operation to its end, or starts it and hands out the handle, which takes
 * over `buffer`. Arguments are checked; not the owner. */
int gyre_comm_run(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                  void *output);
int gyre_comm_begin(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                    void *output, void *buffer, struct gyre_work **work);

/* Runs it, unchecked, where it goes the shortest way and its shape is that of the operation before,
 * as in a loop: what the plan was made of has passed the checks. False: it does not; nothing was
 * done. */
bool gyre_comm_run_again(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                         void *output, int *status);

/* Starts an operation that waits for what is on the stream, and that what comes onto the stream
 * later waits for. */
int gyre_comm_begin_on(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                       void *output, void *stream);

/* comm.c, for whoever makes one: which nodes its ranks are on, and its engine, from what stands in
 * the struct already. */
int gyre_comm_lay_out(struct gyre_comm *comm, struct gyre_trouble *trouble);
int gyre_comm_open_engine(struct gyre_comm *comm, struct gyre_trouble *trouble);

static inline uint32_t gyre_comm_world(const struct gyre_comm *comm, uint32_t rank)
{
    return comm->world ? comm->world[rank] : rank;
}

/* Waits for what was started on it. */
void gyre_comm_finish_work(struct gyre_comm *comm);

/* operations.c, owner. Starts an operation, waiting for room if need be; drives until it has ended,
 * and returns its status. */
int gyre_comm_start(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                    void *output, struct gyre_operation **op);
int gyre_comm_start_plan(struct gyre_comm *comm, struct gyre_plan *plan, const void *input,
                         void *output, struct gyre_operation **op);
int gyre_comm_drive(struct gyre_comm *comm, struct gyre_operation *op);

/* collectives/calls/messages.c. As gyre_work_wait() for the handle of a message; waits for one and
 * frees it (owner).
 */
int gyre_message_await(struct gyre_started *started, uint64_t deadline);
int gyre_message_end(struct gyre_comm *comm, struct gyre_message *message);

/* collectives/calls/all_to_all_v.c. Starts an all_to_all_v (owner), whose tables it has read when
 * it returns; what it is for one rank alone. */
int gyre_all_to_all_v_begin(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                            struct gyre_operation **op);
int gyre_all_to_all_v_run_alone(struct gyre_comm *comm,
                                const struct gyre_all_to_all_v_call *v_call);

/* In place, what comes would overwrite what goes: that goes from a copy, of so many bytes (0: it is
 * not in place). The second copies into such a room (not the owner). */
uint64_t gyre_all_to_all_v_aside_bytes(const struct gyre_comm *comm,
                                       const struct gyre_all_to_all_v_call *v_call);
int gyre_all_to_all_v_step_aside(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call,
                                 void *room);

/* collectives/group/group.c. Collects a call, which takes over `buffer`; `work` NULL: the group
 * waits for it. Tables are copied. What an open group means at the communicator's end. */
int gyre_group_add(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                   void *output, void *buffer, struct gyre_work **work);
int gyre_group_add_all_to_all_v(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                                struct gyre_work **work);
int gyre_group_add_message(struct gyre_comm *comm, struct gyre_message *message);
/* Of a handle in a pack whose operation has ended: fills its output, and leaves the pack (owner). */
void gyre_group_settle(struct gyre_started *started, int status);
int gyre_group_left_open(struct gyre_comm *comm);
void gyre_group_deinit(struct gyre_group *group);

/* reductions.c. Puts the caller's own reduction into the shape. Multiplies INPUT where it says so,
 * into OUTPUT or into a buffer that the caller frees after the operation. */
int gyre_reduction_resolve(struct gyre_comm *comm, const char *call, struct gyre_shape *shape);
int gyre_reduction_scale(struct gyre_comm *comm, const struct gyre_shape *shape, const void **input,
                         void *output, void **buffer);

/* world.c. Takes the caller's options, which may be shorter than ours. Makes the communicator of a
 * whole job in two steps: what needs no peer, and joining, which may block. The one that is met
 * must be freed where that fails. `made_by` is the call, alike on all ranks. end() waits for its
 * work, free() does not; both return its first failure, up to the last goodbye. */
int gyre_options_take(const struct gyre_options *given, struct gyre_options *options,
                      struct gyre_trouble *trouble);
int gyre_world_create(const struct gyre_domain_options *options, struct gyre_comm **world,
                      struct gyre_trouble *trouble);
int gyre_world_meet(struct gyre_comm *world, const char *made_by, struct gyre_trouble *trouble);
int gyre_world_status(const struct gyre_comm *world, struct gyre_trouble *trouble);
int gyre_world_end(struct gyre_comm *world, struct gyre_trouble *trouble);
int gyre_world_free(struct gyre_comm *world, struct gyre_trouble *trouble);

/* local.c. Of one of several ranks in this process: all are ended by the last of them to leave. */
int gyre_local_leave(struct gyre_comm *world, struct gyre_trouble *trouble);

/* split.c. Ends a part of the world, with all its ranks, and frees it. */
int gyre_comm_end(struct gyre_comm *child);

/* comm.c. Of a communicator that ends. */
void gyre_comm_unregister_all(struct gyre_comm *comm);

/* operations.c. A copy between memories of any kind, done when it returns; not the owner. */
int gyre_comm_copy(struct gyre_comm *comm, void *to, const void *from, uint64_t bytes);

/* Frees an idle one; the memory it shares is the domain's, or was withdrawn. */
void gyre_comm_free(struct gyre_comm *comm);

#endif
