/* Trials in device memory: the variant's arena goes there, is folded there, and comes back.
 *
 *     arena_of_variant ──copy──▶ region ──fold──▶ region ──copy──▶ arena_of_variant
 *
 * What is posted is awaited before the next: the kernels are on trial here, not the queue. */
#include "kernel/reduce_device.h"

#include "base/clock.h"
#include "rig/test.h"

#include <errno.h>
#include <string.h>

#define DEADLINE (60 * GYRE_SECOND)

static const struct gyre_device *device;
static struct gyre_device_queue *queue;
static struct gyre_region region;

bool reduce_device_open(const char *name, struct gyre_trouble *trouble)
{
    if (strcmp(name, "cuda") != 0 || !gyre_reduce_table(GYRE_MEMORY_CUDA)) {
        gyre_trouble_set(trouble, -ENODEV, "this build has no kernels for the device '%s'", name);
        return false;
    }
    device = gyre_device_of(GYRE_MEMORY_CUDA);
    if (!device) {
        gyre_trouble_set(trouble, -ENODEV, "this build has no device '%s'", name);
        return false;
    }
    return device->probe(trouble) > 0 && !device->queue_create(0, &queue, trouble) &&
           !device->alloc(0, reduce_arena_bytes(), GYRE_SHARE_OPEN, &region, trouble);
}

void reduce_device_close(void)
{
    if (device) {
        device->free(&region);
        device->queue_destroy(queue);
    }
}

const struct gyre_reduce_table *reduce_device_table(void)
{
    return gyre_reduce_table(GYRE_MEMORY_CUDA);
}

/* -- one trial --------------------------------------------------------------------------------- */

/* Waits for what was posted with token 1, if it has not finished already. */
static void await(int posted)
{
    uint64_t token = 0, deadline = gyre_now_ns() + DEADLINE;
    int found = posted;
    while (found == 0 && gyre_now_ns() < deadline)
        found = device->query(queue, &token, 1);
    if (found != 1)
        fail_msg("the device's queue says %d", found);
}

static void copy_to(size_t at, size_t bytes)
{
    await(device->copy(queue, (char *)region.base + at, arena_of_variant + at, bytes, 1));
}

static void copy_back(size_t at, size_t bytes)
{
    await(device->copy(queue, arena_of_variant + at, (char *)region.base + at, bytes, 1));
}

static void fold_there(const struct gyre_fold_task *task, gyre_fold fold)
{
    await(device->reduce(queue, fold, task, 1));
}

void run_trial_on_device(const struct trial *trial, gyre_fold fold)
{
    for_each_span(trial, copy_to);
    run_trial_by(fold_there, region.base, trial, fold);
    for_each_span(trial, copy_back);
}
