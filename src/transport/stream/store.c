/* The store, in blocks of 64 bytes. Messages leave the store in any order, so a ring would fragment
 * and a heap would have to search; blocks do neither. A message of L bytes holds ⌈L/64⌉ blocks and
 * was charged L + 64 bytes, which is never less. So a block is free as long as the charges sum to
 * at most the store.
 *
 *      parcel ─▶ [64]─▶[64]─▶[ 9 ]          free ─▶[64]─▶[64]        fresh ─▶ untouched …
 *
 * Tested by tests/unit/transport/stream/stream_test.c. */
#include "transport/stream/store.h"

#include <assert.h>
#include <string.h>

#define NO_BLOCK UINT16_MAX

size_t gyre_unexpected_bytes(uint32_t bytes)
{
    return bytes / GYRE_STORE_BLOCK * (GYRE_STORE_BLOCK + sizeof(uint16_t));
}

void gyre_unexpected_init(struct gyre_unexpected *store, void *memory, uint32_t bytes)
{
    uint16_t blocks = (uint16_t)(bytes / GYRE_STORE_BLOCK);
    *store = (struct gyre_unexpected){.next = memory,
                                      .free = NO_BLOCK,
                                      .blocks = blocks,
                                      .block = (void *)((uint16_t *)memory + blocks)};
}

static uint16_t take_block(struct gyre_unexpected *store)
{
    uint16_t block = store->free;
    if (block != NO_BLOCK) {
        store->free = store->next[block];
        return block;
    }
    assert(store->fresh < store->blocks && "credit bounds what is stored");
    return store->fresh++;
}

static void add_block(struct gyre_unexpected *store, struct gyre_parcel *parcel)
{
    uint16_t block = take_block(store);
    if (parcel->length == 0) {
        parcel->first = block;
    } else {
        store->next[parcel->last] = block;
    }
    parcel->last = block;
}

void gyre_unexpected_append(struct gyre_unexpected *store, struct gyre_parcel *parcel,
                            const void *bytes, uint32_t length)
{
    const uint8_t *from = bytes;
    while (length > 0) {
        uint32_t at = parcel->length % GYRE_STORE_BLOCK;
        if (at == 0) {
            add_block(store, parcel);
        }
        uint32_t part = GYRE_STORE_BLOCK - at < length ? GYRE_STORE_BLOCK - at : length;
        memcpy(&store->block[parcel->last][at], from, part);
        parcel->length += part;
        from += part;
        length -= part;
    }
}

void gyre_unexpected_take(struct gyre_unexpected *store, struct gyre_parcel *parcel, void *out)
{
    uint8_t *to = out;
    uint16_t block = parcel->first;
    while (parcel->length > 0) {
        uint32_t part = parcel->length < GYRE_STORE_BLOCK ? parcel->length : GYRE_STORE_BLOCK;
        memcpy(to, store->block[block], part);
        to += part;
        parcel->length -= part;
        uint16_t next = store->next[block];
        store->next[block] = store->free;
        store->free = block;
        block = next;
    }
}
