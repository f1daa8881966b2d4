/* Work on one device, work on the caller's streams, and what memory is whose. */
#include "collectives/staging/fold_queue.h"

#include "base/clock.h"
#include "base/copy.h"
#include "collectives/kernels/reduce_cuda.h"
#include "collectives/staging/stream_wait.h"

#include <errno.h>
#include <sched.h>

#define NEVER     UINT64_MAX           /* ticket of what could not be posted */
#define SETTLE_NS UINT64_C(2000000000) /* that work of a failed job is waited for */
#define MOMENT_NS UINT64_C(1000000)
#define LOOK_NS   UINT64_C(10000000) /* between questions whether the device serves */

_Static_assert(GYRE_FOLD_QUEUE_HOST_ADDRESSES == 1 << (64 - 58), "what home_of() counts to");

void gyre_fold_queue_init(struct gyre_fold_queue *fold_queue, int index)
{
    fold_queue->device = index < 0 ? NULL : gyre_device_of(GYRE_MEMORY_CUDA);
    fold_queue->unused = index < 0 ? gyre_device_of(GYRE_MEMORY_CUDA) : NULL;
    fold_queue->index = fold_queue->device ? index : -1;
    fold_queue->work.device = fold_queue->device;
    fold_queue->work.posted = fold_queue->work.finished = 1;
}

/* To ask whether CUDA is loaded takes longer than a hundred short operations. To load CUDA takes
 * longer than MOMENT_NS, so within a moment of the answer no address can be CUDA's. */
static bool cuda_present(struct gyre_fold_queue *fold_queue)
{
    uint64_t now = gyre_now_ns();
    uint64_t absent = atomic_load_explicit(&fold_queue->absent_ns, memory_order_relaxed);
    if (absent && now - absent < MOMENT_NS)
        return false;
    if (gyre_device_cuda_present())
        return true;
    atomic_store_explicit(&fold_queue->absent_ns, now, memory_order_relaxed);
    return false;
}

/* Buffers begin at pages, so no few bits of an address tell them apart. */
static _Atomic(const void *) *host_address_of(struct gyre_fold_queue *fold_queue,
                                              const void *memory)
{
    uint64_t mixed = (uint64_t)(uintptr_t)memory * UINT64_C(0x9e3779b97f4a7c15);
    return &fold_queue->host_address[mixed >> 58];
}

bool gyre_fold_queue_looks_foreign(struct gyre_fold_queue *fold_queue, const void *memory)
{
    _Atomic(const void *) *host_address = host_address_of(fold_queue, memory);
    if (atomic_load_explicit(host_address, memory_order_relaxed) == memory)
        return false;
    if (cuda_present(fold_queue) && fold_queue->unused->classify(memory) != GYRE_MEMORY_HOST)
        return true;
    atomic_store_explicit(host_address, memory, memory_order_relaxed);
    return false;
}

int gyre_fold_queue_recognise(struct gyre_fold_queue *fold_queue, const void *memory,
                              enum gyre_memory_kind *kind, struct gyre_trouble *trouble)
{
    *kind = GYRE_MEMORY_HOST;
    if (gyre_fold_queue_is_foreign(fold_queue, memory))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%p is CUDA memory, and this rank has no CUDA device: name one by "
                                "gyre run --devices, GYRE_DEVICES or options.devices, or use CUDA "
                                "before the rank joins",
                                memory);
    return fold_queue->device && memory
               ? fold_queue->device->recognise(fold_queue->index, memory, kind, trouble)
               : 0;
}

void gyre_fold_queue_deinit(struct gyre_fold_queue *fold_queue)
{
    gyre_tickets_close(&fold_queue->work);
}

/* The kernels first: loading them may wait for streams, and without a queue none is held yet. */
static int open_work(struct gyre_fold_queue *fold_queue, struct gyre_trouble *trouble)
{
    const struct gyre_device *device = fold_queue->device;
    int status = device->prepare(fold_queue->index, gyre_reduce_cuda_load, trouble);
    if (!status)
        status = device->queue_create(fold_queue->index, &fold_queue->work.queue, trouble);
    return status;
}

int gyre_fold_queue_open(struct gyre_fold_queue *fold_queue, struct gyre_trouble *trouble)
{
    if (fold_queue->status)
        return gyre_trouble_set(trouble, fold_queue->status, "%s", fold_queue->trouble.text);
    return fold_queue->work.queue ? 0 : open_work(fold_queue, trouble);
}

int gyre_fold_queue_check_stream(struct gyre_fold_queue *fold_queue, void *stream, bool *captured,
                                 struct gyre_trouble *trouble)
{
    int status = gyre_fold_queue_open(fold_queue, trouble);
    if (!status)
        status =
            fold_queue->device->check_stream(fold_queue->work.queue, stream, captured, trouble);
    return status ? status : gyre_stream_wait_open(fold_queue->device, fold_queue->index, trouble);
}

int gyre_fold_queue_copy_on(struct gyre_fold_queue *fold_queue, void *stream, void *to,
                            const void *from, uint64_t bytes, struct gyre_trouble *trouble)
{
    return fold_queue->device->copy_on(fold_queue->work.queue, stream, to, from, bytes, trouble);
}

int gyre_fold_queue_words_on(struct gyre_fold_queue *fold_queue, void *stream,
                             const struct gyre_stream_word *word, uint32_t words,
                             struct gyre_trouble *trouble)
{
    return fold_queue->device->words_on(fold_queue->work.queue, stream, word, words, trouble);
}

int gyre_fold_queue_fold_on(struct gyre_fold_queue *fold_queue, void *stream, gyre_fold fold,
                            const struct gyre_fold_task *task, struct gyre_trouble *trouble)
{
    int status = gyre_fold_queue_open(fold_queue, trouble);
    return status
               ? status
               : fold_queue->device->fold_on(fold_queue->work.queue, stream, fold, task, trouble);
}

gyre_fold gyre_fold_queue_copier(const struct gyre_fold_queue *fold_queue)
{
    return gyre_reduce_table(fold_queue->device->kind)->fold[GYRE_U8][GYRE_OR];
}

static void lose_fold_queue(struct gyre_fold_queue *fold_queue, int status, const char *doing)
{
    if (fold_queue->status)
        return;
    fold_queue->status = status;
    gyre_trouble_set(&fold_queue->trouble, status, "%s device %d: %s failed: %s; see the log",
                     fold_queue->device->name, fold_queue->index, doing, gyre_status_name(status));
}

static int await_queue_room(struct gyre_fold_queue *fold_queue)
{
    return gyre_fold_queue_room(fold_queue)
               ? fold_queue->status
               : gyre_fold_queue_await(fold_queue, fold_queue->work.finished + 1);
}

uint64_t gyre_fold_queue_copy(struct gyre_fold_queue *fold_queue, void *to, const void *from,
                              uint64_t bytes)
{
    uint64_t ticket = NEVER;
    if (await_queue_room(fold_queue))
        return NEVER;
    int status = gyre_tickets_copy(&fold_queue->work, to, from, bytes, &ticket);
    if (status)
        lose_fold_queue(fold_queue, status, "a copy");
    return ticket;
}

uint64_t gyre_fold_queue_fold(struct gyre_fold_queue *fold_queue, gyre_fold fold,
                              const struct gyre_fold_task *task)
{
    uint64_t ticket = NEVER;
    if (await_queue_room(fold_queue))
        return NEVER;
    int status = gyre_tickets_fold(&fold_queue->work, fold, task, &ticket);
    if (status)
        lose_fold_queue(fold_queue, status, "a fold");
    return ticket;
}

/* Nothing is posted for an operation that stands on a stream, so nobody would hear that the device
 * is lost under it. */
static void ask_device(struct gyre_fold_queue *fold_queue)
{
    uint64_t now = gyre_now_ns();
    if (!fold_queue->work.queue || now - fold_queue->looked_ns < LOOK_NS)
        return;
    fold_queue->looked_ns = now;
    int status = fold_queue->device->serves(fold_queue->work.queue);
    if (status)
        lose_fold_queue(fold_queue, status, "work on a stream");
}

bool gyre_fold_queue_poll(struct gyre_fold_queue *fold_queue)
{
    if (!fold_queue->status && gyre_stream_wait_any())
        ask_device(fold_queue);
    int count = fold_queue->status ? 0 : gyre_tickets_look(&fold_queue->work);
    if (count < 0)
        lose_fold_queue(fold_queue, count, "work");
    return count != 0;
}

int gyre_fold_queue_await(struct gyre_fold_queue *fold_queue, uint64_t ticket)
{
    while (!fold_queue->status && !gyre_fold_queue_done(fold_queue, ticket))
        if (!gyre_fold_queue_poll(fold_queue))
            sched_yield();
    return fold_queue->status;
}

void gyre_fold_queue_settle(struct gyre_fold_queue *fold_queue)
{
    uint64_t limit = gyre_now_ns() + SETTLE_NS;
    while (!fold_queue->status && !gyre_fold_queue_done(fold_queue, fold_queue->work.posted) &&
           gyre_now_ns() < limit)
        if (!gyre_fold_queue_poll(fold_queue))
            sched_yield();
}

int gyre_fold_queue_copy_now(struct gyre_fold_queue *fold_queue, void *to, const void *from,
                             uint64_t bytes, bool on_device)
{
    if (!on_device) {
        gyre_copy(to, from, bytes);
        return 0;
    }
    int status = gyre_fold_queue_open(fold_queue, &fold_queue->trouble);
    return status ? status
                  : gyre_fold_queue_await(fold_queue,
                                          gyre_fold_queue_copy(fold_queue, to, from, bytes));
}
