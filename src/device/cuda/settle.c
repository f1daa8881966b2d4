/* Waits for all work of a device, but not for ever.
 *
 * The driver's call has no limit, and its wait may never end: a stream of the caller's may wait for
 * the very thread that waits here. So a thread of its own makes the call. The waiting thread goes
 * on without it after a while, and the last of the two frees what they share. Tested by
 * tests/unit/device/cuda/regions_test.c. */
#include "device/cuda/inside.h"

#include "base/machine/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define LIMIT_S 5

struct settling {
    pthread_mutex_t lock;
    pthread_cond_t over;
    int device;
    int status;
    bool ended, left; /* the driver's call has ended; the waiting thread has left */
    struct gyre_trouble trouble;
};

static void drop_settling(struct settling *settling)
{
    pthread_cond_destroy(&settling->over);
    pthread_mutex_destroy(&settling->lock);
    free(settling);
}

static void *settle_main(void *argument)
{
    struct settling *settling = argument;
    struct gyre_trouble trouble = {0};
    int status = gyre_cuda_enter(settling->device, &trouble);
    if (!status) {
        status = gyre_cuda_failed(gyre_cuda->cuCtxSynchronize(), settling->device, &trouble,
                                  "cuCtxSynchronize");
        gyre_cuda_leave();
    }
    pthread_mutex_lock(&settling->lock);
    settling->status = status;
    settling->trouble = trouble;
    settling->ended = true;
    bool left = settling->left;
    pthread_cond_signal(&settling->over);
    pthread_mutex_unlock(&settling->lock);
    if (left)
        drop_settling(settling);
    return NULL;
}

static int start_settling(struct settling *settling)
{
    pthread_t thread;
    int status = gyre_thread_start(&thread, settle_main, settling);
    if (!status)
        pthread_detach(thread);
    return status;
}

static struct settling *new_settling(int device)
{
    pthread_condattr_t monotonic;
    struct settling *settling = calloc(1, sizeof(*settling));
    if (!settling)
        return NULL;
    settling->device = device;
    pthread_mutex_init(&settling->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&settling->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return settling;
}

/* Whether the work ended in time. If so, no other thread uses the struct any more. */
static bool await_settled(struct settling *settling)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LIMIT_S;
    pthread_mutex_lock(&settling->lock);
    while (!settling->ended &&
           pthread_cond_timedwait(&settling->over, &settling->lock, &until) != ETIMEDOUT)
        continue;
    bool ended = settling->ended;
    settling->left = true;
    pthread_mutex_unlock(&settling->lock);
    return ended;
}

int gyre_cuda_settle(int device, struct gyre_trouble *trouble)
{
    struct settling *settling = new_settling(device);
    int status = settling ? start_settling(settling) : -ENOMEM;
    if (status) {
        if (settling)
            drop_settling(settling);
        return gyre_trouble_set(trouble, status, "waiting for CUDA device %d: no thread for it",
                                device);
    }
    if (!await_settled(settling))
        return gyre_trouble_set(trouble, GYRE_TIMED_OUT,
                                "CUDA device %d has work that did not end within %d s", device,
                                LIMIT_S);
    status = settling->status;
    if (status)
        gyre_trouble_set(trouble, status, "%s", settling->trouble.text);
    drop_settling(settling);
    return status;
}
