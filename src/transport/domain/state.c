/* Facts about a domain, for the layers above and for the other files of the domain.
 *
 * Tested by tests/program/collectives/comm.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "transport/memory/copy_queue.h"
#include "transport/net/address.h"

#include <poll.h>

#define LEAVE_LOOK (10 * GYRE_MS) /* between two looks at the launcher's pipe */

int gyre_domain_cuda(const struct gyre_domain *domain)
{
    return domain->cuda_device;
}

const struct gyre_job *gyre_domain_job(const struct gyre_domain *domain)
{
    return &domain->job;
}

const struct gyre_joined *gyre_domain_joined(const struct gyre_domain *domain)
{
    return domain->joined;
}

struct gyre_links *gyre_domain_links(struct gyre_domain *domain)
{
    return domain->links;
}

struct gyre_health *gyre_domain_health(struct gyre_domain *domain)
{
    return &domain->health;
}

struct gyre_watch *gyre_domain_watch(struct gyre_domain *domain)
{
    return domain->watch;
}

struct gyre_activity *gyre_domain_activity(struct gyre_domain *domain)
{
    return &domain->activity;
}

bool gyre_domain_forked(const struct gyre_domain *domain)
{
    return domain->forked;
}

bool gyre_domain_oversubscribed(const struct gyre_domain *domain)
{
    return domain->oversubscribed;
}

bool gyre_domain_mapped(const struct gyre_domain *domain, uint32_t peer)
{
    return peer != domain->joined->rank && !domain->joined->large &&
           domain->joined->peer[peer].unix_fd >= 0;
}

bool gyre_domain_shares(const struct gyre_domain *domain)
{
    return domain->watch && domain->joined->local_size > 1 && !domain->joined->large;
}

bool gyre_domain_renews(const struct gyre_domain *domain, uint32_t peer)
{
    const struct gyre_joined *joined = domain->joined;
    const struct sockaddr_storage *here = &joined->member[joined->rank].address;
    const struct sockaddr_storage *there = &joined->member[peer].address;
    if (joined->listener < 0 || domain->settings.renewal == GYRE_RENEW_NEVER)
        return false;
    return domain->settings.renewal == GYRE_RENEW_ALWAYS || !gyre_address_same_host(here, there);
}

void gyre_domain_open_copy_queue(struct gyre_domain *domain)
{
    gyre_copy_queue_open(domain->lookup.copy_queue);
}

bool gyre_domain_has_copy_queue(const struct gyre_domain *domain)
{
    return gyre_copy_queue_has_queue(domain->lookup.copy_queue);
}

bool gyre_domain_is_copying(const struct gyre_domain *domain)
{
    return gyre_copy_queue_busy(domain->lookup.copy_queue);
}

/* The launcher writes a byte into its pipe, which nobody reads. A step of a small model takes ten
 * microseconds, so the pipe is looked at from time to time only. */
bool gyre_domain_is_to_leave(struct gyre_domain *domain)
{
    const uint64_t now = gyre_now_ns();
    if (now < atomic_load_explicit(&domain->look_at, memory_order_relaxed))
        return false;
    struct pollfd pipe = {.fd = domain->job.launcher_fd, .events = POLLIN};
    if (pipe.fd >= 0 && poll(&pipe, 1, 0) == 1 && pipe.revents & POLLIN)
        return true;
    atomic_store_explicit(&domain->look_at, now + LEAVE_LOOK, memory_order_relaxed);
    return false;
}

bool gyre_domain_peer_ended(struct gyre_domain *domain, uint32_t peer)
{
    return domain->watch && gyre_watch_peer_ended(domain->watch, peer);
}
