/* Groups of calls that are started together.
 *
 *   group_start   gyre_send ───────▶ started at once           group_end
 *                 all_reduce a ─┐                              starts what was collected, in order,
 *                 broadcast  b ─┼─▶ collected ───────────────▶ [a c packed] [b], and waits for all
 *                 all_reduce c ─┘
 *
 * Messages wait for nobody when they are started, so a group starts them at once; that is why all
 * ranks may send first. Operations are collected until the end, for small all-reduces of one type
 * and reduction then go as one: their inputs are packed behind each other, which shares every round
 * of every message. The pattern of the pack is part of its fingerprint, so ranks whose groups
 * differ are told. Calls with handles are started by themselves.
 *
 * Everything grows to what the largest group needed and is kept by the communicator. */
#include "collectives/comm.h"

#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACK_CALL_BYTES 4096u        /* a longer all-reduce gains nothing from company */
#define PACK_BYTES      (64u * 1024) /* of one pack */
#define WINDOW          32u          /* operations of a group in flight */

struct gyre_group_call {
    struct gyre_shape shape;
    const void *input;
    void *output;
    struct gyre_work *work;           /* handle of a started one; NULL: the group waits */
    void *buffer;                     /* of a scaled input, or of tables; freed at the end */
    const struct gyre_vector *vector; /* in the buffer; NULL: it is what the shape says */
    const uint8_t *pack;              /* it was taken into, NULL: none */
    bool packed;
};

/* An operation of the group that is under way: one call, or a pack of `calls` in `pack`. */
struct flight {
    struct gyre_operation *op;
    uint8_t *pack; /* NULL: none */
    uint32_t first;
};

struct run {
    struct gyre_comm *comm;
    struct flight flight[WINDOW];
    uint64_t begun, ended;
    uint64_t pack_used;
    int status; /* the first failure */
};

static uint64_t bytes_of(const struct gyre_shape *shape)
{
    return shape->count * gyre_type_size(shape->type);
}

/* -- collecting -------------------------------------------------------------------------------- */

static void *more(void *table, uint32_t used, uint32_t *room, size_t size)
{
    if (used < *room)
        return table;
    uint32_t wanted = *room ? 2 * *room : 64;
    void *grown = realloc(table, wanted * size);
    if (grown)
        *room = wanted;
    return grown;
}

static int no_memory(struct gyre_group *group)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    *trouble = (struct gyre_trouble){0};
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for a group of %u calls", group->calls);
}

static int add(struct gyre_comm *comm, const struct gyre_group_call *call, struct gyre_work **out)
{
    struct gyre_group *group = &comm->group;
    struct gyre_work *work = out ? gyre_comm_new_work(comm) : NULL;
    if (out && !work)
        return GYRE_INVALID;
    void *grown = more(group->call, group->calls, &group->call_room, sizeof(*group->call));
    if (!grown) {
        if (work)
            work->used = false;
        return no_memory(group);
    }
    group->call = grown;
    group->call[group->calls] = *call;
    group->call[group->calls++].work = work;
    if (work) {
        work->deferred = true;
        *out = work;
    }
    return 0;
}

/* A table of the caller's, copied to *room; NULL stays NULL. */
static const uint64_t *keep(const uint64_t *table, uint32_t n, uint64_t **room)
{
    uint64_t *kept = *room;
    if (!table)
        return NULL;
    *room += n;
    return memcpy(kept, table, n * sizeof(*table));
}

int gyre_group_add(struct gyre_comm *comm, const struct gyre_shape *shape, const void *input,
                   void *output, void *buffer, struct gyre_work **out)
{
    struct gyre_group_call call = {
        .shape = *shape, .input = input, .output = output, .buffer = buffer};
    if (shape->blocks.count) {
        uint64_t *room = call.buffer = malloc(2 * comm->n * sizeof(*room));
        if (!room)
            return no_memory(&comm->group);
        call.shape.blocks.count = keep(shape->blocks.count, comm->n, &room);
        call.shape.blocks.at = keep(shape->blocks.at, comm->n, &room);
    }
    int status = add(comm, &call, out);
    if (status)
        free(call.buffer);
    return status;
}

int gyre_group_add_vector(struct gyre_comm *comm, const struct gyre_vector *vector,
                          struct gyre_work **out)
{
    struct gyre_vector *kept = malloc(sizeof(*kept) + 4 * comm->n * sizeof(uint64_t));
    struct gyre_group_call call = {
        .shape.verb = GYRE_VERB_ALL_TO_ALL, .buffer = kept, .vector = kept};
    if (!kept)
        return no_memory(&comm->group);
    uint64_t *room = (uint64_t *)(kept + 1);
    *kept = *vector;
    kept->out.count = keep(vector->out.count, comm->n, &room);
    kept->out.at = keep(vector->out.at, comm->n, &room);
    kept->in.count = keep(vector->in.count, comm->n, &room);
    kept->in.at = keep(vector->in.at, comm->n, &room);
    int status = add(comm, &call, out);
    if (status)
        free(kept);
    return status;
}

int gyre_group_add_message(struct gyre_comm *comm, struct gyre_message *message)
{
    struct gyre_group *group = &comm->group;
    void *grown =
        more(group->message, group->messages, &group->message_room, sizeof(*group->message));
    if (!grown)
        return no_memory(group);
    group->message = grown;
    group->message[group->messages++] = message;
    return 0;
}

void gyre_group_deinit(struct gyre_group *group)
{
    free(group->call);
    free(group->message);
    free(group->pack);
}

/* -- packs ------------------------------------------------------------------------------------- */

static bool packs(const struct gyre_group_call *call)
{
    const struct gyre_shape *shape = &call->shape;
    return shape->verb == GYRE_VERB_ALL_REDUCE && !shape->barrier && !call->work && !call->packed &&
           !shape->fold && bytes_of(shape) <= PACK_CALL_BYTES;
}

static bool goes_with(const struct gyre_group_call *call, const struct gyre_group_call *first,
                      uint64_t bytes)
{
    return packs(call) && call->shape.type == first->shape.type &&
           call->shape.op == first->shape.op && bytes + bytes_of(&call->shape) <= PACK_BYTES;
}

/* The shape of the pack that begins with call `first`: as many calls of its kind as fit. Marks them
 * and copies their inputs; count 0: it stays alone. */
static struct gyre_shape fill_pack(struct gyre_group *group, uint32_t first, uint8_t *pack)
{
    struct gyre_group_call *call = group->call;
    struct gyre_shape shape = call[first].shape;
    uint64_t bytes = 0, calls = 0;
    shape.count = 0;
    for (uint32_t i = first; i < group->calls; i++) {
        if (!goes_with(&call[i], &call[first], bytes))
            continue;
        if (bytes_of(&call[i].shape))
            memcpy(pack + bytes, call[i].input, bytes_of(&call[i].shape));
        bytes += bytes_of(&call[i].shape);
        shape.count += call[i].shape.count;
        shape.pattern = gyre_mix64(shape.pattern + call[i].shape.count + 1);
        calls++;
    }
    return calls > 1 ? shape : (struct gyre_shape){0};
}

/* Walks the same calls again: marks them as taken, or hands out their sums. */
static void walk_pack(struct gyre_group *group, uint32_t first, const uint8_t *pack, bool unpack)
{
    struct gyre_group_call *call = group->call;
    const struct gyre_group_call leader = call[first];
    uint64_t bytes = 0;
    for (uint32_t i = first; i < group->calls; i++) {
        bool mine = unpack ? call[i].pack == pack : goes_with(&call[i], &leader, bytes);
        if (!mine)
            continue;
        if (unpack && bytes_of(&call[i].shape))
            memcpy(call[i].output, pack + bytes, bytes_of(&call[i].shape));
        call[i].packed = true;
        call[i].pack = pack;
        bytes += bytes_of(&call[i].shape);
    }
}

/* Room for all packs of the group: their bytes together. */
static int fit_packs(struct gyre_group *group)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < group->calls; i++)
        if (packs(&group->call[i]))
            bytes += bytes_of(&group->call[i].shape);
    bytes += PACK_CALL_BYTES; /* a call that stays alone was tried here too */
    if (bytes <= group->pack_room)
        return 0;
    free(group->pack);
    group->pack = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
    group->pack_room = group->pack ? bytes : 0;
    return group->pack ? 0 : no_memory(group);
}

/* -- starting and ending ----------------------------------------------------------------------- */

static void note(struct run *run, int status)
{
    if (status && !run->status)
        run->status = status;
}

static void end_oldest(struct run *run)
{
    struct flight *flight = &run->flight[run->ended++ % WINDOW];
    int status = gyre_comm_drive(run->comm, flight->op);
    gyre_engine_release(run->comm->engine, flight->op);
    if (!status && flight->pack)
        walk_pack(&run->comm->group, flight->first, flight->pack, true);
    note(run, status);
}

/* What the call was given in a buffer is the handle's from here on. */
static void start_handle(struct gyre_group_call *call, int status, struct gyre_operation *op)
{
    struct gyre_work *work = call->work;
    work->op = status ? NULL : op;
    work->status = status;
    work->buffer = call->buffer;
    work->deferred = false;
    call->buffer = NULL;
}

static void start_one(struct run *run, uint32_t first, const struct gyre_shape *shape,
                      const void *input, void *output, uint8_t *pack)
{
    struct gyre_group_call *call = &run->comm->group.call[first];
    struct gyre_operation *op = NULL;
    if (run->begun - run->ended == WINDOW)
        end_oldest(run);
    int status = call->vector ? gyre_vector_start(run->comm, call->vector, &op)
                              : gyre_comm_start(run->comm, shape, input, output, &op);
    if (call->work) {
        start_handle(call, status, op);
    } else if (!status) {
        run->flight[run->begun++ % WINDOW] = (struct flight){op, pack, first};
    }
    note(run, status);
}

static void start_all(struct run *run)
{
    struct gyre_group *group = &run->comm->group;
    for (uint32_t i = 0; i < group->calls; i++) {
        struct gyre_group_call *call = &group->call[i];
        uint8_t *pack = group->pack + run->pack_used;
        struct gyre_shape together = {0};
        if (call->packed)
            continue;
        if (packs(call))
            together = fill_pack(group, i, pack);
        if (together.count) {
            walk_pack(group, i, pack, false);
            run->pack_used += bytes_of(&together);
            start_one(run, i, &together, pack, pack, pack);
        } else {
            start_one(run, i, &call->shape, call->input, call->output, NULL);
        }
    }
}

static void end_messages(struct run *run)
{
    struct gyre_group *group = &run->comm->group;
    for (uint32_t i = 0; i < group->messages; i++)
        note(run, gyre_message_end(run->comm, group->message[i]));
}

static int run_group(struct gyre_comm *comm)
{
    struct run run = {.comm = comm};
    struct gyre_group *group = &comm->group;
    int status = fit_packs(group);
    if (status)
        return status;
    gyre_domain_enter(comm->domain);
    start_all(&run);
    while (run.ended < run.begun)
        end_oldest(&run);
    gyre_domain_ring(comm->domain); /* messages may be out, and over, already */
    end_messages(&run);
    bool more_to_do = gyre_hub_pending(comm->hub);
    gyre_domain_leave(comm->domain);
    if (more_to_do)
        gyre_helper_poke(comm->hub);
    return run.status;
}

static int run_call_alone(struct gyre_comm *comm, const struct gyre_group_call *call)
{
    if (!call->vector)
        return gyre_comm_run(comm, &call->shape, call->input, call->output);
    gyre_vector_copy_own(comm, call->vector);
    return 0;
}

static int run_group_alone(struct gyre_comm *comm)
{
    struct run run = {.comm = comm};
    struct gyre_group *group = &comm->group;
    for (uint32_t i = 0; i < group->calls; i++) {
        struct gyre_group_call *call = &group->call[i];
        int status = run_call_alone(comm, call);
        if (call->work)
            start_handle(call, status, NULL);
        note(&run, status);
    }
    end_messages(&run);
    return run.status;
}

/* -- the calls --------------------------------------------------------------------------------- */

int gyre_group_start(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_start");
    if (!status)
        comm->group.depth++;
    return status;
}

int gyre_group_end(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_end");
    if (status)
        return status;
    struct gyre_group *group = &comm->group;
    if (group->depth == 0)
        return gyre_refuse("gyre_group_end: no group is open on this communicator");
    if (--group->depth > 0)
        return 0;
    status = comm->n == 1 ? run_group_alone(comm) : run_group(comm);
    for (uint32_t i = 0; i < group->calls; i++)
        free(group->call[i].buffer);
    group->calls = group->messages = 0;
    return status;
}

int gyre_group_left_open(struct gyre_comm *comm)
{
    const struct gyre_group *group = &comm->group;
    if (group->depth == 0)
        return 0;
    int status =
        gyre_refuse("rank %u ends a communicator with a group open: gyre_group_end() was not "
                    "called for %u operations and %u messages",
                    gyre_domain_joined(comm->domain)->rank, group->calls, group->messages);
    if (gyre_domain_watch(comm->domain) && group->calls + group->messages)
        gyre_watch_report(gyre_domain_watch(comm->domain), status,
                          gyre_domain_joined(comm->domain)->rank, false,
                          gyre_thread_trouble()->text);
    return status;
}
