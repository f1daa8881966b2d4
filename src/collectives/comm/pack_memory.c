/* The memory of packs: copies data in and results out. Tested by
 * tests/program/collectives/packs.c. */
#include "collectives/comm/pack_memory.h"

#include "base/copy.h"
#include "collectives/engine/engine.h"
#include "collectives/staging/fold_queue.h"

#include <stdlib.h>

struct gyre_pack *gyre_pack_take(struct gyre_pack **first)
{
    struct gyre_pack *pack = *first;
    while (pack && pack->holders)
        pack = pack->next;
    if (pack || !(pack = calloc(1, sizeof(*pack))))
        return pack;
    pack->next = *first;
    return *first = pack;
}

/* The distances between blocks of one call, on both sides, and the bytes of all blocks. */
struct strides {
    uint64_t block, to, from, bytes;
    bool on_device; /* the call's buffer is; a pack is the host's */
};

static void move_strided(struct gyre_fold_queue *fold_queue, uint8_t *to, const uint8_t *from,
                         const struct strides *strides)
{
    bool on_device = strides->on_device;
    uint64_t ticket = 0;
    if (!strides->bytes || (on_device && gyre_fold_queue_open(fold_queue, &fold_queue->trouble)))
        return;
    for (uint64_t moved = 0; moved < strides->bytes; moved += strides->block) {
        if (on_device)
            ticket = gyre_fold_queue_copy(fold_queue, to, from, strides->block);
        else
            gyre_copy(to, from, strides->block);
        to += strides->to;
        from += strides->from;
    }
    if (on_device)
        gyre_fold_queue_await(fold_queue, ticket);
}

void gyre_pack_put_in(struct gyre_fold_queue *fold_queue, uint8_t *to, uint64_t pitch,
                      const struct gyre_request_buffer *input, uint64_t block)
{
    struct strides strides = {block, pitch, block, input->bytes, gyre_request_on_device(input)};
    move_strided(fold_queue, to, input->address, &strides);
}

void gyre_pack_take_out(struct gyre_fold_queue *fold_queue, const struct gyre_pack_share *share)
{
    struct strides strides = {share->block, share->block, share->pitch, share->bytes,
                              share->on_device};
    move_strided(fold_queue, share->to, share->from, &strides);
}

void gyre_pack_leave(struct gyre_pack *pack, struct gyre_engine *engine, struct gyre_operation *op)
{
    if (--pack->holders == 0)
        gyre_engine_release(engine, op);
}

void gyre_packs_free(struct gyre_pack *first)
{
    for (struct gyre_pack *pack = first, *next; pack; pack = next) {
        next = pack->next;
        free(pack->bytes);
        free(pack);
    }
}
