/* Locked pages, and a list of those that wait for a quiet moment to be given up; a list's links lie
 * in the pages themselves.
 *
 * Tested by tests/program/cuda/collectives.c. */
#include "collectives/staging/pinned.h"

#include "base/size.h"
#include "collectives/staging/stream_wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define PAGE 4096u

struct parked {
    struct parked *next;
    const struct gyre_device *device;
    int index;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct parked *first;

static void park(const struct gyre_fold_queue *fold_queue, void *memory)
{
    struct parked *parked = memory;
    pthread_mutex_lock(&lock);
    *parked = (struct parked){first, fold_queue->device, fold_queue->index};
    first = parked;
    pthread_mutex_unlock(&lock);
}

/* In a quiet moment. */
static void give_up_parked(void)
{
    pthread_mutex_lock(&lock);
    struct parked *parked = first;
    first = NULL;
    pthread_mutex_unlock(&lock);
    while (parked) {
        struct parked gone = *parked;
        gone.device->unpin(gone.index, parked);
        free(parked);
        parked = gone.next;
    }
}

void gyre_pinned_lock(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned)
{
    if (pinned->tried || gyre_tickets_busy(&fold_queue->work) || !gyre_quiet_begin())
        return;
    give_up_parked();
    pinned->tried = true;
    pinned->locked =
        fold_queue->device->pin(fold_queue->index, pinned->memory, pinned->bytes, NULL) == 0;
    gyre_quiet_end();
}

int gyre_pinned_make(struct gyre_fold_queue *fold_queue, uint64_t bytes, struct gyre_pinned *pinned)
{
    *pinned = (struct gyre_pinned){.bytes = gyre_round_up(bytes ? bytes : 1, PAGE)};
    pinned->memory = aligned_alloc(PAGE, pinned->bytes);
    if (!pinned->memory)
        return -ENOMEM;
    gyre_pinned_lock(fold_queue, pinned);
    return 0;
}

void gyre_pinned_drop(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned)
{
    if (pinned->locked) {
        park(fold_queue, pinned->memory);
        if (gyre_quiet_begin()) {
            give_up_parked();
            gyre_quiet_end();
        }
    } else {
        free(pinned->memory);
    }
    *pinned = (struct gyre_pinned){0};
}
