/* What happens between detectors, and when faults come: a heap over virtual time. The world's
 * conductor, a rank that is none, is woken for the first event. */
#include "sim/hunt/inside.h"

#include <string.h>

#define EVENTS 16384

static struct {
    struct hunt_event heap[EVENTS];
    uint32_t count;
    uint64_t order;
} queue;

void hunt_events_reset(void)
{
    queue.count = 0;
    queue.order = 0;
}

static bool earlier(const struct hunt_event *a, const struct hunt_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct hunt_event *a, struct hunt_event *b)
{
    struct hunt_event kept = *a;
    *a = *b;
    *b = kept;
}

static void enqueue(struct hunt_event event)
{
    if (queue.count == EVENTS) {
        hunt_wrong("the rig has more than %d events under way", EVENTS);
        return;
    }
    uint32_t at = queue.count++;
    queue.heap[at] = event;
    for (; at > 0 && earlier(&queue.heap[at], &queue.heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&queue.heap[at], &queue.heap[(at - 1) / 2]);
    if (at == 0)
        gyre_sim_world_wake(hunt.world, hunt.is->n, event.at - HUNT_START);
}

void hunt_schedule(struct hunt_event event)
{
    event.order = queue.order++;
    enqueue(event);
}

void hunt_postpone(const struct hunt_event *event, uint64_t at)
{
    struct hunt_event later = *event;
    later.at = at;
    enqueue(later);
}

static void take_first(void)
{
    uint32_t at = 0;
    queue.heap[0] = queue.heap[--queue.count];
    for (;;) {
        uint32_t least = at, left = 2 * at + 1, right = left + 1;
        if (left < queue.count && earlier(&queue.heap[left], &queue.heap[least]))
            least = left;
        if (right < queue.count && earlier(&queue.heap[right], &queue.heap[least]))
            least = right;
        if (least == at)
            return;
        swap(&queue.heap[at], &queue.heap[least]);
        at = least;
    }
}

bool hunt_take_event(uint64_t now, struct hunt_event *event)
{
    if (queue.count == 0)
        return false;
    if (queue.heap[0].at > now) {
        gyre_sim_world_wake(hunt.world, hunt.is->n, queue.heap[0].at - HUNT_START);
        return false;
    }
    *event = queue.heap[0];
    take_first();
    return true;
}
