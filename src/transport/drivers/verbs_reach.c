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
 * part is answered, so parts are long against what is lost by that.
 *
 * Where a pipe has several queue pairs the parts go over them in turn, so that the last one is the
 * first pair's, and the last of each is an immediate:
 *
 *     first    │   │ 1 │   │   │ 4 │ number n has come
 *     second   │ 0 │   │   │ 3 │       its share of n has
 *     third    │   │   │ 2 │           its share of n has
 *
 * Which pairs have a share follows from the length, so both ends know how many to wait for, and as
 * each pair keeps its order a count of shares is enough. */
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

static void unregister(struct gyre_verbs_memory *memory)
{
    for (int i = 0; i < GYRE_VERBS_QUEUES; i++) {
        if (memory->registration[i])
            ibv_dereg_mr(memory->registration[i]);
        memory->registration[i] = NULL;
    }
}

static void release(struct gyre_verbs_memory *memory)
{
    unregister(memory);
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

static bool register_with(const struct gyre_verbs_card *card,
                          const struct gyre_verbs_memory *memory, struct ibv_mr **registration)
{
    if (card->context)
        *registration = ibv_reg_mr(card->domain, memory->base, memory->length,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_RELAXED_ORDERING);
    return !card->context || *registration;
}

/* With each card, or with none. */
static void register_region(struct gyre_verbs_wire *wire, struct gyre_verbs_memory *memory)
{
    char hint[160];
    uint32_t done = 0;
    while (done < wire->cards &&
           register_with(&wire->card[done], memory, &memory->registration[done]))
        done++;
    if (done == wire->cards)
        return;
    const char *reason = strerror(errno);
    unregister(memory);
    if (!wire->refused_memory)
        gyre_log(GYRE_LOG_WARN,
                 "verbs: %s does not register %llu KiB of gyre_alloc() memory (%s), so messages "
                 "are copied on their way: %s",
                 wire->card[done].name, (unsigned long long)memory->length / 1024, reason,
                 gyre_verbs_memory_hint(hint));
    wire->refused_memory = true;
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

/* What is registered and holds the span; NULL: nothing can. */
static const struct gyre_verbs_memory *registered(struct gyre_verbs_wire *wire, const void *memory,
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
    return place && place->registration[0] ? place : NULL;
}

void gyre_verbs_reach_close(struct gyre_verbs_wire *wire)
{
    for (uint32_t i = 0; i < GYRE_VERBS_REGIONS; i++)
        release(&wire->memory[i]);
}

/* -- for the stream ---------------------------------------------------------------------------- */

/* As the card of the queue pair of this number knows it; NULL: that is left out. */
static const struct ibv_mr *registration_of(const struct gyre_verbs_wire *wire,
                                            const struct gyre_verbs_memory *memory, uint32_t queue)
{
    return memory->registration[queue % wire->cards];
}

static bool expose(void *context, void *memory, uint64_t length, struct gyre_reach_place *place)
{
    struct gyre_verbs_wire *wire = context;
    const struct gyre_verbs_memory *found = registered(wire, memory, length);
    if (!found)
        return false;
    *place = (struct gyre_reach_place){.address = (uintptr_t)memory};
    for (uint32_t i = 0; i < wire->queues; i++) {
        const struct ibv_mr *registration = registration_of(wire, found, i);
        place->key[i] = registration ? registration->rkey : 0;
    }
    return true;
}

static bool covers(void *wire, const void *memory, uint64_t length)
{
    return registered(wire, memory, length);
}

void gyre_verbs_reach_open(struct gyre_verbs_wire *wire, const struct gyre_sight *sight)
{
    wire->sight = sight;
    wire->reach = (struct gyre_reach){
        .context = wire, .most = GYRE_VERBS_PLACES, .expose = expose, .covers = covers};
}

/* -- shares ------------------------------------------------------------------------------------ */

static uint64_t parts_of(uint64_t length)
{
    return (length + PART - 1) / PART;
}

static uint32_t *count_of(struct gyre_verbs_queue *queue, bool out)
{
    return out ? &queue->shares_left : &queue->shares_come;
}

bool gyre_verbs_reach_is_whole(struct gyre_verbs_pipe *pipe, uint64_t length, bool out)
{
    uint64_t parts = parts_of(length);
    uint32_t shares = parts < pipe->ways ? (uint32_t)parts : pipe->ways;
    for (uint32_t i = 1; i < shares; i++)
        if (!*count_of(pipe->way[i], out))
            return false;
    for (uint32_t i = 1; i < shares; i++)
        --*count_of(pipe->way[i], out);
    return true;
}

/* -- writing ----------------------------------------------------------------------------------- */

static bool begin(struct gyre_verbs_pipe *pipe)
{
    if (pipe->writing)
        return true;
    if (!gyre_stream_take_write(pipe->stream, &pipe->write))
        return false;
    const struct gyre_verbs_memory *found =
        registered(pipe->wire, pipe->write.from, pipe->write.length);
    if (!found) {
        gyre_verbs_fail(pipe->queue, -EFAULT, "memory of a message was freed while it was sent");
        return false;
    }
    for (uint32_t i = 0; i < pipe->wire->queues; i++) {
        const struct ibv_mr *registration = registration_of(pipe->wire, found, i);
        pipe->write_key[i] = registration ? registration->lkey : 0;
    }
    pipe->writing = true;
    pipe->write_at = 0;
    return true;
}

static uint64_t parts_left(const struct gyre_verbs_pipe *pipe)
{
    return parts_of(pipe->write.length - pipe->write_at);
}

static struct gyre_verbs_queue *next_queue(const struct gyre_verbs_pipe *pipe)
{
    return pipe->way[(parts_left(pipe) - 1) % pipe->ways];
}

static void write_part(struct gyre_verbs_pipe *pipe)
{
    const struct gyre_stream_write *write = &pipe->write;
    struct gyre_verbs_queue *queue = next_queue(pipe);
    ptrdiff_t number = queue - pipe->queue;
    uint64_t left = write->length - pipe->write_at;
    bool last = parts_left(pipe) <= pipe->ways; /* here */
    struct gyre_verbs_request request = {.from = write->from + pipe->write_at,
                                         .key = pipe->write_key[number],
                                         .length = left < PART ? (uint32_t)left : PART,
                                         .to = write->place.address + pipe->write_at,
                                         .to_key = write->place.key[number],
                                         .tells = last,
                                         .kind = GYRE_VERBS_ARRIVED,
                                         .word = write->number,
                                         .ends = last ? write->send : NULL};
    pipe->write_at += request.length;
    pipe->wire->moved += request.length;
    pipe->writing = pipe->write_at < write->length;
    pipe->announced += !pipe->writing;
    gyre_verbs_queue_put(queue, &request);
}

bool gyre_verbs_reach_push(struct gyre_verbs_pipe *pipe)
{
    bool moved = false;
    while (!pipe->status && gyre_verbs_queue_room(pipe->queue) > GYRE_VERBS_SENDS / 2 &&
           begin(pipe) && gyre_verbs_queue_room(next_queue(pipe))) {
        write_part(pipe);
        moved = true;
    }
    return moved;
}
