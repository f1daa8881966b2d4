/* Groups of calls that are started together.
 *
 *   group_start   gyre_send ───────▶ started at once           group_end
 *                 all_reduce a ─┐                              starts what was collected, in order,
 *                 broadcast  b ─┼─▶ collected ───────────────▶ [a c packed] [b], and waits for all
 *                 all_reduce c ─┘
 *
 * Messages wait for nobody when they are started, so a group starts them at once; that is why all
 * ranks may send first. Operations are collected until the end, for small ones of a kind then go
 * together (pack.c).
 *
 * Everything grows to what the largest group needed and is kept by the communicator. */
#include "collectives/group/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

int gyre_group_no_memory(struct gyre_group *group)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    *trouble = (struct gyre_trouble){0};
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for a group of %u calls", group->calls);
}

static int add_call(struct gyre_comm *comm, const struct gyre_group_call *call,
                    struct gyre_work **out)
{
    struct gyre_group *group = &comm->group;
    struct gyre_started *started = NULL;
    void *grown = more(group->call, group->calls, &group->call_room, sizeof(*group->call));
    if (!grown)
        return gyre_group_no_memory(group);
    group->call = grown;
    int status = out ? gyre_work_new(comm, &started) : 0;
    if (status)
        return status;
    group->call[group->calls] = *call;
    group->call[group->calls++].started = started;
    if (started) {
        started->deferred = true;
        *out = started->handle;
    }
    return 0;
}

/* A table of the caller's, copied to *room; NULL stays NULL. */
static const uint64_t *keep_table(const uint64_t *table, uint32_t n, uint64_t **room)
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
            return gyre_group_no_memory(&comm->group);
        call.shape.blocks.count = keep_table(shape->blocks.count, comm->n, &room);
        call.shape.blocks.at = keep_table(shape->blocks.at, comm->n, &room);
    }
    int status = add_call(comm, &call, out);
    if (status)
        free(call.buffer);
    return status;
}

int gyre_group_add_all_to_all_v(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                                struct gyre_work **out)
{
    uint64_t aside = gyre_all_to_all_v_aside_bytes(comm, v_call);
    struct gyre_all_to_all_v_call *kept =
        malloc(sizeof(*kept) + 4 * comm->n * sizeof(uint64_t) + aside);
    struct gyre_group_call call = {
        .shape.verb = GYRE_VERB_ALL_TO_ALL, .buffer = kept, .v_call = kept};
    if (!kept)
        return gyre_group_no_memory(&comm->group);
    uint64_t *room = (uint64_t *)(kept + 1);
    *kept = *v_call;
    kept->out.count = keep_table(v_call->out.count, comm->n, &room);
    kept->out.at = keep_table(v_call->out.at, comm->n, &room);
    kept->in.count = keep_table(v_call->in.count, comm->n, &room);
    kept->in.at = keep_table(v_call->in.at, comm->n, &room);
    int status = aside ? gyre_all_to_all_v_step_aside(comm, kept, room) : 0;
    if (!status)
        status = add_call(comm, &call, out);
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
        return gyre_group_no_memory(group);
    group->message = grown;
    group->message[group->messages++] = message;
    return 0;
}

void gyre_group_deinit(struct gyre_group *group)
{
    free(group->room);
    free(group->call);
    free(group->message);
    for (struct gyre_pack *pack = group->pack, *next; pack; pack = next) {
        next = pack->next;
        free(pack->bytes);
        free(pack);
    }
}

/* -- starting and ending ----------------------------------------------------------------------- */

static void note_status(struct gyre_group_run *run, int status)
{
    if (status && !run->status)
        run->status = status;
}

static void end_oldest(struct gyre_group_run *run)
{
    struct gyre_flight *flight = &run->flight[run->ended++ % GYRE_GROUP_WINDOW];
    int status = gyre_comm_drive(run->comm, flight->op);
    if (flight->pack)
        gyre_pack_empty(run->comm, flight->pack, flight->op, flight->first, status);
    else
        gyre_engine_release(run->comm->engine, flight->op);
    note_status(run, status);
}

/* What the call was given in a buffer is the handle's from here on. */
static void start_handle(struct gyre_group_call *call, int status, struct gyre_operation *op)
{
    struct gyre_started *started = call->started;
    started->op = status ? NULL : op;
    started->status = status;
    started->buffer = call->buffer;
    started->deferred = false;
    call->buffer = NULL;
    if (status || !call->pack)
        return;
    started->pack = call->pack;
    started->share = call->share;
    call->pack->holders++;
}

/* Whoever waits for call `first`, or for those of its pack, is told of the operation. */
static void hand_out(struct gyre_group_run *run, uint32_t first, int status,
                     struct gyre_operation *op)
{
    struct gyre_group *group = &run->comm->group;
    struct gyre_pack *pack = group->call[first].pack;
    bool waits = false;
    for (uint32_t i = first; i < (pack ? group->calls : first + 1); i++) {
        struct gyre_group_call *call = &group->call[i];
        if (!gyre_pack_has(group, first, i))
            continue;
        if (call->started)
            start_handle(call, status, op);
        else
            waits = true;
    }
    if (waits && !status) {
        run->flight[run->begun++ % GYRE_GROUP_WINDOW] = (struct gyre_flight){op, pack, first};
        if (pack)
            pack->holders++;
    }
    note_status(run, status);
}

static void start_one(struct gyre_group_run *run, uint32_t first)
{
    struct gyre_group *group = &run->comm->group;
    const struct gyre_group_call *call = &group->call[first];
    struct gyre_operation *op = NULL;
    struct gyre_shape together;
    struct gyre_pack *pack;
    int status;
    if (run->begun - run->ended == GYRE_GROUP_WINDOW)
        end_oldest(run);
    if (gyre_pack_make(run->comm, first, &pack, &together))
        status = gyre_comm_refused(run->comm, gyre_group_no_memory(group));
    else if (pack)
        status = gyre_comm_start(run->comm, &together, pack->input, pack->output, &op);
    else if (call->v_call)
        status = gyre_all_to_all_v_begin(run->comm, call->v_call, &op);
    else
        status = gyre_comm_start(run->comm, &call->shape, call->input, call->output, &op);
    hand_out(run, first, status, op);
}

/* False when all are started. */
bool gyre_run_start_next(struct gyre_group_run *run)
{
    const struct gyre_group *group = &run->comm->group;
    while (run->next < group->calls && group->call[run->next].pack)
        run->next++;
    if (run->next == group->calls) {
        gyre_comm_refused_in_group(run->comm);
        return false;
    }
    start_one(run, run->next++);
    return true;
}

static void end_messages(struct gyre_group_run *run)
{
    struct gyre_group *group = &run->comm->group;
    for (uint32_t i = 0; i < group->messages; i++)
        note_status(run, gyre_message_end(run->comm, group->message[i]));
}

void gyre_group_leave(struct gyre_comm *comm)
{
    bool more_to_do = gyre_progress_pending(comm->progress);
    gyre_domain_leave(comm->domain);
    if (more_to_do)
        gyre_helper_poke(comm->progress);
}

/* Waits for what was started. Owner. */
void gyre_run_end(struct gyre_group_run *run)
{
    while (run->ended < run->begun)
        end_oldest(run);
    gyre_domain_ring(run->comm->domain); /* messages may be out, and over, already */
    gyre_p2p_look(run->comm, gyre_comm_looks(run->comm));
    end_messages(run);
}

/* Nothing is in flight, and what will be is written then. */
static void begin_comm(struct gyre_group_run *run, struct gyre_comm *comm)
{
    run->comm = comm;
    run->begun = run->ended = 0;
    run->next = 0;
    run->status = 0;
}

static int run_group(struct gyre_comm *comm)
{
    struct gyre_group_run run;
    begin_comm(&run, comm);
    gyre_domain_enter(comm->domain);
    while (gyre_run_start_next(&run))
        continue;
    gyre_run_end(&run);
    gyre_group_leave(comm);
    return run.status;
}

static int run_call_alone(struct gyre_comm *comm, const struct gyre_group_call *call)
{
    return call->v_call ? gyre_all_to_all_v_run_alone(comm, call->v_call)
                        : gyre_comm_run(comm, &call->shape, call->input, call->output);
}

static int run_group_alone(struct gyre_comm *comm)
{
    struct gyre_group_run run;
    struct gyre_group *group = &comm->group;
    begin_comm(&run, comm);
    for (uint32_t i = 0; i < group->calls; i++) {
        struct gyre_group_call *call = &group->call[i];
        int status = run_call_alone(comm, call);
        if (call->started)
            start_handle(call, status, NULL);
        note_status(&run, status);
    }
    end_messages(&run);
    return run.status;
}

int gyre_group_run(struct gyre_comm *comm)
{
    return comm->n == 1 ? run_group_alone(comm) : run_group(comm);
}

/* The calls are over. */
void gyre_group_empty(struct gyre_group *group)
{
    for (uint32_t i = 0; i < group->calls; i++)
        free(group->call[i].buffer);
    group->calls = group->messages = group->depth = 0;
    group->ended = false;
}

/* -- the calls --------------------------------------------------------------------------------- */

int gyre_group_start(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_start");
    if (status)
        return status;
    struct gyre_group *group = &comm->group;
    if (group->depth == 0 && comm->progress->local)
        status = gyre_group_list(comm);
    if (!status)
        group->depth += !group->ended;
    group->ended = false;
    return status;
}

int gyre_group_end(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_end");
    if (status)
        return status;
    struct gyre_group *group = &comm->group;
    if (group->depth == 0 || group->ended)
        return gyre_refuse("gyre_group_end: no group is open on this communicator");
    if (group->depth > 1) {
        group->depth--;
        return 0;
    }
    if (comm->progress->local)
        return gyre_group_end_with_others(comm);
    status = gyre_group_run(comm);
    gyre_group_empty(group);
    return status;
}

int gyre_group_left_open(struct gyre_comm *comm)
{
    const struct gyre_group *group = &comm->group;
    if (group->depth == 0)
        return 0;
    if (comm->progress->local)
        gyre_group_unlist(comm);
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
