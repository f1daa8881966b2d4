/* The inside of messages from rank to rank, for the files of this room only. Each uses those below
 * it:
 *
 *     point_to_point.c    starting, posting, completions: the entry
 *     open.c              receives that wait for a name
 *     own.c               messages between the own rank and itself
 *     names.c             names of messages, by peer and tag
 *     pool.c              a message's life, and the watch's books
 *     staged_message.c    messages in pieces
 *     tags.c              counts by tag
 *
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_MESSAGES_INSIDE_H
#define GYRE_COLLECTIVES_MESSAGES_INSIDE_H

#include "collectives/messages/point_to_point.h"
#include "collectives/messages/staged_message.h"
#include "collectives/messages/tags.h"

#define GYRE_MESSAGE_CHUNK  64u
#define GYRE_MESSAGE_CHUNKS 16384u

enum { GYRE_WAY_RECV, GYRE_WAY_SEND, GYRE_WAYS };

struct gyre_message_way {
    struct gyre_message *first, *last; /* not posted yet */
    uint32_t posted;
    uint32_t named;   /* messages of tag 0, modulo 2^32 */
    uint64_t started; /* messages ever */
};

struct gyre_message_pair {
    struct gyre_message_way way[GYRE_WAYS];
    struct gyre_message_pair *next; /* of the pairs with messages that are not posted */
    bool listed;
};

/* Receives without a name, in the order of their calls. */
struct gyre_open_receives {
    struct gyre_message *first, *last;
    uint32_t turn; /* the rank at which the next look at all begins */
};

struct gyre_point_to_point {
    struct gyre_message_route route;
    struct gyre_staged_pool staged_pool;
    struct gyre_message_pair *pair; /* n */
    struct gyre_message_pair *waiting;
    struct gyre_tag_table tags;
    struct gyre_open_receives open;
    struct gyre_message *staged; /* staged messages, which have left their ways */
    struct gyre_activity *activity;
    uint64_t started;                 /* messages ever, without blocks of operations */
    uint64_t pending, pending_blocks; /* not ended: all, and of them blocks */
    uint32_t chunks;
    struct gyre_message *free;
    struct gyre_message *chunk[GYRE_MESSAGE_CHUNKS];
};

/* -- pool.c ------------------------------------------------------------------------------------ */

/* An unused message; NULL: no memory. */
struct gyre_message *gyre_p2p_take_free(struct gyre_point_to_point *p2p);

/* The message of that index. */
struct gyre_message *gyre_p2p_message(const struct gyre_point_to_point *p2p, uint32_t index);

/* Ends a message. A block's operation ends with its last block. */
void gyre_p2p_end(struct gyre_point_to_point *p2p, struct gyre_message *message, int status);

/* Tell the watch of a message that was started, and how many are over. The first also makes its
 * record. */
struct gyre_record_place gyre_p2p_note_started(struct gyre_point_to_point *p2p,
                                               const struct gyre_message_terms *terms);
void gyre_p2p_note_finished(const struct gyre_point_to_point *p2p);

/* Take the first message, or any, out of its way. */
static inline struct gyre_message *gyre_way_pop(struct gyre_message_way *way)
{
    struct gyre_message *message = way->first;
    way->first = message->next;
    return message;
}

void gyre_way_unlink(struct gyre_message_way *way, struct gyre_message *message);

/* The message of that name in a way; NULL: none. */
struct gyre_message *gyre_way_find(const struct gyre_message_way *way, uint64_t sequence);

static inline struct gyre_message_way *gyre_way_of(const struct gyre_point_to_point *p2p,
                                                   const struct gyre_message *message)
{
    return &p2p->pair[message->peer].way[message->send ? GYRE_WAY_SEND : GYRE_WAY_RECV];
}

/* -- names.c ----------------------------------------------------------------------------------- */

/* The count of messages of a tag with a peer, in one direction. NULL: no memory. */
uint32_t *gyre_names_count(struct gyre_point_to_point *p2p, uint32_t peer, uint32_t tag, int way);

/* The name of the next message of a tag, without a fingerprint. */
struct gyre_match gyre_names_next(const struct gyre_point_to_point *p2p, uint32_t peer,
                                  uint32_t tag, bool send);

/* Gives a message its name; its count exists. */
void gyre_names_give(struct gyre_point_to_point *p2p, struct gyre_message *message);

/* -- own.c ------------------------------------------------------------------------------------- */

/* Lets a message of the own rank meet its other end, if that has been called. */
void gyre_own_meet(struct gyre_point_to_point *p2p, const struct gyre_message *message);

/* -- open.c ------------------------------------------------------------------------------------ */

/* Whether a receive of that tag from that peer, which may be anyone, has to wait behind an open
 * one before `until`; NULL: behind any. */
bool gyre_open_covers(const struct gyre_point_to_point *p2p, const struct gyre_message *until,
                      uint32_t peer, uint32_t tag);

void gyre_open_add(struct gyre_point_to_point *p2p, struct gyre_message *message);
void gyre_open_remove(struct gyre_point_to_point *p2p, struct gyre_message *message);

/* Takes the next open receive that can have a name now: its peer, type and count are known. NULL:
 * there is none. A receive that can never have one becomes the engine's fault. */
struct gyre_message *gyre_open_take(struct gyre_point_to_point *p2p);

#endif
