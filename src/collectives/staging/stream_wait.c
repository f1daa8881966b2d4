/* A table of words under a lock, which is also held through quiet moments.
 *
 * Tested by tests/program/cuda/streams.c. */
#include "collectives/staging/stream_wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 4096u /* 64 communicators that are full of operations */
#define PAGE  4096u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gyre_device_word *words;
static bool taken[WORDS];
static uint32_t taken_count, next;

static int make_words(const struct gyre_device *device, int index, struct gyre_trouble *trouble)
{
    gyre_device_word *fresh = aligned_alloc(PAGE, WORDS * sizeof(*fresh));
    if (!fresh)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for what streams wait for");
    memset((void *)fresh, 0, WORDS * sizeof(*fresh));
    int status = device->pin(index, (void *)fresh, WORDS * sizeof(*fresh), trouble);
    if (status)
        free((void *)fresh);
    else
        words = fresh;
    return status;
}

int gyre_stream_wait_open(const struct gyre_device *device, int index, struct gyre_trouble *trouble)
{
    pthread_mutex_lock(&lock);
    int status = words ? 0 : make_words(device, index, trouble);
    pthread_mutex_unlock(&lock);
    return status;
}

int gyre_stream_wait_take(struct gyre_stream_wait *stream_wait, struct gyre_trouble *trouble)
{
    pthread_mutex_lock(&lock);
    bool full = taken_count == WORDS;
    while (!full && taken[next % WORDS])
        next++;
    if (!full) {
        gyre_device_word *word = &words[next % WORDS];
        *stream_wait =
            (struct gyre_stream_wait){word, atomic_load_explicit(word, memory_order_relaxed) + 1};
        taken[next++ % WORDS] = true;
        taken_count++;
    }
    pthread_mutex_unlock(&lock);
    return full ? gyre_trouble_set(trouble, -EBUSY,
                                   "%u operations in the order of streams are in "
                                   "flight: synchronise a stream first",
                                   WORDS)
                : 0;
}

void gyre_stream_wait_give(struct gyre_stream_wait *stream_wait)
{
    if (!stream_wait->word)
        return;
    atomic_store_explicit(stream_wait->word, stream_wait->value, memory_order_release);
    pthread_mutex_lock(&lock);
    taken[stream_wait->word - words] = false;
    taken_count--;
    pthread_mutex_unlock(&lock);
    stream_wait->word = NULL;
}

bool gyre_quiet_begin(void)
{
    pthread_mutex_lock(&lock);
    if (!taken_count)
        return true;
    pthread_mutex_unlock(&lock);
    return false;
}

void gyre_quiet_end(void)
{
    pthread_mutex_unlock(&lock);
}
