/* A table of words under a lock, which is also held through quiet moments.
 *
 * Tested by tests/program/cuda/streams.c. */
#include "collectives/staging/stream_wait.h"

#include "base/size.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WORDS 4096u /* 64 communicators that are full of operations */
#define PAGE  4096u

/* What the host knows of a place. A place that was given is free when the stream has passed. */
struct stream_place {
    bool taken, given, leaves;
    uint64_t value;
};

struct words {
    gyre_device_word go[WORDS], arrived[WORDS], passed[WORDS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct words *words;
static struct stream_place place[WORDS];
static _Atomic uint32_t taken_count;
static uint32_t next;

/* A child of a fork must not get copies: the device would go on with the parent's old pages. */
static int make_words(const struct gyre_device *device, int index, struct gyre_trouble *trouble)
{
    uint64_t bytes = gyre_round_up(sizeof(struct words), PAGE);
    struct words *fresh =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for what streams wait for");
    madvise(fresh, bytes, MADV_DONTFORK);
    int status = device->pin(index, fresh, bytes, trouble);
    if (status)
        munmap(fresh, bytes);
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

/* -- under the lock ---------------------------------------------------------------------------- */

/* Takes back places that streams have passed. */
static void reap_passed(void)
{
    for (uint32_t i = 0; i < WORDS && taken_count; i++)
        if (place[i].taken && place[i].given &&
            (!place[i].leaves ||
             (int64_t)(atomic_load_explicit(&words->passed[i], memory_order_acquire) -
                       place[i].value) >= 0)) {
            place[i].taken = false;
            taken_count--;
        }
}

static void take_place(uint32_t i, uint32_t steps, struct gyre_stream_wait *stream_wait)
{
    uint64_t before = place[i].value;
    place[i] = (struct stream_place){.taken = true, .value = before + steps};
    taken_count++;
    *stream_wait = (struct gyre_stream_wait){.word = &words->go[i],
                                             .arrived = &words->arrived[i],
                                             .passed = &words->passed[i],
                                             .value = before + steps,
                                             .before = before};
}

/* -- any thread -------------------------------------------------------------------------------- */

int gyre_stream_wait_take(struct gyre_stream_wait *stream_wait, uint32_t steps,
                          struct gyre_trouble *trouble)
{
    pthread_mutex_lock(&lock);
    if (taken_count == WORDS)
        reap_passed();
    bool full = taken_count == WORDS;
    while (!full && place[next % WORDS].taken)
        next++;
    if (!full)
        take_place(next++ % WORDS, steps, stream_wait);
    pthread_mutex_unlock(&lock);
    return full ? gyre_trouble_set(trouble, -EBUSY,
                                   "%u operations in the order of streams are in "
                                   "flight: synchronise a stream first",
                                   WORDS)
                : 0;
}

void gyre_stream_wait_expect(const struct gyre_stream_wait *stream_wait)
{
    pthread_mutex_lock(&lock);
    place[stream_wait->word - words->go].leaves = true;
    pthread_mutex_unlock(&lock);
}

void gyre_stream_wait_give(struct gyre_stream_wait *stream_wait)
{
    if (!stream_wait->word)
        return;
    atomic_store_explicit(stream_wait->word, stream_wait->value, memory_order_release);
    pthread_mutex_lock(&lock);
    struct stream_place *own = &place[stream_wait->word - words->go];
    own->given = true;
    if (!own->leaves) {
        own->taken = false;
        taken_count--;
    }
    pthread_mutex_unlock(&lock);
    stream_wait->word = NULL;
}

bool gyre_stream_wait_any(void)
{
    return atomic_load_explicit(&taken_count, memory_order_relaxed) != 0;
}

bool gyre_quiet_begin(void)
{
    pthread_mutex_lock(&lock);
    reap_passed();
    if (!taken_count)
        return true;
    pthread_mutex_unlock(&lock);
    return false;
}

void gyre_quiet_end(void)
{
    pthread_mutex_unlock(&lock);
}
