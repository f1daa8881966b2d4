/* A fixed number of records found by the name of a message: the one data structure of the stream.
 *
 * A record of any type begins with a gyre_slot. The table owns the records' memory, gives out free
 * ones, and keeps inserted ones in a hash by name. Records of equal names are found in the order in
 * which they were inserted. Records never move. Memory that was never used is never touched. */
#ifndef GYRE_TRANSPORT_STREAM_TABLE_H
#define GYRE_TRANSPORT_STREAM_TABLE_H

#include "transport/stream/match.h"

#include <stddef.h>

struct gyre_slot {
    struct gyre_match match;
    struct gyre_slot *chain; /* in the hash, or in the list of free records */
    struct gyre_slot *next;  /* in a gyre_queue */
};

struct gyre_table {
    uint8_t *records;
    struct gyre_slot **bucket;
    struct gyre_slot *free;
    uint32_t stride, capacity;
    uint32_t shift; /* 64 - log2(buckets) */
    uint32_t fresh; /* records from here on were never taken */
    uint32_t found; /* records in the hash: 0 spares the look-up */
};

struct gyre_queue { /* first in, first out */
    struct gyre_slot *head, *tail;
};

/* Makes a table. `memory` is zeroed, gyre_table_bytes() long and outlives the table. capacity ≥ 1,
 * stride a multiple of 8. */
size_t gyre_table_bytes(uint32_t capacity, uint32_t stride);
void gyre_table_init(struct gyre_table *table, void *memory, uint32_t capacity, uint32_t stride);

void *gyre_table_take(struct gyre_table *table,
                      const struct gyre_match *match);        /* zeroed; NULL: all are taken */
void gyre_table_give(struct gyre_table *table, void *record); /* taken, not inserted */
void gyre_table_insert(struct gyre_table *table, void *record);
void gyre_table_remove(struct gyre_table *table, void *record); /* inserted; stays taken */

/* Record i of all that were ever taken, for the rare walks over all; NULL ends the walk. */
void *gyre_table_record(const struct gyre_table *table, uint32_t i);

void gyre_queue_push(struct gyre_queue *queue, void *record);
/* The record is in the queue; walks. */
void gyre_queue_unlink(struct gyre_queue *queue, void *record);

static inline void *gyre_queue_pop(struct gyre_queue *queue) /* NULL: empty */
{
    struct gyre_slot *slot = queue->head;
    if (slot)
        queue->head = slot->next;
    return slot;
}

static inline struct gyre_slot **gyre_table_bucket(const struct gyre_table *table,
                                                   const struct gyre_match *match)
{
    uint64_t place = (uint64_t)match->comm << 32 | (uint64_t)match->lane << 16 | match->order;
    uint64_t hash =
        (match->sequence + place * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
    return &table->bucket[hash >> table->shift];
}

static inline void *gyre_table_next(const void *record, const struct gyre_match *match)
{
    struct gyre_slot *slot = ((const struct gyre_slot *)record)->chain;
    while (slot && !gyre_match_same(&slot->match, match)) {
        slot = slot->chain;
    }
    return slot;
}

/* The first record of that name; NULL: none. */
static inline void *gyre_table_find(const struct gyre_table *table, const struct gyre_match *match)
{
    if (table->found == 0) {
        return NULL;
    }
    struct gyre_slot *slot = *gyre_table_bucket(table, match);
    return !slot || gyre_match_same(&slot->match, match) ? slot : gyre_table_next(slot, match);
}

#endif
