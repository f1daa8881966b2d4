/* Two small tables, of shared regions and of lent memory, found by address under one lock. Host
 * memory and a device's stand in the same tables, since no address means both; who asks says which
 * kind it can use. */
#include "transport/memory/lookup.h"

#include <errno.h>
#include <stdlib.h>

int gyre_lookup_init(struct gyre_memory_lookup *lookup, uint32_t first_id)
{
    pthread_mutex_init(&lookup->lock, NULL);
    lookup->next_id = first_id;
    lookup->shared = calloc(GYRE_SHARED_REGIONS_MAX, sizeof(*lookup->shared));
    return lookup->shared ? 0 : -ENOMEM;
}

void gyre_lookup_deinit(struct gyre_memory_lookup *lookup)
{
    free(lookup->shared);
    free(lookup->lent);
    pthread_mutex_destroy(&lookup->lock);
}

/* Whether [base, base + room) holds a span of at least one byte. */
static bool holds(const void *base, uint64_t room, const void *memory, uint64_t length)
{
    uintptr_t begin = (uintptr_t)base, at = (uintptr_t)memory;
    return length && at >= begin && at - begin < room && length <= room - (at - begin);
}

/* -- shared ------------------------------------------------------------------------------------ */

static struct gyre_shared *free_region_place(struct gyre_memory_lookup *lookup)
{
    for (uint32_t i = 0; i < lookup->shared_used; i++)
        if (!lookup->shared[i].id)
            return &lookup->shared[i];
    return lookup->shared_used < GYRE_SHARED_REGIONS_MAX ? &lookup->shared[lookup->shared_used++]
                                                         : NULL;
}

uint32_t gyre_lookup_add(struct gyre_memory_lookup *lookup, const struct gyre_region *region)
{
    pthread_mutex_lock(&lookup->lock);
    struct gyre_shared *place = free_region_place(lookup);
    uint32_t id = place ? lookup->next_id++ : 0;
    if (place)
        *place = (struct gyre_shared){.region = *region, .id = id};
    pthread_mutex_unlock(&lookup->lock);
    return id;
}

void gyre_lookup_mark_mapped(struct gyre_memory_lookup *lookup, uint32_t id, bool copied)
{
    pthread_mutex_lock(&lookup->lock);
    for (uint32_t i = 0; i < lookup->shared_used; i++)
        if (lookup->shared[i].id == id) {
            lookup->shared[i].mapped = true;
            lookup->shared[i].copied = copied;
        }
    pthread_mutex_unlock(&lookup->lock);
}

void gyre_lookup_give(struct gyre_memory_lookup *lookup, const void *base)
{
    pthread_mutex_lock(&lookup->lock);
    for (uint32_t i = 0; i < lookup->shared_used; i++)
        if (lookup->shared[i].id && lookup->shared[i].region.base == base)
            lookup->shared[i].given = true;
    pthread_mutex_unlock(&lookup->lock);
}

int gyre_lookup_take_descriptor(struct gyre_memory_lookup *lookup, const void *base)
{
    int fd = -1;
    pthread_mutex_lock(&lookup->lock);
    for (uint32_t i = 0; i < lookup->shared_used; i++)
        if (lookup->shared[i].id && lookup->shared[i].region.base == base) {
            fd = lookup->shared[i].region.fd;
            lookup->shared[i].region.fd = -1;
        }
    pthread_mutex_unlock(&lookup->lock);
    return fd;
}

void *gyre_lookup_first_given(struct gyre_memory_lookup *lookup)
{
    void *base = NULL;
    pthread_mutex_lock(&lookup->lock);
    for (uint32_t i = lookup->shared_used; i-- > 0;)
        if (lookup->shared[i].id && lookup->shared[i].given)
            base = lookup->shared[i].region.base;
    pthread_mutex_unlock(&lookup->lock);
    return base;
}

bool gyre_lookup_remove(struct gyre_memory_lookup *lookup, const void *base,
                        struct gyre_shared *removed)
{
    removed->id = 0;
    pthread_mutex_lock(&lookup->lock);
    for (uint32_t i = 0; i < lookup->shared_used; i++)
        if (lookup->shared[i].id && lookup->shared[i].region.base == base) {
            *removed = lookup->shared[i];
            lookup->shared[i].id = 0;
        }
    pthread_mutex_unlock(&lookup->lock);
    atomic_fetch_add(&lookup->gone, removed->id != 0);
    return removed->id;
}

int gyre_lookup_detach(struct gyre_memory_lookup *lookup, uint32_t id, struct gyre_trouble *trouble)
{
    int status = 0;
    pthread_mutex_lock(&lookup->lock);
    for (uint32_t i = 0; i < lookup->shared_used; i++)
        if (lookup->shared[i].id == id && lookup->shared[i].mapped) {
            struct gyre_region *region = &lookup->shared[i].region;
            status = gyre_device_of(region->kind)->detach(region, trouble);
            lookup->shared[i].mapped = false;
        }
    pthread_mutex_unlock(&lookup->lock);
    return status;
}

/* The region that holds the span; NULL: none does. Under the lock. */
static const struct gyre_shared *find_shared(const struct gyre_memory_lookup *lookup,
                                             enum gyre_memory_kind kind, const void *memory,
                                             uint64_t length)
{
    for (uint32_t i = 0; i < lookup->shared_used; i++) {
        const struct gyre_shared *shared = &lookup->shared[i];
        if (shared->id && shared->region.kind == kind &&
            holds(shared->region.base, shared->region.length, memory, length))
            return shared;
    }
    return NULL;
}

uint32_t gyre_lookup_locate(struct gyre_memory_lookup *lookup, enum gyre_memory_kind kind,
                            const void *memory, uint64_t length, bool copied, uint64_t *offset)
{
    pthread_mutex_lock(&lookup->lock);
    const struct gyre_shared *shared = find_shared(lookup, kind, memory, length);
    bool fits = shared && shared->mapped && (copied || !shared->copied);
    uint32_t id = fits ? shared->id : 0;
    if (id)
        *offset = (uint64_t)((const uint8_t *)memory - (const uint8_t *)shared->region.base);
    pthread_mutex_unlock(&lookup->lock);
    return id;
}

/* -- lent -------------------------------------------------------------------------------------- */

static enum gyre_memory_kind kind_of(const void *memory)
{
    const struct gyre_device *cuda =
        gyre_device_cuda_present() ? gyre_device_of(GYRE_MEMORY_CUDA) : NULL;
    return cuda ? cuda->classify(memory) : GYRE_MEMORY_HOST;
}

static bool make_lent_room(struct gyre_memory_lookup *lookup)
{
    uint32_t room = lookup->lent_room ? 2 * lookup->lent_room : 16;
    if (lookup->lent_used < lookup->lent_room)
        return true;
    struct gyre_lent *more = realloc(lookup->lent, room * sizeof *more);
    if (!more)
        return false;
    lookup->lent = more;
    lookup->lent_room = room;
    return true;
}

int gyre_lookup_lend(struct gyre_memory_lookup *lookup, void *memory, uint64_t length)
{
    enum gyre_memory_kind kind = kind_of(memory);
    pthread_mutex_lock(&lookup->lock);
    bool good = make_lent_room(lookup);
    if (good)
        lookup->lent[lookup->lent_used++] =
            (struct gyre_lent){memory, length, kind, lookup->next_id++};
    pthread_mutex_unlock(&lookup->lock);
    return good ? 0 : -ENOMEM;
}

void gyre_lookup_withdraw(struct gyre_memory_lookup *lookup, const void *memory, uint64_t length)
{
    pthread_mutex_lock(&lookup->lock);
    uint32_t i = 0;
    while (i < lookup->lent_used &&
           (lookup->lent[i].base != memory || lookup->lent[i].length != length))
        i++;
    if (i < lookup->lent_used) {
        for (lookup->lent_used--; i < lookup->lent_used; i++)
            lookup->lent[i] = lookup->lent[i + 1];
        atomic_fetch_add(&lookup->gone, 1);
    }
    pthread_mutex_unlock(&lookup->lock);
}

/* The lent memory that holds the span; NULL: none does. Under the lock. */
static const struct gyre_lent *find_lent(const struct gyre_memory_lookup *lookup,
                                         enum gyre_memory_kind kind, const void *memory,
                                         uint64_t length)
{
    for (uint32_t i = 0; i < lookup->lent_used; i++) {
        const struct gyre_lent *lent = &lookup->lent[i];
        if (lent->kind == kind && holds(lent->base, lent->length, memory, length))
            return lent;
    }
    return NULL;
}

/* -- either ------------------------------------------------------------------------------------ */

uint32_t gyre_lookup_hold(struct gyre_memory_lookup *lookup, enum gyre_memory_kind kind,
                          const void *memory, uint64_t length, void **base, uint64_t *span)
{
    uint32_t id = 0;
    pthread_mutex_lock(&lookup->lock);
    const struct gyre_shared *shared = find_shared(lookup, kind, memory, length);
    const struct gyre_lent *lent = shared ? NULL : find_lent(lookup, kind, memory, length);
    if (shared || lent) {
        id = shared ? shared->id : lent->id;
        *base = shared ? shared->region.base : lent->base;
        *span = shared ? shared->region.length : lent->length;
    }
    pthread_mutex_unlock(&lookup->lock);
    return id;
}

bool gyre_lookup_lives(struct gyre_memory_lookup *lookup, uint32_t id)
{
    bool found = false;
    pthread_mutex_lock(&lookup->lock);
    for (uint32_t i = 0; i < lookup->shared_used && !found; i++)
        found = lookup->shared[i].id == id;
    for (uint32_t i = 0; i < lookup->lent_used && !found; i++)
        found = lookup->lent[i].id == id;
    pthread_mutex_unlock(&lookup->lock);
    return found;
}

uint32_t gyre_lookup_gone(const struct gyre_memory_lookup *lookup)
{
    return atomic_load_explicit(&lookup->gone, memory_order_relaxed);
}

/* -- peers and devices ------------------------------------------------------------------------- */

void *gyre_lookup_view(const struct gyre_memory_lookup *lookup, uint32_t peer, uint32_t region,
                       enum gyre_memory_kind kind, uint64_t offset, uint64_t length)
{
    uint64_t end;
    if (!lookup->views || __builtin_add_overflow(offset, length, &end))
        return NULL;
    uint8_t *base = gyre_views_find(lookup->views, peer, region, kind, end);
    return base ? base + offset : NULL;
}

int gyre_lookup_dma_buf(const struct gyre_memory_lookup *lookup, const void *base, uint64_t length,
                        struct gyre_trouble *trouble)
{
    return lookup->device->dma_buf(lookup->device_index, base, length, trouble);
}

int gyre_lookup_flush(const struct gyre_memory_lookup *lookup, struct gyre_trouble *trouble)
{
    return lookup->device->flush(lookup->device_index, trouble);
}
