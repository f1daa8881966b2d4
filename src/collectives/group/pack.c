/* Packs: small calls of a group, of one kind, that travel as one operation.
 *
 *      call 0   [ a a ]        ─┐                            ┌─▶ output 0
 *      call 1   (longer)        ├─▶ [ a a │ c c c │ d ] ─────┼─▶ output 2
 *      call 2   [ c c c ]      ─┤      one operation         └─▶ output 3, when its handle is
 *      call 3   [ d ], handle  ─┘                                waited for
 *
 * The calls of a pack share every round and every message. Where a buffer has n blocks, a block of
 * the pack is that block of all its calls:
 *
 *      call 0   [ a₀ │ a₁ │ a₂ ]   call 2   [ c₀ │ c₁ │ c₂ ]   ─▶   [ a₀ c₀ │ a₁ c₁ │ a₂ c₂ ]
 *
 * So every verb can be packed, and this file knows none by name. A pack runs in place, in the sense
 * of its operation, in one piece of memory: the longer of its buffers. Calls that only move data
 * may have different types, because the pack counts their bytes; calls that reduce have one type
 * and one reduction.
 *
 * Only what is equal on all ranks decides which calls travel together. A hash of the calls is in
 * the pattern, a part of the pack's fingerprint, so ranks whose groups differ are told.
 *
 * Tested by tests/program/collectives/packs.c. */
#include "collectives/group/inside.h"

#include "base/log.h"
#include "base/rng.h"
#include "base/types.h"
#include "collectives/comm/progress.h"
#include "collectives/kernels/reduce.h"
#include "transport/stream/signature.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* -- which go together ------------------------------------------------------------------------- */

/* The bytes of a block up to which a call gains by a pack. */
#define GAIN_MAPPED 4096u
#define GAIN_LINKS  8192u

static uint64_t call_block_bytes(const struct gyre_group_call *call)
{
    return call->request.shape.count * gyre_type_size(call->request.shape.type);
}

/* The number of blocks of the longest buffer of any rank. */
static uint32_t pack_blocks(const struct gyre_comm *comm, enum gyre_verb verb)
{
    return gyre_verb_has_blocks(verb) ? comm->n : 1;
}

/* The most bytes of a pack's block. Data that travel one way only are under way pack after pack, if
 * no peer has to grant them first. */
static uint64_t most_together(const struct gyre_comm *comm, enum gyre_verb verb)
{
    uint64_t most = GYRE_PACK_BYTES / pack_blocks(comm, verb);
    return gyre_verb_has_root(verb) && !comm->mesh && most > GYRE_PACK_UNASKED ? GYRE_PACK_UNASKED
                                                                               : most;
}

static bool suits(const struct gyre_comm *comm, const struct gyre_group_call *call)
{
    return !call->pack && !call->v_call && !call->request.shape.blocks.count &&
           call_block_bytes(call) <= (comm->mesh ? GAIN_MAPPED : GAIN_LINKS) &&
           call_block_bytes(call) <= most_together(comm, call->request.shape.verb);
}

/* Whether two shapes are of one kind. A reduction of the program's own is known by its handle. */
static bool same_kind(const struct gyre_shape *a, const struct gyre_shape *b)
{
    return a->verb == b->verb && a->root == b->root && a->barrier == b->barrier &&
           (!gyre_verb_reduces(a->verb) || (a->type == b->type && a->op == b->op));
}

/* Takes call `first` and as many of its kind as fit; *shape becomes that of all. Returns their
 * number. */
static uint32_t choose_calls(struct gyre_comm *comm, uint32_t first, struct gyre_pack *pack,
                             struct gyre_shape *shape)
{
    struct gyre_group *group = &comm->group;
    uint64_t bytes = 0, most = most_together(comm, group->call[first].request.shape.verb);
    *shape = group->call[first].request.shape;
    if (!gyre_verb_reduces(shape->verb))
        shape->type = GYRE_U8;
    for (uint32_t i = first; i < group->calls; i++) {
        struct gyre_group_call *call = &group->call[i];
        if (!suits(comm, call) ||
            !same_kind(&call->request.shape, &group->call[first].request.shape) ||
            bytes + call_block_bytes(call) > most)
            continue;
        call->pack = pack;
        call->leader = first;
        bytes += call_block_bytes(call);
        shape->pattern = gyre_mix64(shape->pattern + call->request.shape.count * GYRE_TYPE_COUNT +
                                    call->request.shape.type + 1);
        shape->calls++;
    }
    shape->count = bytes / gyre_type_size(shape->type);
    if (shape->fold && !shape->in_order) /* a scaled sum: by the kernel for so many */
        shape->fold = gyre_reduce_table_for(GYRE_MEMORY_HOST, bytes)->fold[shape->type][GYRE_SUM];
    return shape->calls;
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Finds room for the pack, and the places of this rank's buffers in it. */
static bool lay_out_pack(const struct gyre_comm *comm, struct gyre_pack *pack,
                         const struct gyre_shape *shape)
{
    bool gathers = gyre_verb_gathers(shape->verb), scatters = gyre_verb_scatters(shape->verb);
    uint64_t block = shape->count * gyre_type_size(shape->type);
    uint64_t bytes = pack_blocks(comm, shape->verb) * block;
    uint64_t apart = gyre_shape_displacement(shape, comm->rank);
    if (bytes > pack->room || !pack->bytes) {
        free(pack->bytes);
        pack->room = (bytes / GYRE_PACK_GRAIN + 1) * GYRE_PACK_GRAIN;
        pack->bytes = aligned_alloc(GYRE_PACK_GRAIN, pack->room);
        if (!pack->bytes)
            return false;
    }
    pack->pitch = block;
    pack->input = pack->bytes + (scatters ? 0 : apart);
    pack->output = pack->bytes + (gathers ? 0 : apart);
    return true;
}

/* -- bytes into the pack, and out of it -------------------------------------------------------- */

static void fill_pack(struct gyre_comm *comm, uint32_t first, struct gyre_pack *pack)
{
    struct gyre_group *group = &comm->group;
    uint64_t at = 0;
    for (uint32_t i = first; i < group->calls; i++) {
        struct gyre_group_call *call = &group->call[i];
        if (!gyre_pack_has(group, first, i))
            continue;
        gyre_pack_put_in(&comm->progress->fold_queue, pack->input + at, pack->pitch,
                         &call->request.input, call_block_bytes(call));
        call->share = (struct gyre_pack_share){
            .from = pack->output + at,
            .to = call->request.output.address,
            .block = call_block_bytes(call),
            .bytes = call->request.output.bytes,
            .pitch = pack->pitch,
            .on_device = gyre_request_on_device(&call->request.output),
        };
        at += call_block_bytes(call);
    }
}

/* -- a pack's life ----------------------------------------------------------------------------- */

int gyre_pack_make(struct gyre_comm *comm, uint32_t first, struct gyre_pack **out,
                   struct gyre_request *together)
{
    struct gyre_shape *shape = &together->shape;
    struct gyre_group_call *leader = &comm->group.call[first];
    *out = NULL;
    if (!suits(comm, leader))
        return 0;
    struct gyre_pack *pack = gyre_pack_take(&comm->group.pack);
    if (!pack)
        return -ENOMEM;
    if (choose_calls(comm, first, pack, shape) == 1) {
        leader->pack = NULL;
        return 0;
    }
    if (!lay_out_pack(comm, pack, shape))
        return -ENOMEM;
    fill_pack(comm, first, pack);
    together->input = (struct gyre_request_buffer){.address = pack->input};
    together->output = (struct gyre_request_buffer){.address = pack->output};
    *out = pack;
    return 0;
}

/* Whether a call is in the pack of `first`. A pack may be another's by now; the leader is the
 * call's own. */
bool gyre_pack_has(const struct gyre_group *group, uint32_t first, uint32_t call)
{
    return call == first || (group->call[call].pack && group->call[call].leader == first);
}

/* Logs the calls of a pack, as many as a line holds: another rank's group differs. The story names
 * the operation, and this line the calls on this rank. */
static void tell_calls(const struct gyre_comm *comm, uint32_t first, uint64_t sequence)
{
    const struct gyre_group *group = &comm->group;
    const struct gyre_shape *shape = &group->call[first].request.shape;
    char calls[400];
    size_t used = 0;
    for (uint32_t i = first; i < group->calls && used + 40 < sizeof(calls); i++)
        if (gyre_pack_has(group, first, i))
            used +=
                (size_t)snprintf(calls + used, sizeof(calls) - used, "%s%llu %s", used ? ", " : "",
                                 (unsigned long long)group->call[i].request.shape.count,
                                 gyre_type_name(group->call[i].request.shape.type));
    gyre_log(GYRE_LOG_WARN,
             "operation %llu of communicator %u is here a group of %s; elements of its calls: %s%s",
             (unsigned long long)sequence, comm->id,
             gyre_verb_name(shape->barrier ? GYRE_SIGNATURE_BARRIER : shape->verb), calls,
             used + 40 < sizeof(calls) ? "" : " ...");
}

void gyre_pack_empty(struct gyre_comm *comm, struct gyre_pack *pack, struct gyre_operation *op,
                     uint32_t first, int status)
{
    const struct gyre_group *group = &comm->group;
    if (status == GYRE_MISMATCH)
        tell_calls(comm, first, op->sequence);
    for (uint32_t i = first; !status && i < group->calls; i++)
        if (gyre_pack_has(group, first, i) && !group->call[i].started)
            gyre_pack_take_out(&comm->progress->fold_queue, &group->call[i].share);
    gyre_pack_leave(pack, comm->engine, op);
}
