/* Shared memory of a domain: what this process gives to the peers of its node, and what it sees of
 * theirs.
 *
 * A small table of regions, found by address when an operation announces its buffers. The watch
 * passes the descriptors around and keeps the views of the peers' regions. Host and CUDA memory
 * stand in one table, since no address means both; whoever asks says which kind it can use. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/memory/copy_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

int gyre_domain_memory_init(struct gyre_domain *domain)
{
    pthread_mutex_init(&domain->shared_lock, NULL);
    pthread_mutex_init(&domain->proof.lock, NULL);
    domain->next_id = GYRE_REGION_FIRST;
    domain->shared = calloc(GYRE_SHARED_REGIONS_MAX, sizeof(*domain->shared));
    return domain->shared ? 0 : -ENOMEM;
}

void gyre_domain_memory_deinit(struct gyre_domain *domain)
{
    for (uint32_t i = 0; domain->shared && i < domain->shared_used; i++)
        if (domain->shared[i].id)
            gyre_device_of(domain->shared[i].region.kind)->free(&domain->shared[i].region);
    free(domain->shared);
    free(domain->lent);
    pthread_mutex_destroy(&domain->proof.lock);
    pthread_mutex_destroy(&domain->shared_lock);
}

static struct gyre_shared *free_region_place(struct gyre_domain *domain)
{
    for (uint32_t i = 0; i < domain->shared_used; i++)
        if (!domain->shared[i].id)
            return &domain->shared[i];
    return domain->shared_used < GYRE_SHARED_REGIONS_MAX ? &domain->shared[domain->shared_used]
                                                         : NULL;
}

/* Puts a region into the table under a new id; 0 when the table is full. */
static uint32_t table_add(struct gyre_domain *domain, const struct gyre_region *region, bool mapped)
{
    pthread_mutex_lock(&domain->shared_lock);
    struct gyre_shared *place = free_region_place(domain);
    uint32_t id = place ? domain->next_id++ : 0;
    if (place) {
        *place = (struct gyre_shared){.region = *region, .id = id, .mapped = mapped};
        if (place == &domain->shared[domain->shared_used])
            domain->shared_used++;
    }
    pthread_mutex_unlock(&domain->shared_lock);
    return id;
}

static void table_mark_mapped(struct gyre_domain *domain, uint32_t id)
{
    bool copied = gyre_watch_copied(domain->watch, id);
    pthread_mutex_lock(&domain->shared_lock);
    for (uint32_t i = 0; i < domain->shared_used; i++)
        if (domain->shared[i].id == id) {
            domain->shared[i].mapped = true;
            domain->shared[i].copied = copied;
        }
    pthread_mutex_unlock(&domain->shared_lock);
}

/* Memory in the table, not shared yet. */
static int make_region(struct gyre_domain *domain, enum gyre_memory_kind kind, uint64_t length,
                       enum gyre_share share, struct gyre_shared *made,
                       struct gyre_trouble *trouble)
{
    int on = kind == GYRE_MEMORY_CUDA ? domain->cuda_device : 0;
    if (on < 0)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "there is no CUDA memory: %s",
                                domain->no_cuda.text);
    const struct gyre_device *device = gyre_device_of(kind);
    int status = device->alloc(on, length, share, &made->region, trouble);
    if (status)
        return status;
    made->id = table_add(domain, &made->region, false);
    if (made->id)
        return 0;
    device->free(&made->region);
    return gyre_trouble_set(trouble, -ENOSPC,
                            "%u shared regions are in use; free some or allocate fewer, larger "
                            "ones",
                            GYRE_SHARED_REGIONS_MAX);
}

int gyre_domain_share(struct gyre_domain *domain, enum gyre_memory_kind kind, uint64_t length,
                      enum gyre_share share, void **base, uint32_t *id,
                      struct gyre_trouble *trouble)
{
    struct gyre_shared made;
    struct gyre_trouble unproven = {0};
    bool shares = domain->watch && domain->joined->local_size > 1;
    *base = NULL;
    *id = 0;
    int status = shares && kind == GYRE_MEMORY_CUDA ? gyre_domain_prove(domain, &unproven) : 0;
    if (status && status != GYRE_UNSUPPORTED)
        return gyre_trouble_set(trouble, status, "%s", unproven.text);
    status = make_region(domain, kind, length, share, &made, trouble);
    if (status)
        return status;
    *base = made.region.base;
    if (!shares)
        return 0;
    if (unproven.status)
        return gyre_trouble_set(trouble, unproven.status, "%s", unproven.text);
    status = gyre_watch_share(domain->watch, made.id, &made.region, share, trouble);
    if (!status) {
        table_mark_mapped(domain, made.id);
        *id = made.id;
    }
    return status;
}

void *gyre_domain_keep(struct gyre_domain *domain, uint64_t length)
{
    struct gyre_shared made;
    struct gyre_trouble trouble = {0};
    return make_region(domain, GYRE_MEMORY_HOST, length, GYRE_SHARE_SEALED, &made, &trouble)
               ? NULL
               : made.region.base;
}

int gyre_domain_unshare(struct gyre_domain *domain, void *base)
{
    struct gyre_shared found = {.id = 0};
    pthread_mutex_lock(&domain->shared_lock);
    for (uint32_t i = 0; i < domain->shared_used; i++)
        if (domain->shared[i].id && domain->shared[i].region.base == base) {
            found = domain->shared[i];
            domain->shared[i].id = 0;
        }
    pthread_mutex_unlock(&domain->shared_lock);
    if (!found.id)
        return GYRE_INVALID;
    atomic_fetch_add(&domain->gone, 1);
    if (found.mapped)
        gyre_watch_unshare(domain->watch, found.id);
    gyre_copy_queue_settle(domain->copy_queue); /* a message may be on its way there */
    gyre_device_of(found.region.kind)->free(&found.region);
    return 0;
}

const struct gyre_shared *gyre_domain_find_shared(const struct gyre_domain *domain,
                                                  enum gyre_memory_kind kind, const void *memory,
                                                  uint64_t length)
{
    uintptr_t at = (uintptr_t)memory;
    for (uint32_t i = 0; length && i < domain->shared_used; i++) {
        const struct gyre_shared *shared = &domain->shared[i];
        uintptr_t base = (uintptr_t)shared->region.base;
        if (shared->id && shared->region.kind == kind && at >= base &&
            at - base < shared->region.length && length <= shared->region.length - (at - base))
            return shared;
    }
    return NULL;
}

static uint32_t locate_region(struct gyre_domain *domain, enum gyre_memory_kind kind,
                              const void *memory, uint64_t length, bool by_copies, uint64_t *offset)
{
    pthread_mutex_lock(&domain->shared_lock);
    const struct gyre_shared *shared = gyre_domain_find_shared(domain, kind, memory, length);
    bool fits = shared && shared->mapped && (by_copies || !shared->copied);
    uint32_t id = fits ? shared->id : 0;
    if (id)
        *offset = (uint64_t)((const uint8_t *)memory - (const uint8_t *)shared->region.base);
    pthread_mutex_unlock(&domain->shared_lock);
    return id;
}

uint32_t gyre_domain_locate(struct gyre_domain *domain, enum gyre_memory_kind kind,
                            const void *memory, uint64_t length, uint64_t *offset)
{
    return locate_region(domain, kind, memory, length, false, offset);
}

uint32_t gyre_domain_locate_on_device(struct gyre_domain *domain, const void *memory,
                                      uint64_t length, uint64_t *offset)
{
    return locate_region(domain, GYRE_MEMORY_CUDA, memory, length, true, offset);
}

/* All operations have ended, so nobody reads any of it. What failed is not waited for. */
void gyre_domain_memory_part(struct gyre_domain *domain)
{
    gyre_watch_let_go(domain->watch);
    for (uint32_t i = 0; i < domain->shared_used; i++) {
        const struct gyre_shared *shared = &domain->shared[i];
        if (shared->id && shared->mapped && shared->region.kind == GYRE_MEMORY_CUDA)
            gyre_watch_unshare(domain->watch, shared->id);
    }
}

int gyre_domain_detach(struct gyre_domain *domain, uint32_t id)
{
    int status = 0;
    struct gyre_trouble trouble = {0};
    pthread_mutex_lock(&domain->shared_lock);
    for (uint32_t i = 0; i < domain->shared_used; i++)
        if (domain->shared[i].id == id) {
            struct gyre_region *region = &domain->shared[i].region;
            status = gyre_device_of(region->kind)->detach(region, &trouble);
            domain->shared[i].mapped = false;
        }
    pthread_mutex_unlock(&domain->shared_lock);
    if (status)
        gyre_log(GYRE_LOG_WARN,
                 "a peer that is stopped may write memory of this rank when it goes "
                 "on: %s",
                 trouble.text);
    return status;
}

void *gyre_domain_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                       enum gyre_memory_kind kind, uint64_t offset, uint64_t length)
{
    uint64_t end;
    if (__builtin_add_overflow(offset, length, &end))
        return NULL;
    uint8_t *base = gyre_watch_view(domain->watch, peer, id, kind, end);
    return base ? base + offset : NULL;
}

int gyre_domain_await_view(struct gyre_domain *domain, uint32_t peer, uint32_t id, uint64_t length,
                           void **view, struct gyre_trouble *trouble)
{
    const struct timespec pause = {0, 20000};
    uint64_t limit = gyre_now_ns() + (uint64_t)domain->settings.join_timeout_ms * GYRE_MS;
    while (!(*view = gyre_watch_view(domain->watch, peer, id, GYRE_MEMORY_HOST, length))) {
        int status = atomic_load(&domain->health.status);
        if (status)
            return gyre_trouble_set(trouble, status, "%s", domain->health.failure.text);
        if (gyre_now_ns() > limit)
            return gyre_trouble_set(trouble, GYRE_TIMED_OUT,
                                    "rank %u did not share its memory (region %u) in time", peer,
                                    id);
        nanosleep(&pause, NULL);
    }
    return 0;
}
