/* The memory of a pack: small calls of a group that travel as one operation
 * (collectives/group/pack.c). The group and every handle in it hold a pack until they have taken
 * their results; the last holder also ends the operation. All calls: owner. */
#ifndef GYRE_COLLECTIVES_COMM_PACK_MEMORY_H
#define GYRE_COLLECTIVES_COMM_PACK_MEMORY_H

#include "collectives/comm/handles.h"
#include "collectives/plan/request.h"

struct gyre_engine;
struct gyre_fold_queue;

struct gyre_pack {
    struct gyre_pack *next;
    uint32_t holders;     /* the group and handles; 0: free */
    uint64_t room, pitch; /* bytes of its memory; from block to block */
    uint8_t *bytes, *input, *output;
};

/* Takes a free pack, or makes one; *first is the group's list. NULL: no memory. */
struct gyre_pack *gyre_pack_take(struct gyre_pack **first);

/* Copies the blocks of a call, which follow each other in its input, into the pack. */
void gyre_pack_put_in(struct gyre_fold_queue *fold_queue, uint8_t *to, uint64_t pitch,
                      const struct gyre_request_buffer *input, uint64_t block);

/* Copies a call's result out of the pack. */
void gyre_pack_take_out(struct gyre_fold_queue *fold_queue, const struct gyre_pack_share *share);

/* Ends one hold of the pack that travels as `op`. */
void gyre_pack_leave(struct gyre_pack *pack, struct gyre_engine *engine, struct gyre_operation *op);

/* Frees all packs of a group. */
void gyre_packs_free(struct gyre_pack *first);

#endif
