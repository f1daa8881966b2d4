/* Tickets over a device's queue, under a lock.
 *
 *     owner    fetch: lock, where is it mapped? post, unlock  …  done? done? done
 *     watch    halt: lock, until nothing is under way ▶ unmap ▶ resume: unlock
 *
 * So memory is looked up and its copy posted in one breath, and what is unmapped is read by
 * nobody. Posts finish in the order in which they were made: a ticket is a post's number. */
#include "transport/memory/copy_queue.h"

#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define REPORTS 64

struct gyre_ferry {
    const struct gyre_device *device;
    int index;
    pthread_mutex_t lock;
    struct gyre_device_queue *queue; /* made by the first copy */
    _Atomic uint64_t posted, finished;
    _Atomic bool refused; /* a copy, but not the device */
    int status;           /* negative: the device is lost */
    struct gyre_trouble trouble;
};

struct gyre_ferry *gyre_ferry_create(const struct gyre_device *device, int index)
{
    struct gyre_ferry *ferry = calloc(1, sizeof(*ferry));
    if (!ferry)
        return NULL;
    ferry->device = device;
    ferry->index = index;
    pthread_mutex_init(&ferry->lock, NULL);
    return ferry;
}

void gyre_ferry_destroy(struct gyre_ferry *ferry)
{
    if (!ferry)
        return;
    if (ferry->queue)
        ferry->device->queue_destroy(ferry->queue);
    pthread_mutex_destroy(&ferry->lock);
    free(ferry);
}

bool gyre_ferry_owns(const struct gyre_ferry *ferry, const void *memory)
{
    return ferry && ferry->device->classify(memory) != GYRE_MEMORY_HOST;
}

bool gyre_ferry_busy(const struct gyre_ferry *ferry)
{
    return ferry && ferry->posted != ferry->finished;
}

const char *gyre_ferry_words(const struct gyre_ferry *ferry)
{
    return ferry->refused && !ferry->status
               ? "the driver refuses to copy between two devices; see the log"
               : ferry->trouble.text;
}

bool gyre_ferry_exports(const struct gyre_ferry *ferry)
{
    return ferry->device->exports(ferry->index);
}

/* -- under the lock ---------------------------------------------------------------------------- */

/* Nothing that was posted can be waited for any more. */
static int lose(struct gyre_ferry *ferry, int status)
{
    ferry->status = status;
    ferry->finished = ferry->posted;
    return gyre_trouble_set(&ferry->trouble, status,
                            "copying messages by %s device %d: %s; see the log",
                            ferry->device->name, ferry->index, gyre_status_name(status));
}

static int open_queue(struct gyre_ferry *ferry)
{
    if (ferry->status || ferry->queue)
        return ferry->status;
    ferry->status = ferry->device->queue_create(ferry->index, &ferry->queue, &ferry->trouble);
    return ferry->status;
}

static int post(struct gyre_ferry *ferry, void *to, const void *from, uint64_t bytes,
                uint64_t *ticket)
{
    int status = open_queue(ferry);
    if (status)
        return status;
    status = ferry->device->copy(ferry->queue, to, from, bytes, ferry->posted + 1);
    if (status == -EAGAIN)
        return GYRE_AGAIN;
    if (status == GYRE_UNSUPPORTED) { /* of these two memories; others are copied as ever */
        ferry->refused = true;
        return status;
    }
    if (status < 0)
        return lose(ferry, status);
    ferry->posted += status == 0;
    *ticket = ferry->posted;
    return 0;
}

static void look(struct gyre_ferry *ferry)
{
    uint64_t token[REPORTS];
    if (ferry->posted == ferry->finished)
        return;
    int count = ferry->device->query(ferry->queue, token, REPORTS);
    if (count < 0)
        lose(ferry, count);
    else if (count > 0)
        ferry->finished = token[count - 1];
}

/* -- any thread -------------------------------------------------------------------------------- */

int gyre_ferry_copy(struct gyre_ferry *ferry, void *to, const void *from, uint64_t bytes,
                    uint64_t *ticket)
{
    pthread_mutex_lock(&ferry->lock);
    int status = post(ferry, to, from, bytes, ticket);
    pthread_mutex_unlock(&ferry->lock);
    return status;
}

int gyre_ferry_fetch(struct gyre_ferry *ferry, const struct gyre_sight *sight,
                     const struct gyre_spot *spot, void *to, uint64_t *ticket)
{
    pthread_mutex_lock(&ferry->lock);
    const void *from =
        sight->view(sight->context, spot->peer, spot->region, spot->offset, spot->bytes);
    if (!from)
        from =
            sight->view_away(sight->context, spot->peer, spot->region, spot->offset, spot->bytes);
    int status = from ? post(ferry, to, from, spot->bytes, ticket) : -ENOENT;
    pthread_mutex_unlock(&ferry->lock);
    return status;
}

int gyre_ferry_done(struct gyre_ferry *ferry, uint64_t ticket)
{
    pthread_mutex_lock(&ferry->lock);
    if (ticket > ferry->finished)
        look(ferry);
    int done = ferry->status ? ferry->status : ticket <= ferry->finished;
    pthread_mutex_unlock(&ferry->lock);
    return done;
}

void gyre_ferry_halt(struct gyre_ferry *ferry)
{
    if (!ferry)
        return;
    pthread_mutex_lock(&ferry->lock);
    while (ferry->posted != ferry->finished) {
        uint64_t before = ferry->finished;
        look(ferry);
        if (ferry->finished == before)
            sched_yield();
    }
}

void gyre_ferry_resume(struct gyre_ferry *ferry)
{
    if (ferry)
        pthread_mutex_unlock(&ferry->lock);
}

void gyre_ferry_settle(struct gyre_ferry *ferry)
{
    gyre_ferry_halt(ferry);
    gyre_ferry_resume(ferry);
}
