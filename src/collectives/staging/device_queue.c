/* Tickets over a device's queue. */
#include "collectives/staging/device_queue.h"

#include "base/clock.h"
#include "base/copy.h"
#include "collectives/kernels/reduce_cuda.h"

#include <errno.h>
#include <sched.h>

#define REPORTS   64
#define NEVER     UINT64_MAX           /* ticket of what could not be posted */
#define SETTLE_NS UINT64_C(2000000000) /* that work of a failed job is waited for */
#define MOMENT_NS UINT64_C(1000000)

_Static_assert(GYRE_CARRIER_HOMES == 1 << (64 - 58), "what home_of() counts to");

void gyre_carrier_init(struct gyre_carrier *carrier, int index)
{
    carrier->device = index < 0 ? NULL : gyre_device_of(GYRE_MEMORY_CUDA);
    carrier->unused = index < 0 ? gyre_device_of(GYRE_MEMORY_CUDA) : NULL;
    carrier->index = carrier->device ? index : -1;
    carrier->posted = carrier->finished = 1;
}

/* To ask whether CUDA is loaded takes longer than a hundred short operations, and to load it longer than
 * MOMENT_NS, so within a moment of the answer no address can be CUDA's. */
static bool cuda_present(struct gyre_carrier *carrier)
{
    uint64_t now = gyre_now_ns();
    uint64_t absent = atomic_load_explicit(&carrier->absent_ns, memory_order_relaxed);
    if (absent && now - absent < MOMENT_NS)
        return false;
    if (gyre_device_cuda_present())
        return true;
    atomic_store_explicit(&carrier->absent_ns, now, memory_order_relaxed);
    return false;
}

/* Buffers begin at pages, so no few bits of an address tell them apart. */
static _Atomic(const void *) *home_of(struct gyre_carrier *carrier, const void *memory)
{
    uint64_t mixed = (uint64_t)(uintptr_t)memory * UINT64_C(0x9e3779b97f4a7c15);
    return &carrier->home[mixed >> 58];
}

bool gyre_carrier_looks_astray(struct gyre_carrier *carrier, const void *memory)
{
    _Atomic(const void *) *home = home_of(carrier, memory);
    if (atomic_load_explicit(home, memory_order_relaxed) == memory)
        return false;
    if (cuda_present(carrier) && carrier->unused->classify(memory) != GYRE_MEMORY_HOST)
        return true;
    atomic_store_explicit(home, memory, memory_order_relaxed);
    return false;
}

static void close_queue(const struct gyre_carrier *carrier, struct gyre_device_queue **queue)
{
    if (*queue)
        carrier->device->queue_destroy(*queue);
    *queue = NULL;
}

void gyre_carrier_deinit(struct gyre_carrier *carrier)
{
    close_queue(carrier, &carrier->queue);
    close_queue(carrier, &carrier->gates);
    carrier->finished = carrier->posted;
    carrier->reached = carrier->asked;
}

/* The kernels first: loading them may wait for streams, and without queues none is held yet. */
static int open_queues(struct gyre_carrier *carrier, struct gyre_trouble *trouble)
{
    const struct gyre_device *device = carrier->device;
    int status = device->prepare(carrier->index, gyre_reduce_cuda_load, trouble);
    if (!status && !carrier->queue)
        status = device->queue_create(carrier->index, &carrier->queue, trouble);
    if (!status)
        status = device->waiter_create(carrier->index, &carrier->gates, trouble);
    return status;
}

int gyre_carrier_open(struct gyre_carrier *carrier, struct gyre_trouble *trouble)
{
    if (carrier->status)
        return gyre_trouble_set(trouble, carrier->status, "%s", carrier->trouble.text);
    return carrier->gates ? 0 : open_queues(carrier, trouble);
}

int gyre_carrier_gate(struct gyre_carrier *carrier, void *stream, uint64_t *gate,
                      struct gyre_trouble *trouble)
{
    const struct gyre_device *device = carrier->device;
    int status = gyre_carrier_open(carrier, trouble);
    if (!status)
        status = device->after(carrier->gates, stream, trouble);
    if (status)
        return status;
    status = device->mark(carrier->gates, carrier->asked + 1);
    if (status < 0)
        return gyre_trouble_set(trouble, status, "a stream's place cannot be kept: %s",
                                gyre_status_name(status));
    *gate = ++carrier->asked;
    return 0;
}

int gyre_carrier_hold(struct gyre_carrier *carrier, void *stream, const gyre_device_word *word,
                      uint64_t value, struct gyre_trouble *trouble)
{
    return carrier->device->hold(carrier->gates, stream, word, value, trouble);
}

int gyre_carrier_fold_on(struct gyre_carrier *carrier, void *stream, gyre_fold fold,
                         const struct gyre_fold_task *task, struct gyre_trouble *trouble)
{
    int status = gyre_carrier_open(carrier, trouble);
    return status ? status : carrier->device->fold_on(carrier->queue, stream, fold, task, trouble);
}

uint32_t gyre_carrier_room(const struct gyre_carrier *carrier)
{
    return GYRE_DEVICE_POSTS - (uint32_t)(carrier->posted - carrier->finished);
}

static void lose(struct gyre_carrier *carrier, int status, const char *doing)
{
    if (carrier->status)
        return;
    carrier->status = status;
    gyre_trouble_set(&carrier->trouble, status, "%s device %d: %s failed: %s; see the log",
                     carrier->device->name, carrier->index, doing, gyre_status_name(status));
}

/* The ticket of a post: the next one, or, where it has finished already, the last one's. */
static uint64_t note(struct gyre_carrier *carrier, int status, const char *doing)
{
    if (status < 0) {
        lose(carrier, status, doing);
        return NEVER;
    }
    carrier->posted += status == 0;
    return carrier->posted;
}

static int make_room(struct gyre_carrier *carrier)
{
    return gyre_carrier_room(carrier) ? carrier->status
                                      : gyre_carrier_await(carrier, carrier->finished + 1);
}

uint64_t gyre_carrier_copy(struct gyre_carrier *carrier, void *to, const void *from, uint64_t bytes)
{
    if (make_room(carrier))
        return NEVER;
    return note(carrier,
                carrier->device->copy(carrier->queue, to, from, bytes, carrier->posted + 1),
                "a copy");
}

uint64_t gyre_carrier_fold(struct gyre_carrier *carrier, gyre_fold fold,
                           const struct gyre_fold_task *task)
{
    if (make_room(carrier))
        return NEVER;
    return note(carrier, carrier->device->reduce(carrier->queue, fold, task, carrier->posted + 1),
                "a fold");
}

static bool poll_queue(struct gyre_carrier *carrier, struct gyre_device_queue *queue,
                       uint64_t expected, uint64_t *seen)
{
    uint64_t token[REPORTS];
    if (*seen == expected || carrier->status)
        return false;
    int count = carrier->device->query(queue, token, REPORTS);
    if (count < 0)
        lose(carrier, count, "work");
    if (count > 0)
        *seen = token[count - 1];
    return count != 0;
}

bool gyre_carrier_poll(struct gyre_carrier *carrier)
{
    bool moved = poll_queue(carrier, carrier->queue, carrier->posted, &carrier->finished);
    return poll_queue(carrier, carrier->gates, carrier->asked, &carrier->reached) || moved;
}

int gyre_carrier_await(struct gyre_carrier *carrier, uint64_t ticket)
{
    while (!carrier->status && !gyre_carrier_done(carrier, ticket))
        if (!gyre_carrier_poll(carrier))
            sched_yield();
    return carrier->status;
}

void gyre_carrier_settle(struct gyre_carrier *carrier)
{
    uint64_t limit = gyre_now_ns() + SETTLE_NS;
    while (!carrier->status && !gyre_carrier_done(carrier, carrier->posted) &&
           gyre_now_ns() < limit)
        if (!gyre_carrier_poll(carrier))
            sched_yield();
}

int gyre_carrier_copy_now(struct gyre_carrier *carrier, void *to, const void *from, uint64_t bytes)
{
    if (!gyre_carrier_owns(carrier, to) && !gyre_carrier_owns(carrier, from)) {
        gyre_copy(to, from, bytes);
        return 0;
    }
    int status = gyre_carrier_open(carrier, &carrier->trouble);
    return status ? status
                  : gyre_carrier_await(carrier, gyre_carrier_copy(carrier, to, from, bytes));
}
