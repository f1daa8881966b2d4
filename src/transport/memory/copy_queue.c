/* Copies on a device's queue, under a lock.
 *
 *     owner    fetch: lock, where is it mapped? post, unlock  …  done? done? done
 *     watch    halt: lock, until nothing is under way ▶ unmap ▶ resume: unlock
 *
 * So memory is looked up and its copy posted in one breath, and what is unmapped is read by
 * nobody. Tested by tests/unit/transport/stream/device_test.c and tests/link/cuda_ipc.c. */
#include "transport/memory/copy_queue.h"

#include "base/status.h"
#include "device/tickets.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

struct gyre_copy_queue {
    const struct gyre_device *device;
    int index;
    pthread_mutex_t lock;
    struct gyre_tickets tickets; /* their queue is made by the first copy */
    _Atomic bool refused;        /* a copy, but not the device */
    _Atomic bool opened;         /* the queue is made, or could not be */
    int status;                  /* negative: the device is lost */
    struct gyre_trouble trouble;
};

struct gyre_copy_queue *gyre_copy_queue_create(const struct gyre_device *device, int index)
{
    struct gyre_copy_queue *copy_queue = calloc(1, sizeof(*copy_queue));
    if (!copy_queue)
        return NULL;
    copy_queue->device = copy_queue->tickets.device = device;
    copy_queue->index = index;
    pthread_mutex_init(&copy_queue->lock, NULL);
    return copy_queue;
}

void gyre_copy_queue_destroy(struct gyre_copy_queue *copy_queue)
{
    if (!copy_queue)
        return;
    gyre_tickets_close(&copy_queue->tickets);
    pthread_mutex_destroy(&copy_queue->lock);
    free(copy_queue);
}

bool gyre_copy_queue_busy(const struct gyre_copy_queue *copy_queue)
{
    return copy_queue && gyre_tickets_busy(&copy_queue->tickets);
}

const char *gyre_copy_queue_message(const struct gyre_copy_queue *copy_queue)
{
    return copy_queue->refused && !copy_queue->status
               ? "the driver refuses to copy between two devices; see the log"
               : copy_queue->trouble.text;
}

bool gyre_copy_queue_exports(const struct gyre_copy_queue *copy_queue)
{
    return copy_queue->device->exports(copy_queue->index);
}

/* -- under the lock ---------------------------------------------------------------------------- */

/* Nothing that was posted can be waited for any more. */
static int lose_copy_queue(struct gyre_copy_queue *copy_queue, int status)
{
    copy_queue->status = status;
    copy_queue->tickets.finished = copy_queue->tickets.posted;
    return gyre_trouble_set(&copy_queue->trouble, status,
                            "copying messages by %s device %d: %s; see the log",
                            copy_queue->device->name, copy_queue->index, gyre_status_name(status));
}

static int open_queue(struct gyre_copy_queue *copy_queue)
{
    if (copy_queue->status || copy_queue->tickets.queue)
        return copy_queue->status;
    copy_queue->status = copy_queue->device->queue_create(
        copy_queue->index, &copy_queue->tickets.queue, &copy_queue->trouble);
    copy_queue->opened = true;
    return copy_queue->status;
}

static int post_to_queue(struct gyre_copy_queue *copy_queue, void *to, const void *from,
                         uint64_t bytes, uint64_t *ticket)
{
    int status = open_queue(copy_queue);
    if (status)
        return status;
    status = gyre_tickets_copy(&copy_queue->tickets, to, from, bytes, ticket);
    if (status == -EAGAIN)
        return GYRE_AGAIN;
    if (status == GYRE_UNSUPPORTED) { /* of these two memories; others are copied as ever */
        copy_queue->refused = true;
        return status;
    }
    return status ? lose_copy_queue(copy_queue, status) : 0;
}

static void look_at_copies(struct gyre_copy_queue *copy_queue)
{
    int count = gyre_tickets_look(&copy_queue->tickets);
    if (count < 0)
        lose_copy_queue(copy_queue, count);
}

/* -- any thread -------------------------------------------------------------------------------- */

bool gyre_copy_queue_has_queue(const struct gyre_copy_queue *copy_queue)
{
    return !copy_queue || copy_queue->opened;
}

void gyre_copy_queue_open(struct gyre_copy_queue *copy_queue)
{
    if (!copy_queue)
        return;
    pthread_mutex_lock(&copy_queue->lock);
    open_queue(copy_queue);
    pthread_mutex_unlock(&copy_queue->lock);
}

int gyre_copy_queue_copy(struct gyre_copy_queue *copy_queue, void *to, const void *from,
                         uint64_t bytes, uint64_t *ticket)
{
    pthread_mutex_lock(&copy_queue->lock);
    int status = post_to_queue(copy_queue, to, from, bytes, ticket);
    pthread_mutex_unlock(&copy_queue->lock);
    return status;
}

int gyre_copy_queue_fetch(struct gyre_copy_queue *copy_queue,
                          const struct gyre_memory_lookup *lookup, const struct gyre_spot *spot,
                          void *to, uint64_t *ticket)
{
    pthread_mutex_lock(&copy_queue->lock);
    const void *from = gyre_lookup_view(lookup, spot->peer, spot->region, GYRE_MEMORY_HOST,
                                        spot->offset, spot->bytes);
    if (!from)
        from = gyre_lookup_view(lookup, spot->peer, spot->region, GYRE_MEMORY_CUDA, spot->offset,
                                spot->bytes);
    int status = from ? post_to_queue(copy_queue, to, from, spot->bytes, ticket) : -ENOENT;
    pthread_mutex_unlock(&copy_queue->lock);
    return status;
}

int gyre_copy_queue_done(struct gyre_copy_queue *copy_queue, uint64_t ticket)
{
    pthread_mutex_lock(&copy_queue->lock);
    if (!gyre_tickets_done(&copy_queue->tickets, ticket))
        look_at_copies(copy_queue);
    int done =
        copy_queue->status ? copy_queue->status : gyre_tickets_done(&copy_queue->tickets, ticket);
    pthread_mutex_unlock(&copy_queue->lock);
    return done;
}

void gyre_copy_queue_halt(struct gyre_copy_queue *copy_queue)
{
    if (!copy_queue)
        return;
    pthread_mutex_lock(&copy_queue->lock);
    while (gyre_tickets_busy(&copy_queue->tickets)) {
        uint64_t before = copy_queue->tickets.finished;
        look_at_copies(copy_queue);
        if (copy_queue->tickets.finished == before)
            sched_yield();
    }
}

void gyre_copy_queue_resume(struct gyre_copy_queue *copy_queue)
{
    if (copy_queue)
        pthread_mutex_unlock(&copy_queue->lock);
}

void gyre_copy_queue_settle(struct gyre_copy_queue *copy_queue)
{
    gyre_copy_queue_halt(copy_queue);
    gyre_copy_queue_resume(copy_queue);
}
