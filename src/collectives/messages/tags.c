/* Counts of messages by peer and tag: open addressing, grown by doubling at half its room.
 *
 * Tested by tests/unit/collectives/messages/tags_test.c. */
#include "collectives/messages/tags.h"

#include "base/rng.h"

#include <stdlib.h>

#define ROOM_FIRST 16u

/* The entry of a tag, or the free place for it. */
static struct gyre_tag_count *tag_place(const struct gyre_tag_table *table, uint32_t peer,
                                        uint32_t tag)
{
    uint32_t mask = table->room - 1;
    uint32_t at = (uint32_t)gyre_mix64((uint64_t)peer << 32 | tag) & mask;
    while (table->count[at].tag && (table->count[at].tag != tag || table->count[at].peer != peer))
        at = (at + 1) & mask;
    return &table->count[at];
}

static bool grow_tags(struct gyre_tag_table *table)
{
    struct gyre_tag_table larger = {.room = table->room ? 2 * table->room : ROOM_FIRST};
    larger.count = calloc(larger.room, sizeof(*larger.count));
    if (!larger.count)
        return false;
    for (uint32_t i = 0; i < table->room; i++)
        if (table->count[i].tag)
            *tag_place(&larger, table->count[i].peer, table->count[i].tag) = table->count[i];
    larger.used = table->used;
    free(table->count);
    *table = larger;
    return true;
}

struct gyre_tag_count *gyre_tag_count(struct gyre_tag_table *table, uint32_t peer, uint32_t tag)
{
    struct gyre_tag_count *place = table->room ? tag_place(table, peer, tag) : NULL;
    if (place && place->tag)
        return place;
    if (2 * table->used >= table->room && !grow_tags(table))
        return NULL;
    place = tag_place(table, peer, tag);
    *place = (struct gyre_tag_count){.tag = tag, .peer = peer};
    table->used++;
    return place;
}

uint32_t gyre_tag_named(const struct gyre_tag_table *table, uint32_t peer, uint32_t tag, bool send)
{
    return table->room ? tag_place(table, peer, tag)->named[send] : 0;
}

void gyre_tag_deinit(struct gyre_tag_table *table)
{
    free(table->count);
    *table = (struct gyre_tag_table){0};
}
