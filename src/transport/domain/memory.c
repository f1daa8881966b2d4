/* Shared memory of a domain: the regions that this process gives to the peers of its node.
 *
 *     share     make a region ─▶ the table of regions ─▶ the watch offers it ─▶ peers map it
 *     unshare   out of the table ─▶ the watch has peers let go ─▶ no copy is under way ─▶ freed
 *
 * The table is transport/memory/lookup.h, in which drivers look, too.
 *
 * Tested by tests/program/cuda/share.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/memory/copy_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int gyre_domain_memory_init(struct gyre_domain *domain)
{
    pthread_mutex_init(&domain->proof.lock, NULL);
    return gyre_lookup_init(&domain->lookup, GYRE_REGION_FIRST);
}

void gyre_domain_memory_deinit(struct gyre_domain *domain)
{
    struct gyre_memory_lookup *lookup = &domain->lookup;
    for (uint32_t i = 0; i < lookup->shared_used; i++)
        if (lookup->shared[i].id)
            gyre_device_of(lookup->shared[i].region.kind)->free(&lookup->shared[i].region);
    gyre_lookup_deinit(lookup);
    pthread_mutex_destroy(&domain->proof.lock);
}

/* Makes memory and enters it into the table, not shared yet. */
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
    made->id = gyre_lookup_add(&domain->lookup, &made->region);
    if (made->id)
        return 0;
    device->free(&made->region);
    return gyre_trouble_set(trouble, -ENOSPC,
                            "%u shared regions are in use; free some or allocate fewer, larger "
                            "ones",
                            GYRE_SHARED_REGIONS_MAX);
}

/* Offers a region in the table to the peers. */
static int offer_region(struct gyre_domain *domain, uint32_t id, const struct gyre_region *region,
                        enum gyre_share share, struct gyre_trouble *trouble)
{
    int status = gyre_watch_share(domain->watch, id, region, share, trouble);
    if (!status)
        gyre_lookup_mark_mapped(&domain->lookup, id, gyre_watch_copied(domain->watch, id));
    return status;
}

int gyre_domain_share(struct gyre_domain *domain, enum gyre_memory_kind kind, uint64_t length,
                      enum gyre_share share, void **base, uint32_t *id,
                      struct gyre_trouble *trouble)
{
    struct gyre_shared made;
    struct gyre_trouble unproven = {0};
    bool shares = gyre_domain_shares(domain);
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
    status = offer_region(domain, made.id, &made.region, share, trouble);
    if (!status)
        *id = made.id;
    return status;
}

void gyre_domain_close_offer(struct gyre_region *region)
{
    if (region->base && region->fd >= 0)
        close(region->fd);
    region->fd = -1;
}

void gyre_domain_settle(struct gyre_domain *domain, const void *base)
{
    int fd = gyre_lookup_take_descriptor(&domain->lookup, base);
    if (fd >= 0)
        close(fd);
}

void gyre_domain_give(struct gyre_domain *domain, const void *base)
{
    gyre_lookup_give(&domain->lookup, base);
}

int gyre_domain_adopt(struct gyre_domain *domain, const struct gyre_region *region,
                      struct gyre_trouble *trouble)
{
    uint32_t id = gyre_lookup_add(&domain->lookup, region);
    if (!id)
        return gyre_trouble_set(trouble, -ENOSPC, "%u shared regions are in use",
                                GYRE_SHARED_REGIONS_MAX);
    gyre_lookup_give(&domain->lookup, region->base);
    if (!gyre_domain_shares(domain))
        return 0;
    int status = region->kind == GYRE_MEMORY_CUDA ? gyre_domain_prove(domain, trouble) : 0;
    return status ? status : offer_region(domain, id, region, GYRE_SHARE_OPEN, trouble);
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
    struct gyre_shared found;
    if (!gyre_lookup_remove(&domain->lookup, base, &found))
        return GYRE_INVALID;
    if (found.mapped)
        gyre_watch_unshare(domain->watch, found.id);
    gyre_copy_queue_settle(domain->lookup.copy_queue); /* a message may be on its way there */
    gyre_device_of(found.region.kind)->free(&found.region);
    return 0;
}

void gyre_domain_forsake(struct gyre_domain *domain, void *base)
{
    struct gyre_shared found;
    gyre_lookup_remove(&domain->lookup, base, &found);
}

int gyre_domain_lend(struct gyre_domain *domain, void *memory, uint64_t length)
{
    return gyre_lookup_lend(&domain->lookup, memory, length);
}

void gyre_domain_withdraw(struct gyre_domain *domain, const void *memory, uint64_t length)
{
    gyre_lookup_withdraw(&domain->lookup, memory, length);
}

uint32_t gyre_domain_locate(struct gyre_domain *domain, enum gyre_memory_kind kind,
                            const void *memory, uint64_t length, uint64_t *offset)
{
    return gyre_lookup_locate(&domain->lookup, kind, memory, length, false, offset);
}

/* Ends the sharing of CUDA memory. All operations have ended, so no rank reads it. A peer that
 * failed is not waited for. */
void gyre_domain_memory_part(struct gyre_domain *domain)
{
    gyre_watch_let_go(domain->watch);
    for (uint32_t i = 0; i < domain->lookup.shared_used; i++) {
        const struct gyre_shared *shared = &domain->lookup.shared[i];
        if (shared->id && shared->mapped && shared->region.kind == GYRE_MEMORY_CUDA)
            gyre_watch_unshare(domain->watch, shared->id);
    }
}

int gyre_domain_detach(struct gyre_domain *domain, uint32_t id)
{
    struct gyre_trouble trouble = {0};
    int status = gyre_lookup_detach(&domain->lookup, id, &trouble);
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
    return gyre_lookup_view(&domain->lookup, peer, id, kind, offset, length);
}

bool gyre_domain_take_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                           struct gyre_region *region)
{
    return gyre_watch_take_view(domain->watch, peer, id, region);
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
