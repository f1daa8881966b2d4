/* A message at one end, and what carries the messages of one communicator. */
#ifndef GYRE_COLLECTIVES_MESSAGES_MESSAGE_H
#define GYRE_COLLECTIVES_MESSAGES_MESSAGE_H

#include "transport/stream/match.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gyre_domain;
struct gyre_engine;
struct gyre_fold_queue;
struct gyre_links;
struct gyre_operation;
struct gyre_staged_message;

/* One message at one end. Lives in the communicator's pool until it is given back. */
struct gyre_message {
    struct gyre_message *next; /* in its queue, or of the free ones */
    struct gyre_operation *op; /* it is a part of; NULL: it stands alone */
    void *data;
    void *copy;                                 /* of a blocking send to itself */
    struct gyre_staged_message *staged_message; /* NULL: the link takes it as it is */
    uint64_t bytes;
    struct gyre_match match;
    uint32_t peer, index;
    bool send;
    _Atomic int status; /* GYRE_AGAIN while under way */
};

/* Borrowed while messages live. */
struct gyre_message_route {
    uint32_t rank, n;
    uint32_t comm;         /* its id, in matches and tokens */
    const uint32_t *world; /* the links' number of a rank; NULL: its own */
    struct gyre_domain *domain;
    struct gyre_links *links;
    struct gyre_engine *engine; /* faults are told there; NULL: the rank is alone */
    struct gyre_fold_queue *fold_queue;
};

static inline uint32_t gyre_route_world(const struct gyre_message_route *route, uint32_t rank)
{
    return route->world ? route->world[rank] : rank;
}

#endif
