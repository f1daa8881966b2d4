/* Long messages, written by the device from where they lie to where they belong.
 *
 *     recv  in memory of gyre_alloc() ─▶ registered once ─▶ PLACE: address and key
 *     send  in memory of gyre_alloc() ─▶ WRITE, WRITE, … WRITE with immediate: "number n has come"
 *
 * Only memory whose life the library knows is registered, a region at a time, when a message lies
 * in it first; what the program frees behind the library's back could not be known to be stale. A
 * registration is kept until its region is gone and its place is needed, or the wire closes. Where
 * the device, or the limit of locked memory, refuses one, messages in that region take the rings.
 *
 * The order in which the parts of a message become visible does not matter, so the device may
 * choose it: the immediate's completion comes when all of them are there. Half of the send queue is
 * left to records, so that a short message waits for a part of a long one, not for all of it. Each
 * part is answered, so parts are long against what is lost by that. */
#include "transport/drivers/verbs.h"

#include "base/log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#define PART (128u * 1024) /* of a message, in one request */

/* -- registered memory ------------------------------------------------------------------------- */

static bool is_gone(const struct gyre_verbs_wire *wire, const struct gyre_verbs_memory *memory)
{
    void *base;
    uint64_t length;
    return wire->sight->hold(wire->sight->context, memory->base, 1, &base, &length) != memory->id;
}

static void release(struct gyre_verbs_memory *memory)
{
    if (memory->registration)
        ibv_dereg_mr(memory->registration);
    *memory = (struct gyre_verbs_memory){.id = 0};
}

static struct gyre_verbs_memory *free_place(struct gyre_verbs_wire *wire)
{
    struct gyre_verbs_memory *place = NULL;
    for (uint32_t i = 0; i < GYRE_VERBS_REGIONS; i++) {
        if (wire->memory[i].id && is_gone(wire, &wire->memory[i]))
            release(&wire->memory[i]);
        if (!wire->memory[i].id)
            place = &wire->memory[i];
    }
    return place;
}

static void register_region(struct gyre_verbs_wire *wire, struct gyre_verbs_memory *memory)
{
    char hint[160];
    memory->registration =
        ibv_reg_mr(wire->domain, memory->base, memory->length,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    if (memory->registration || wire->refused_memory)
        return;
    wire->refused_memory = true;
    gyre_log(GYRE_LOG_WARN,
             "verbs: %s does not register %llu KiB of gyre_alloc() memory (%s), so messages are "
             "copied on their way: %s",
             wire->name, (unsigned long long)memory->length / 1024, strerror(errno),
             gyre_verbs_memory_hint(hint));
}

static struct gyre_verbs_memory *known_place(struct gyre_verbs_wire *wire, uint32_t id)
{
    if (wire->recent && wire->recent->id == id)
        return wire->recent;
    for (uint32_t i = 0; i < GYRE_VERBS_REGIONS; i++)
        if (wire->memory[i].id == id)
            return &wire->memory[i];
    return NULL;
}

/* The registration that holds the span; NULL: none can. */
static struct ibv_mr *registration_of(struct gyre_verbs_wire *wire, const void *memory,
                                      uint64_t length)
{
    struct gyre_verbs_memory found = {.id = 0};
    if (wire->sight && wire->sight->hold)
        found.id =
            wire->sight->hold(wire->sight->context, memory, length, &found.base, &found.length);
    struct gyre_verbs_memory *place = found.id ? known_place(wire, found.id) : NULL;
    if (!place && found.id && (place = free_place(wire))) {
        register_region(wire, &found);
        *place = found;
    }
    wire->recent = place ? place : wire->recent;
    return place ? place->registration : NULL;
}

void gyre_verbs_reach_close(struct gyre_verbs_wire *wire)
{
    for (uint32_t i = 0; i < GYRE_VERBS_REGIONS; i++)
        release(&wire->memory[i]);
}

/* -- for the stream ---------------------------------------------------------------------------- */

static bool expose(void *wire, void *memory, uint64_t length, struct gyre_reach_place *place)
{
    const struct ibv_mr *registration = registration_of(wire, memory, length);
    if (registration)
        *place = (struct gyre_reach_place){.address = (uintptr_t)memory, .key = registration->rkey};
    return registration;
}

static bool covers(void *wire, const void *memory, uint64_t length)
{
    return registration_of(wire, memory, length);
}

void gyre_verbs_reach_open(struct gyre_verbs_wire *wire, const struct gyre_sight *sight)
{
    wire->sight = sight;
    wire->reach = (struct gyre_reach){
        .context = wire, .most = GYRE_VERBS_PLACES, .expose = expose, .covers = covers};
}

/* -- writing ----------------------------------------------------------------------------------- */

static bool begin(struct gyre_verbs_pipe *pipe)
{
    if (pipe->writing)
        return true;
    if (!gyre_stream_take_write(pipe->stream, &pipe->write))
        return false;
    const struct ibv_mr *registration =
        registration_of(pipe->wire, pipe->write.from, pipe->write.length);
    if (!registration) {
        gyre_verbs_fail(pipe, -EFAULT, "memory of a message was freed while it was sent");
        return false;
    }
    pipe->writing = true;
    pipe->write_at = 0;
    pipe->write_key = registration->lkey;
    return true;
}

static void write_part(struct gyre_verbs_pipe *pipe)
{
    const struct gyre_stream_write *write = &pipe->write;
    uint64_t left = write->length - pipe->write_at;
    bool last = left <= PART;
    struct gyre_verbs_request request = {.from = write->from + pipe->write_at,
                                         .key = pipe->write_key,
                                         .length = last ? (uint32_t)left : PART,
                                         .to = write->place.address + pipe->write_at,
                                         .to_key = write->place.key,
                                         .tells = last,
                                         .kind = GYRE_VERBS_ARRIVED,
                                         .word = write->number,
                                         .ends = last ? write->send : NULL};
    pipe->write_at += request.length;
    pipe->wire->moved += request.length;
    pipe->writing = !last;
    gyre_verbs_queue_put(pipe, &request);
}

bool gyre_verbs_reach_push(struct gyre_verbs_pipe *pipe)
{
    bool moved = false;
    while (!pipe->status && gyre_verbs_queue_room(pipe) > GYRE_VERBS_SENDS / 2 && begin(pipe)) {
        write_part(pipe);
        moved = true;
    }
    return moved;
}
