/* What drivers see of memory: this process's, and what peers of the node have shared.
 *
 *     shared     by gyre_alloc(), gyre_alloc_device(), and scratch
 *     lent       by gyre_register(): the program's own, until it is withdrawn
 *
 * Host memory and a device's are shown apart, since a driver copies with this CPU. Whoever keeps
 * something about memory (a registration with a card) knows it by its id, which never comes back,
 * and looks whether it is still there when the count of what has gone changes: nobody calls a
 * driver for that. */
#include "transport/domain/inside.h"

#include <errno.h>
#include <stdlib.h>

/* -- lent -------------------------------------------------------------------------------------- */

static enum gyre_memory_kind kind_of(const void *memory)
{
    const struct gyre_device *cuda =
        gyre_device_cuda_present() ? gyre_device_of(GYRE_MEMORY_CUDA) : NULL;
    return cuda ? cuda->classify(memory) : GYRE_MEMORY_HOST;
}

static bool make_lent_room(struct gyre_domain *domain)
{
    uint32_t room = domain->lent_room ? 2 * domain->lent_room : 16;
    if (domain->lent_used < domain->lent_room)
        return true;
    struct gyre_lent *more = realloc(domain->lent, room * sizeof *more);
    if (!more)
        return false;
    domain->lent = more;
    domain->lent_room = room;
    return true;
}

int gyre_domain_lend(struct gyre_domain *domain, void *memory, uint64_t length)
{
    enum gyre_memory_kind kind = kind_of(memory);
    pthread_mutex_lock(&domain->shared_lock);
    bool good = make_lent_room(domain);
    if (good)
        domain->lent[domain->lent_used++] =
            (struct gyre_lent){memory, length, kind, domain->next_id++};
    pthread_mutex_unlock(&domain->shared_lock);
    return good ? 0 : -ENOMEM;
}

/* Communicators may lend the same: one of them goes. */
void gyre_domain_withdraw(struct gyre_domain *domain, const void *memory, uint64_t length)
{
    pthread_mutex_lock(&domain->shared_lock);
    uint32_t i = 0;
    while (i < domain->lent_used &&
           (domain->lent[i].base != memory || domain->lent[i].length != length))
        i++;
    if (i < domain->lent_used) {
        for (domain->lent_used--; i < domain->lent_used; i++)
            domain->lent[i] = domain->lent[i + 1];
        atomic_fetch_add(&domain->gone, 1);
    }
    pthread_mutex_unlock(&domain->shared_lock);
}

/* Under the lock. */
static const struct gyre_lent *find_lent(const struct gyre_domain *domain,
                                         enum gyre_memory_kind kind, const void *memory,
                                         uint64_t length)
{
    uintptr_t at = (uintptr_t)memory;
    for (uint32_t i = 0; length && i < domain->lent_used; i++) {
        const struct gyre_lent *lent = &domain->lent[i];
        uintptr_t base = (uintptr_t)lent->base;
        if (lent->kind == kind && at >= base && at - base < lent->length &&
            length <= lent->length - (at - base))
            return lent;
    }
    return NULL;
}

/* -- what is held ------------------------------------------------------------------------------ */

static uint32_t hold_kind(struct gyre_domain *domain, enum gyre_memory_kind kind,
                          const void *memory, uint64_t length, void **base, uint64_t *span)
{
    uint32_t id = 0;
    pthread_mutex_lock(&domain->shared_lock);
    const struct gyre_shared *shared = gyre_domain_find_shared(domain, kind, memory, length);
    const struct gyre_lent *lent = shared ? NULL : find_lent(domain, kind, memory, length);
    if (shared || lent) {
        id = shared ? shared->id : lent->id;
        *base = shared ? shared->region.base : lent->base;
        *span = shared ? shared->region.length : lent->length;
    }
    pthread_mutex_unlock(&domain->shared_lock);
    return id;
}

static uint32_t hold_on_host(void *domain, const void *memory, uint64_t length, void **base,
                             uint64_t *span)
{
    return hold_kind(domain, GYRE_MEMORY_HOST, memory, length, base, span);
}

static uint32_t hold_on_device(void *domain, const void *memory, uint64_t length, void **base,
                               uint64_t *span)
{
    return hold_kind(domain, GYRE_MEMORY_CUDA, memory, length, base, span);
}

static bool lives(void *context, uint32_t id)
{
    struct gyre_domain *domain = context;
    bool found = false;
    pthread_mutex_lock(&domain->shared_lock);
    for (uint32_t i = 0; i < domain->shared_used && !found; i++)
        found = domain->shared[i].id == id;
    for (uint32_t i = 0; i < domain->lent_used && !found; i++)
        found = domain->lent[i].id == id;
    pthread_mutex_unlock(&domain->shared_lock);
    return found;
}

static uint32_t gone(void *context)
{
    struct gyre_domain *domain = context;
    return atomic_load_explicit(&domain->gone, memory_order_relaxed);
}

/* -- what peers see ---------------------------------------------------------------------------- */

static uint32_t locate_for_drivers(void *domain, const void *memory, uint64_t length,
                                   uint64_t *offset)
{
    return gyre_domain_locate(domain, GYRE_MEMORY_HOST, memory, length, offset);
}

static void *view(void *domain, uint32_t peer, uint32_t region, uint64_t offset, uint64_t length)
{
    return gyre_domain_view(domain, peer, region, GYRE_MEMORY_HOST, offset, length);
}

static uint32_t locate_on_device(void *domain, const void *memory, uint64_t length,
                                 uint64_t *offset)
{
    return gyre_domain_locate_on_device(domain, memory, length, offset);
}

static void *view_on_device(void *domain, uint32_t peer, uint32_t region, uint64_t offset,
                            uint64_t length)
{
    return gyre_domain_view(domain, peer, region, GYRE_MEMORY_CUDA, offset, length);
}

/* -- other devices ----------------------------------------------------------------------------- */

static int dma_buf(void *context, const void *base, uint64_t length, struct gyre_trouble *trouble)
{
    const struct gyre_domain *domain = context;
    return gyre_device_of(GYRE_MEMORY_CUDA)->dma_buf(domain->cuda_device, base, length, trouble);
}

static int flush_device(void *context, struct gyre_trouble *trouble)
{
    const struct gyre_domain *domain = context;
    return gyre_device_of(GYRE_MEMORY_CUDA)->flush(domain->cuda_device, trouble);
}

void gyre_domain_lookup_init(struct gyre_domain *domain)
{
    domain->lookup = (struct gyre_memory_lookup){.context = domain,
                                                 .locate = locate_for_drivers,
                                                 .hold = hold_on_host,
                                                 .lives = lives,
                                                 .gone = gone,
                                                 .view = view,
                                                 .copy_queue = domain->copy_queue,
                                                 .locate_on_device = locate_on_device,
                                                 .view_on_device = view_on_device,
                                                 .hold_on_device = hold_on_device,
                                                 .dma_buf = dma_buf,
                                                 .flush = flush_device};
}
