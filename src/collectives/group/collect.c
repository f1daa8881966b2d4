/* Collects calls of a group until its end. Tested by tests/program/collectives/group.c. */
#include "collectives/group/collect.h"

#include "collectives/group/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    group->lost = -ENOMEM;
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
    int status = out ? gyre_work_new(&comm->work, &started) : 0;
    if (status)
        return group->lost = status;
    group->call[group->calls] = *call;
    group->call[group->calls++].started = started;
    if (started) {
        started->deferred = true;
        *out = started->handle;
    }
    return 0;
}

/* Copies a table of the caller's to *room; NULL stays NULL. */
static const uint64_t *keep_table(const uint64_t *table, uint32_t n, uint64_t **room)
{
    uint64_t *kept = *room;
    if (!table)
        return NULL;
    *room += n;
    return memcpy(kept, table, n * sizeof(*table));
}

int gyre_group_add(struct gyre_comm *comm, const struct gyre_request *request, void *buffer,
                   struct gyre_work **out)
{
    const struct gyre_blocks *blocks = &request->shape.blocks;
    struct gyre_group_call call = {.request = *request, .buffer = buffer};
    if (blocks->count) {
        uint64_t *room = call.buffer = malloc(2 * comm->n * sizeof(*room));
        if (!room)
            return gyre_group_no_memory(&comm->group);
        call.request.shape.blocks.count = keep_table(blocks->count, comm->n, &room);
        call.request.shape.blocks.at = keep_table(blocks->at, comm->n, &room);
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
        .request.shape.verb = GYRE_VERB_ALL_TO_ALL, .buffer = kept, .v_call = kept};
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
