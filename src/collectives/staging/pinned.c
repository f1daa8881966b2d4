/* Locked pages, a pool of them, and a list of those that wait for a quiet moment to be given up; a
 * list's links lie in the pages themselves.
 *
 *     pool   [ used ][ used ][      free      ][ used ][  free  ]     in chunks
 *
 * Tested by tests/program/cuda/collectives.c. */
#include "collectives/staging/pinned.h"

#include "base/size.h"
#include "collectives/staging/stream_wait.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE   4096u
#define CHUNK  UINT64_C(65536)
#define CHUNKS 1024u /* 64 MiB */

struct parked {
    struct parked *next;
    const struct gyre_device *device;
    uint64_t bytes;
    int index;
    bool pooled;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct parked *first;
static uint8_t *pool; /* NULL: none */
static bool used[CHUNKS];

/* -- pages ------------------------------------------------------------------------------------- */

/* A child of a fork must not get copies: the device would go on with the parent's old pages. */
static uint8_t *new_pages(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

/* -- the pool ---------------------------------------------------------------------------------- */

void gyre_pinned_open(struct gyre_fold_queue *fold_queue)
{
    pthread_mutex_lock(&lock);
    uint8_t *memory = pool ? NULL : new_pages(CHUNKS * CHUNK);
    pthread_mutex_unlock(&lock);
    if (!memory || !gyre_quiet_begin()) {
        if (memory)
            munmap(memory, CHUNKS * CHUNK);
        return;
    }
    int status = fold_queue->device->pin(fold_queue->index, memory, CHUNKS * CHUNK, NULL);
    pthread_mutex_lock(&lock);
    bool taken = !status && !pool;
    if (taken)
        pool = memory;
    pthread_mutex_unlock(&lock);
    if (!status && !taken)
        fold_queue->device->unpin(fold_queue->index, memory);
    gyre_quiet_end();
    if (!taken)
        munmap(memory, CHUNKS * CHUNK);
}

/* Finds the first free stretch of so many chunks; CHUNKS: there is none. */
static uint32_t find_stretch(uint32_t chunks)
{
    uint32_t begin = 0;
    for (uint32_t i = 0; i < CHUNKS; i++) {
        if (used[i])
            begin = i + 1;
        else if (i + 1 - begin == chunks)
            return begin;
    }
    return CHUNKS;
}

static uint8_t *take_from_pool(uint64_t bytes)
{
    uint8_t *memory = NULL;
    uint64_t chunks = (bytes + CHUNK - 1) / CHUNK;
    pthread_mutex_lock(&lock);
    uint32_t begin = pool && chunks <= CHUNKS ? find_stretch((uint32_t)chunks) : CHUNKS;
    if (begin < CHUNKS) {
        memset(used + begin, true, chunks);
        memory = pool + begin * CHUNK;
    }
    pthread_mutex_unlock(&lock);
    return memory;
}

static void return_to_pool(const void *memory, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    memset(used + ((const uint8_t *)memory - pool) / CHUNK, false, (bytes + CHUNK - 1) / CHUNK);
    pthread_mutex_unlock(&lock);
}

/* -- what waits for a quiet moment ------------------------------------------------------------- */

static void park(const struct gyre_fold_queue *fold_queue, const struct gyre_pinned *pinned)
{
    struct parked *parked = (struct parked *)(void *)pinned->memory;
    pthread_mutex_lock(&lock);
    *parked = (struct parked){first, fold_queue->device, pinned->bytes, fold_queue->index,
                              pinned->pooled};
    first = parked;
    pthread_mutex_unlock(&lock);
}

static void give_up_one(struct parked *parked)
{
    struct parked gone = *parked;
    if (gone.pooled) {
        return_to_pool(parked, gone.bytes);
        return;
    }
    gone.device->unpin(gone.index, parked);
    munmap(parked, gone.bytes);
}

/* In a quiet moment. */
static void give_up_parked(void)
{
    pthread_mutex_lock(&lock);
    struct parked *parked = first;
    first = NULL;
    pthread_mutex_unlock(&lock);
    while (parked) {
        struct parked *next = parked->next;
        give_up_one(parked);
        parked = next;
    }
}

/* -- the calls --------------------------------------------------------------------------------- */

/* Exchanges memory that could not be locked for memory of the pool. */
static void take_pooled(struct gyre_pinned *pinned)
{
    uint8_t *memory = take_from_pool(pinned->bytes);
    if (!memory)
        return;
    if (pinned->memory)
        munmap(pinned->memory, pinned->bytes);
    pinned->memory = memory;
    pinned->tried = pinned->locked = pinned->pooled = true;
}

void gyre_pinned_lock(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned)
{
    if (pinned->tried)
        return;
    if (gyre_tickets_busy(&fold_queue->work) || !gyre_quiet_begin()) {
        take_pooled(pinned);
        return;
    }
    give_up_parked();
    pinned->tried = true;
    pinned->locked =
        fold_queue->device->pin(fold_queue->index, pinned->memory, pinned->bytes, NULL) == 0;
    gyre_quiet_end();
}

int gyre_pinned_make(struct gyre_fold_queue *fold_queue, uint64_t bytes, struct gyre_pinned *pinned)
{
    *pinned = (struct gyre_pinned){.bytes = gyre_round_up(bytes ? bytes : 1, PAGE)};
    pinned->memory = new_pages(pinned->bytes);
    if (!pinned->memory)
        return -ENOMEM;
    gyre_pinned_lock(fold_queue, pinned);
    return 0;
}

void gyre_pinned_drop(struct gyre_fold_queue *fold_queue, struct gyre_pinned *pinned, bool idle)
{
    if (pinned->pooled && idle) {
        return_to_pool(pinned->memory, pinned->bytes);
    } else if (pinned->locked) {
        park(fold_queue, pinned);
        if (gyre_quiet_begin()) {
            give_up_parked();
            gyre_quiet_end();
        }
    } else if (pinned->memory) {
        munmap(pinned->memory, pinned->bytes);
    }
    *pinned = (struct gyre_pinned){0};
}
