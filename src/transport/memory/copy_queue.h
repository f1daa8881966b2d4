/* The copy queue: copies of messages where one end is memory that the CPU cannot touch, on a queue
 * of this process's device. One per domain; every link of the node shares it.
 *
 * A copy is known by its ticket. Nothing on the queue ever waits for a peer or for a stream, so the
 * queue is empty in bounded time, and who must know that memory is not used any more can wait for
 * that. Any thread: the watch closes peers' memory while the owner of the domain copies. */
#ifndef GYRE_TRANSPORT_MEMORY_COPY_QUEUE_H
#define GYRE_TRANSPORT_MEMORY_COPY_QUEUE_H

#include "device/device.h"
#include "transport/memory/lookup.h"

struct gyre_copy_queue;

/* Makes a queue for memory of that device. Nothing is asked of the device before the first copy.
 * NULL: no memory. */
struct gyre_copy_queue *gyre_copy_queue_create(const struct gyre_device *device, int index);

/* Waits for what is under way. NULL allowed, as below. */
void gyre_copy_queue_destroy(struct gyre_copy_queue *copy_queue);

/* Makes the device's queue now, which a first copy would make: it may wait for all of the device's
 * work. has_queue: it is made, or never will be. NULL allowed. */
void gyre_copy_queue_open(struct gyre_copy_queue *copy_queue);
bool gyre_copy_queue_has_queue(const struct gyre_copy_queue *copy_queue);

/* Post a copy of at least a byte. 0: *ticket is the copy's; GYRE_AGAIN: no room now;
 * GYRE_UNSUPPORTED: not between these memories; otherwise negative: the device is lost to this
 * process, and gyre_copy_queue_message() says why. fetch() reads a span of a peer's region, of
 * either kind, wherever the region is mapped now; -ENOENT: nowhere. */
int gyre_copy_queue_copy(struct gyre_copy_queue *copy_queue, void *to, const void *from,
                         uint64_t bytes, uint64_t *ticket);
int gyre_copy_queue_fetch(struct gyre_copy_queue *copy_queue,
                          const struct gyre_memory_lookup *lookup, const struct gyre_spot *spot,
                          void *to, uint64_t *ticket);

/* Is the copy over? 1: yes; 0: not yet; negative: never. */
int gyre_copy_queue_done(struct gyre_copy_queue *copy_queue, uint64_t ticket);

/* Is its device's memory exported? Otherwise it goes by classic IPC handles. */
bool gyre_copy_queue_exports(const struct gyre_copy_queue *copy_queue);

/* Is anything under way? */
bool gyre_copy_queue_busy(const struct gyre_copy_queue *copy_queue);

/* Why the device was lost, or a copy was refused; empty if neither was. */
const char *gyre_copy_queue_message(const struct gyre_copy_queue *copy_queue);

/* Waits until nothing is under way. */
void gyre_copy_queue_settle(struct gyre_copy_queue *copy_queue);

/* Waits until nothing is under way, and lets nothing new begin until resume(). */
void gyre_copy_queue_halt(struct gyre_copy_queue *copy_queue);
void gyre_copy_queue_resume(struct gyre_copy_queue *copy_queue);

#endif
