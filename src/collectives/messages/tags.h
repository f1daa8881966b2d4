/* The numbers of messages with tags: how many of each tag were named, by peer and direction.
 *
 * An entry is made at the first message of a tag between two ranks, and lives as long as the
 * communicator. Messages without a tag, which is tag 0, are counted by their pair. All calls:
 * owner. */
#ifndef GYRE_COLLECTIVES_MESSAGES_TAGS_H
#define GYRE_COLLECTIVES_MESSAGES_TAGS_H

#include <stdbool.h>
#include <stdint.h>

struct gyre_tag_count {
    uint32_t tag; /* 0: the place is free */
    uint32_t peer;
    uint32_t named[2]; /* receives and sends, modulo 2^32 */
};

/* A hash table; zeroed: empty. */
struct gyre_tag_table {
    struct gyre_tag_count *count;
    uint32_t room, used; /* room: 0, or a power of two */
};

/* The count of a tag, not 0, with that peer. NULL: no memory for another. */
struct gyre_tag_count *gyre_tag_count(struct gyre_tag_table *table, uint32_t peer, uint32_t tag);

/* How many of that tag were named; makes no entry. */
uint32_t gyre_tag_named(const struct gyre_tag_table *table, uint32_t peer, uint32_t tag, bool send);

void gyre_tag_deinit(struct gyre_tag_table *table);

#endif
