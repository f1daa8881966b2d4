/* A message at one end, and the route of the messages of one communicator. */
#ifndef GYRE_COLLECTIVES_MESSAGES_MESSAGE_H
#define GYRE_COLLECTIVES_MESSAGES_MESSAGE_H

#include "device/device.h"
#include "transport/recorder/book.h"
#include "transport/stream/match.h"

#include <gyre/gyre.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gyre_domain;
struct gyre_engine;
struct gyre_fold_queue;
struct gyre_links;
struct gyre_operation;
struct gyre_staged_message;

#define GYRE_MESSAGE_ANYONE UINT32_MAX /* in place of a peer */

/* One message at one end. Lives in the communicator's pool until it is released. */
struct gyre_message {
    struct gyre_message *next; /* in its queue, or of the free messages */
    struct gyre_operation *op; /* the operation of which it is a part; NULL: none */
    void *data;
    enum gyre_memory_kind kind;                 /* of the data */
    void *copy;                                 /* the data of a blocking send to the own rank */
    struct gyre_staged_message *staged_message; /* NULL: the link takes the message as it is */
    uint64_t count, bytes;                      /* of an open receive: that fit */
    struct gyre_match match;
    uint32_t peer, index; /* peer: GYRE_MESSAGE_ANYONE until an open receive knows */
    uint32_t tag;
    enum gyre_type type;
    bool send;
    bool any;                        /* a receive that takes any length, and perhaps any rank's */
    bool open;                       /* a receive without a name yet: among the open ones */
    bool bound;                      /* its message was known before it was posted */
    struct gyre_received *received;  /* the caller's, written at the end; NULL: none */
    struct gyre_record_place record; /* what the rank remembers of it */
    _Atomic int status;              /* GYRE_AGAIN while under way */
};

/* The way of a communicator's messages. Borrowed while messages live. */
struct gyre_message_route {
    uint32_t rank, n;
    uint32_t comm;         /* its id, in matches and tokens */
    const uint32_t *world; /* the links' number of a rank; NULL: its own */
    struct gyre_domain *domain;
    struct gyre_links *links;
    struct gyre_engine *engine; /* gets the faults; NULL: the rank is alone */
    struct gyre_fold_queue *fold_queue;
};

static inline uint32_t gyre_route_world(const struct gyre_message_route *route, uint32_t rank)
{
    return route->world ? route->world[rank] : rank;
}

#endif
