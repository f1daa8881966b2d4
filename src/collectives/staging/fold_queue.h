/* The fold queue: copies and folds of memory that the CPU cannot touch, on a queue of the device
 * that it is of. One per process; every communicator's operations share it.
 *
 * Posts finish in the order in which they were made, so a post is known by its number, the ticket.
 * Nothing on the queue ever waits for a peer or for a stream of the caller's. What an operation in
 * the order of a stream needs stands on that stream, put there by the call itself.
 *
 * All calls: owner (gyre_domain_enter), but for what says otherwise. */
#ifndef GYRE_COLLECTIVES_STAGING_FOLD_QUEUE_H
#define GYRE_COLLECTIVES_STAGING_FOLD_QUEUE_H

#include "device/tickets.h"

#define GYRE_FOLD_QUEUE_HOST_ADDRESSES 64

struct gyre_fold_queue {
    const struct gyre_device *device;
    int index;                   /* of the device; negative: none */
    struct gyre_tickets work;    /* made by the first use */
    uint64_t looked_ns;          /* when the device was asked whether it serves */
    int status;                  /* negative: the device is lost */
    struct gyre_trouble trouble; /* why the device was lost */

    /* Of a rank without a device, where this build could use one; else NULL. */
    const struct gyre_device *unused;
    _Atomic(const void *) host_address
        [GYRE_FOLD_QUEUE_HOST_ADDRESSES]; /* addresses that were found to be the host's */
    atomic_uint_least64_t absent_ns;      /* when CUDA was last found not to be loaded */
};

/* `fold_queue` is zeroed memory. A negative index: everything is the host's. */
void gyre_fold_queue_init(struct gyre_fold_queue *fold_queue, int index);

/* Waits for what was posted. May be called twice. */
void gyre_fold_queue_deinit(struct gyre_fold_queue *fold_queue);

/* Is this the memory of a device in a process that has none, which nobody here can read? A program
 * may load CUDA after it has joined. Memory that was found to be the host's is not asked about
 * again. Any thread. */
bool gyre_fold_queue_looks_foreign(struct gyre_fold_queue *fold_queue, const void *memory);

static inline bool gyre_fold_queue_is_foreign(struct gyre_fold_queue *fold_queue,
                                              const void *memory)
{
    return fold_queue->unused && memory && gyre_fold_queue_looks_foreign(fold_queue, memory);
}

/* Finds the kind of memory, by one question to the driver at most, or by two where the memory is
 * another device's. GYRE_INVALID: a device's that this rank cannot reach; the reason is in
 * *trouble. Any thread. */
int gyre_fold_queue_recognise(struct gyre_fold_queue *fold_queue, const void *memory,
                              enum gyre_memory_kind *kind, struct gyre_trouble *trouble);

/* Makes kernels ready, and the queues, where that has not been done. May block, once. */
int gyre_fold_queue_open(struct gyre_fold_queue *fold_queue, struct gyre_trouble *trouble);

/* Checks that operations can be put into the order of the stream, and makes the words. *captured
 * tells whether the stream is being captured into a graph. */
int gyre_fold_queue_check_stream(struct gyre_fold_queue *fold_queue, void *stream, bool *captured,
                                 struct gyre_trouble *trouble);

/* Put a copy, or words, on the stream itself; nothing here knows when they are over. */
int gyre_fold_queue_copy_on(struct gyre_fold_queue *fold_queue, void *stream, void *to,
                            const void *from, uint64_t bytes, struct gyre_trouble *trouble);
int gyre_fold_queue_words_on(struct gyre_fold_queue *fold_queue, void *stream,
                             const struct gyre_stream_word *word, uint32_t words,
                             struct gyre_trouble *trouble);

/* Folds on the stream itself; nothing here knows when the fold is over. */
int gyre_fold_queue_fold_on(struct gyre_fold_queue *fold_queue, void *stream, gyre_fold fold,
                            const struct gyre_fold_task *task, struct gyre_trouble *trouble);

/* The fold that copies one source, by a kernel: any operation serves that leaves one source as it
 * is. */
gyre_fold gyre_fold_queue_copier(const struct gyre_fold_queue *fold_queue);

/* How many posts the queue takes now. */
static inline uint32_t gyre_fold_queue_room(const struct gyre_fold_queue *fold_queue)
{
    return gyre_tickets_room(&fold_queue->work);
}

/* Post, and wait for the oldest post where there is no room; who must not wait looks at the room
 * first. Return the ticket, one that is never done where the device is lost. */
uint64_t gyre_fold_queue_copy(struct gyre_fold_queue *fold_queue, void *to, const void *from,
                              uint64_t bytes);
uint64_t gyre_fold_queue_fold(struct gyre_fold_queue *fold_queue, gyre_fold fold,
                              const struct gyre_fold_task *task);

static inline bool gyre_fold_queue_done(const struct gyre_fold_queue *fold_queue, uint64_t ticket)
{
    return gyre_tickets_done(&fold_queue->work, ticket);
}

static inline bool gyre_fold_queue_busy(const struct gyre_fold_queue *fold_queue)
{
    return gyre_tickets_busy(&fold_queue->work);
}

/* Learns what has finished; true if anything had. */
bool gyre_fold_queue_poll(struct gyre_fold_queue *fold_queue);

/* Copies and waits for the copy: 0 or the fold queue's status. `on_device`: one of the two memories
 * is a device's. */
int gyre_fold_queue_copy_now(struct gyre_fold_queue *fold_queue, void *to, const void *from,
                             uint64_t bytes, bool on_device);

/* Waits for a ticket: 0 or the fold queue's status. */
int gyre_fold_queue_await(struct gyre_fold_queue *fold_queue, uint64_t ticket);

/* Waits for all that was posted, but not for ever: the job has failed. */
void gyre_fold_queue_settle(struct gyre_fold_queue *fold_queue);

#endif
