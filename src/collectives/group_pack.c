/* Packs: small all-reduces of a group, of one type and reduction, that go as one.
 *
 *      call 0   [ a a ]        ─┐                            ┌─▶ output 0
 *      call 1   (longer)        ├─▶ [ a a | c c c | d ] ─────┼─▶ output 2
 *      call 2   [ c c c ]      ─┤      one all-reduce        └─▶ output 3, when its handle is
 *      call 3   [ d ], handle  ─┘                                waited for
 *
 * They share every round of every message. The pattern of the pack is part of its fingerprint, so
 * ranks whose groups differ are told. A pack is held by the group and by every handle in it until
 * they have taken their sums; the last one ends the operation too. */
#include "collectives/group_parts.h"

#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>

#define CALL_BYTES_MAX 4096u /* a longer all-reduce gains nothing from company */

bool gyre_pack_suits(const struct gyre_group_call *call)
{
    const struct gyre_shape *shape = &call->shape;
    return shape->verb == GYRE_VERB_ALL_REDUCE && !shape->barrier && !call->pack && !shape->fold &&
           gyre_group_call_bytes(call) <= CALL_BYTES_MAX;
}

static bool goes_with(const struct gyre_group_call *call, const struct gyre_group_call *first,
                      uint64_t bytes)
{
    return gyre_pack_suits(call) && call->shape.type == first->shape.type &&
           call->shape.op == first->shape.op &&
           bytes + gyre_group_call_bytes(call) <= GYRE_PACK_BYTES;
}

static struct gyre_pack *free_pack(struct gyre_group *group)
{
    struct gyre_pack *pack = group->pack;
    while (pack && pack->holders)
        pack = pack->next;
    if (pack || !(pack = aligned_alloc(_Alignof(struct gyre_pack), sizeof(*pack))))
        return pack;
    pack->next = group->pack;
    pack->holders = 0;
    return group->pack = pack;
}

/* Takes call `first` and as many of its kind as fit; what they are together. One call of its kind
 * stays alone: false. */
static bool fill_pack(struct gyre_comm *comm, uint32_t first, struct gyre_pack *pack,
                      struct gyre_shape *shape)
{
    struct gyre_group *group = &comm->group;
    uint64_t bytes = 0;
    uint32_t calls = 0;
    *shape = group->call[first].shape;
    shape->count = 0;
    for (uint32_t i = first; i < group->calls; i++) {
        struct gyre_group_call *call = &group->call[i];
        if (!goes_with(call, &group->call[first], bytes))
            continue;
        call->pack = pack;
        call->leader = first;
        call->sums = pack->bytes + bytes;
        if (gyre_group_call_bytes(call))
            gyre_carrier_copy_now(&comm->hub->carrier, pack->bytes + bytes, call->input,
                                  gyre_group_call_bytes(call));
        bytes += gyre_group_call_bytes(call);
        shape->count += call->shape.count;
        shape->pattern = gyre_mix64(shape->pattern + call->shape.count + 1);
        calls++;
    }
    if (calls == 1)
        group->call[first].pack = NULL;
    return calls > 1;
}

int gyre_pack_make(struct gyre_comm *comm, uint32_t first, struct gyre_pack **pack,
                   struct gyre_shape *shape)
{
    struct gyre_group *group = &comm->group;
    *pack = NULL;
    if (!gyre_pack_suits(&group->call[first]))
        return 0;
    struct gyre_pack *room = free_pack(group);
    if (!room)
        return -ENOMEM;
    if (fill_pack(comm, first, room, shape))
        *pack = room;
    return 0;
}

/* A pack may be another's by now, its leader is its own. */
bool gyre_pack_has(const struct gyre_group *group, uint32_t first, uint32_t call)
{
    return call == first || (group->call[call].pack && group->call[call].leader == first);
}

/* Whoever holds it last ends the operation too. */
static void leave_pack(struct gyre_comm *comm, struct gyre_pack *pack, struct gyre_operation *op)
{
    if (--pack->holders == 0)
        gyre_engine_release(comm->engine, op);
}

void gyre_group_settle(struct gyre_started *started, int status)
{
    if (!status && started->bytes)
        gyre_carrier_copy_now(&started->comm->hub->carrier, started->output, started->sums,
                              started->bytes);
    leave_pack(started->comm, started->pack, started->op);
}

void gyre_pack_empty(struct gyre_comm *comm, struct gyre_pack *pack, struct gyre_operation *op,
                     uint32_t first, int status)
{
    const struct gyre_group *group = &comm->group;
    for (uint32_t i = first; !status && i < group->calls; i++) {
        const struct gyre_group_call *call = &group->call[i];
        if (gyre_pack_has(group, first, i) && !call->started && gyre_group_call_bytes(call))
            gyre_carrier_copy_now(&comm->hub->carrier, call->output, call->sums,
                                  gyre_group_call_bytes(call));
    }
    leave_pack(comm, pack, op);
}
