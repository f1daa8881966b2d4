/* Tickets over a device's queue. Posts finish in the order in which they were made, so a ticket is
 * the number of a post, and the number of finished posts tells which tickets are over.
 *
 * The owner of the tickets makes the queue, keeps calls apart and tells what a failure means. */
#ifndef GYRE_DEVICE_TICKETS_H
#define GYRE_DEVICE_TICKETS_H

#include "device/device.h"

#include <stdatomic.h>

struct gyre_tickets {
    const struct gyre_device *device;
    struct gyre_device_queue *queue;   /* NULL: not made yet */
    _Atomic uint64_t posted, finished; /* read by any thread */
};

/* Waits for all posts and drops the queue. May be called twice. */
void gyre_tickets_close(struct gyre_tickets *tickets);

/* Post. 0 with the ticket of the post, or of the last one where the post has finished already.
 * Negative: the device's status, nothing was posted. */
int gyre_tickets_copy(struct gyre_tickets *tickets, void *to, const void *from, uint64_t bytes,
                      uint64_t *ticket);
int gyre_tickets_fold(struct gyre_tickets *tickets, gyre_fold fold,
                      const struct gyre_fold_task *task, uint64_t *ticket);
int gyre_tickets_mark(struct gyre_tickets *tickets, uint64_t *ticket);

/* Asks the device. Returns the number of posts that have finished since, or negative where the
 * queue is dead. */
int gyre_tickets_look(struct gyre_tickets *tickets);

static inline bool gyre_tickets_done(const struct gyre_tickets *tickets, uint64_t ticket)
{
    return ticket <= tickets->finished;
}

static inline bool gyre_tickets_busy(const struct gyre_tickets *tickets)
{
    return tickets->posted != tickets->finished;
}

/* The number of posts that the queue takes now. */
static inline uint32_t gyre_tickets_room(const struct gyre_tickets *tickets)
{
    return GYRE_DEVICE_POSTS - (uint32_t)(tickets->posted - tickets->finished);
}

#endif
