/* The future events of the simulated world: one heap, ordered by time and, where times are equal,
 * by the order of scheduling. Tested by tests/unit/transport/link/sim/world_test.c. */
#include "transport/link/sim/inside.h"

#include <stdlib.h>

static bool before(const struct gyre_sim_event *a, const struct gyre_sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static bool make_event_room(struct gyre_sim_world *world)
{
    if (world->heap_size < world->heap_capacity) {
        return true;
    }
    uint32_t capacity = world->heap_capacity ? 2 * world->heap_capacity : 64;
    struct gyre_sim_event *heap = realloc(world->heap, capacity * sizeof *heap);
    if (heap) {
        world->heap = heap;
        world->heap_capacity = capacity;
    }
    return heap != NULL;
}

void gyre_sim_schedule(struct gyre_sim_world *world, const struct gyre_sim_event *event)
{
    if (!make_event_room(world)) {
        world->out_of_memory = true;
        return;
    }
    struct gyre_sim_event fresh = *event;
    fresh.order = world->order++;
    uint32_t at = world->heap_size++;
    while (at > 0 && before(&fresh, &world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = fresh;
}

struct gyre_sim_event gyre_sim_take_event(struct gyre_sim_world *world)
{
    struct gyre_sim_event first = world->heap[0], last = world->heap[--world->heap_size];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < world->heap_size) {
        child +=
            child + 1 < world->heap_size && before(&world->heap[child + 1], &world->heap[child]);
        if (!before(&world->heap[child], &last)) {
            break;
        }
        world->heap[at] = world->heap[child];
        at = child;
    }
    world->heap[at] = last;
    return first;
}
