/* Future events: one heap, ordered by time and, where times are equal, by the order of scheduling.
 * And storage for what a rehearsal makes and forgets by the thousand.
 *
 * Tested by tests/unit/collectives/rehearsal/rehearsal_test.c. */
#include "collectives/rehearsal/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_PER_BLOCK 128u

/* -- storage ----------------------------------------------------------------------------------- */

/* A block begins with the address of the block before it, in the room of one part. */
static bool add_parts(struct gyre_drill_pool *pool)
{
    void *block = calloc(PARTS_PER_BLOCK + 1, pool->size);
    if (block == NULL)
        return false;
    memcpy(block, &pool->block, sizeof pool->block);
    pool->block = block;
    pool->left = PARTS_PER_BLOCK;
    return true;
}

void *gyre_drill_take(struct gyre_drill *drill, struct gyre_drill_pool *pool)
{
    void *part = pool->given_back;
    if (part != NULL) {
        memcpy(&pool->given_back, part, sizeof pool->given_back);
        memset(part, 0, pool->size);
        return part;
    }
    if (pool->left == 0 && !add_parts(pool)) {
        drill->status = -ENOMEM;
        return NULL;
    }
    return (char *)pool->block + (size_t)pool->size * pool->left--;
}

void gyre_drill_give(struct gyre_drill_pool *pool, void *part)
{
    memcpy(part, &pool->given_back, sizeof pool->given_back);
    pool->given_back = part;
}

void gyre_drill_drop(struct gyre_drill_pool *pool)
{
    while (pool->block != NULL) {
        void *block = pool->block;
        memcpy(&pool->block, block, sizeof pool->block);
        free(block);
    }
}

/* -- events ------------------------------------------------------------------------------------ */

static bool is_before(const struct gyre_drill_event *a, const struct gyre_drill_event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static bool grow_heap(struct gyre_drill *drill)
{
    if (drill->heap_size < drill->heap_capacity)
        return true;
    uint32_t capacity = drill->heap_capacity != 0 ? 2 * drill->heap_capacity : 64;
    struct gyre_drill_event *heap = realloc(drill->heap, capacity * sizeof *heap);
    if (heap == NULL) {
        drill->status = -ENOMEM;
        return false;
    }
    drill->heap = heap;
    drill->heap_capacity = capacity;
    return true;
}

void gyre_drill_schedule(struct gyre_drill *drill, const struct gyre_drill_event *event)
{
    if (!grow_heap(drill))
        return;
    struct gyre_drill_event fresh = *event, *heap = drill->heap;
    fresh.order = drill->order++;
    uint32_t at = drill->heap_size++;
    for (; at > 0 && is_before(&fresh, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = fresh;
}

struct gyre_drill_event gyre_drill_next_event(struct gyre_drill *drill)
{
    struct gyre_drill_event *heap = drill->heap, first = heap[0], last = heap[--drill->heap_size];
    uint32_t at = 0, child;
    for (; (child = 2 * at + 1) < drill->heap_size; at = child) {
        child += child + 1 < drill->heap_size && is_before(&heap[child + 1], &heap[child]);
        if (!is_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}
