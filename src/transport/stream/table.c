/* Records, buckets and a list of free records, all in one piece of memory given at init:
 *
 *      bucket[]   ┌──┬──┬──┬──┐        records[]  ┌────┬────┬────┬────┬───────────
 *                 │  │ ●│  │ ●│──────────────────▶│ A  │ B  │free│ C  │ untouched …
 *                 └──┴─┬┴──┴──┘                   └────┴────┴────┴────┴───────────
 *                      └──▶ B ─chain─▶ C                              ▲ fresh
 *
 * There are twice as many buckets as records, so a chain mostly has one record, and the first
 * record looked at is the one wanted. New records go to the end of their chain: among equal names
 * the oldest is found first.
 *
 * Tested by tests/unit/transport/stream/stream_test.c. */
#include "transport/stream/table.h"

#include <assert.h>
#include <string.h>

static uint32_t bucket_bits(uint32_t capacity)
{
    uint32_t bits = 1;
    while ((UINT64_C(1) << bits) < 2 * (uint64_t)capacity) {
        bits++;
    }
    return bits;
}

size_t gyre_table_bytes(uint32_t capacity, uint32_t stride)
{
    return (sizeof(struct gyre_slot *) << bucket_bits(capacity)) + (size_t)capacity * stride;
}

void gyre_table_init(struct gyre_table *table, void *memory, uint32_t capacity, uint32_t stride)
{
    uint32_t bits = bucket_bits(capacity);
    *table =
        (struct gyre_table){.bucket = memory,
                            .records = (uint8_t *)memory + (sizeof(struct gyre_slot *) << bits),
                            .stride = stride,
                            .capacity = capacity,
                            .shift = 64 - bits};
}

void *gyre_table_take(struct gyre_table *table, const struct gyre_match *match)
{
    struct gyre_slot *slot = table->free;
    if (slot) {
        table->free = slot->chain;
        memset(slot, 0, table->stride);
    } else if (table->fresh < table->capacity) {
        slot = (struct gyre_slot *)(table->records + (size_t)table->fresh++ * table->stride);
    } else {
        return NULL;
    }
    slot->match = *match;
    return slot;
}

void gyre_table_give(struct gyre_table *table, void *record)
{
    struct gyre_slot *slot = record;
    slot->chain = table->free;
    table->free = slot;
}

void gyre_table_insert(struct gyre_table *table, void *record)
{
    struct gyre_slot *slot = record;
    struct gyre_slot **end = gyre_table_bucket(table, &slot->match);
    while (*end) {
        end = &(*end)->chain;
    }
    slot->chain = NULL;
    *end = slot;
    table->found++;
}

void gyre_table_remove(struct gyre_table *table, void *record)
{
    struct gyre_slot *slot = record;
    struct gyre_slot **at = gyre_table_bucket(table, &slot->match);
    while (*at != slot) {
        assert(*at && "a record is removed from the hash it is in");
        at = &(*at)->chain;
    }
    *at = slot->chain;
    slot->chain = NULL;
    table->found--;
}

void *gyre_table_record(const struct gyre_table *table, uint32_t i)
{
    return i < table->fresh ? table->records + (size_t)i * table->stride : NULL;
}

void gyre_queue_push(struct gyre_queue *queue, void *record)
{
    struct gyre_slot *slot = record;
    slot->next = NULL;
    if (queue->head) {
        queue->tail->next = slot;
    } else {
        queue->head = slot;
    }
    queue->tail = slot;
}

void gyre_queue_unlink(struct gyre_queue *queue, void *record)
{
    struct gyre_slot *slot = record, *before = NULL;
    struct gyre_slot **at = &queue->head;
    while (*at != slot) {
        assert(*at && "a record is unlinked from the queue it is in");
        before = *at;
        at = &(*at)->next;
    }
    *at = slot->next;
    if (queue->tail == slot) {
        queue->tail = before;
    }
}
