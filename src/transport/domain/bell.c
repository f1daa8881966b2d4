/* The doorbell, by which the node's peers wake a rank that sleeps.
 *
 * Each rank shows its sleep in a page that the node's peers can write. A rank sleeps on a futex in
 * the page, or on the links' descriptors where sockets are in play. The race between going to sleep
 * and the coming of data is closed from both sides: the sleeper shows its sleep, fences and looks
 * again; a peer writes its data, fences and looks whether a rank sleeps. Peers write often and
 * ranks sleep seldom. So where membarrier(2) is available the sleeper fences for all processes, and
 * a peer's look costs a load.
 *
 * Tested by tests/program/collectives/collectives.c. */
#include "transport/domain/inside.h"

#include "transport/domain/futex.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/eventfd.h>

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

int gyre_domain_bell_init(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const struct gyre_device *host = gyre_device_of(GYRE_MEMORY_HOST);
    const bool apart = domain->joined->nodes > 1; /* the owner may sleep on sockets */
    domain->eventfd = apart ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
    if (apart && domain->eventfd < 0)
        return gyre_trouble_set(trouble, -errno, "eventfd: %s", gyre_status_name(-errno));
    int status = host->alloc(0, 4096, GYRE_SHARE_OPEN, &domain->bell_region, trouble);
    if (status)
        return status;
    domain->bell = domain->bell_region.base;
    domain->light_ring = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    return 0;
}

/* Gives the bell to the node's peers and takes theirs. */
int gyre_domain_bell_meet(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    int status = gyre_watch_share(domain->watch, GYRE_REGION_BELL, &domain->bell_region,
                                  GYRE_SHARE_OPEN, trouble);
    struct gyre_region waker = {.kind = GYRE_MEMORY_HOST, .fd = domain->eventfd};
    if (!status && joined->nodes > 1) /* peers may find this process asleep on sockets */
        status =
            gyre_watch_share(domain->watch, GYRE_REGION_WAKER, &waker, GYRE_SHARE_OPEN, trouble);
    domain->peer_bell = calloc(joined->local_size, sizeof(*domain->peer_bell));
    if (!domain->peer_bell)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for %u doorbells", joined->local_size);
    for (uint32_t peer = 0; !status && peer < joined->n; peer++) {
        void *page;
        if (!gyre_domain_mapped(domain, peer))
            continue;
        status = gyre_domain_await_view(domain, peer, GYRE_REGION_BELL, 4096, &page, trouble);
        if (!status)
            domain->peer_bell[domain->peer_bells++] = (struct gyre_peer_bell){page, peer};
    }
    return status;
}

void gyre_domain_bell_deinit(struct gyre_domain *domain)
{
    free(domain->peer_bell);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&domain->bell_region);
    if (domain->eventfd >= 0)
        close(domain->eventfd);
}

/* Wakes the owner, which may sleep. */
void gyre_domain_wake_owner(struct gyre_domain *domain)
{
    const uint64_t one = 1;
    if (!domain->bell)
        return;
    atomic_fetch_add(&domain->bell->word, 1);
    gyre_futex_wake(&domain->bell->word, 1);
    if (domain->eventfd >= 0)
        (void)!write(domain->eventfd, &one, sizeof(one));
}

static void wake_peer(struct gyre_domain *domain, const struct gyre_peer_bell *bell, uint32_t state)
{
    const uint64_t one = 1;
    if (state == GYRE_ON_FUTEX) {
        atomic_fetch_add(&bell->page->word, 1);
        gyre_futex_wake(&bell->page->word, 1);
        return;
    }
    int fd = gyre_watch_peer_bell(domain->watch, bell->peer);
    if (fd >= 0)
        (void)!write(fd, &one, sizeof(one));
}

void gyre_domain_ring(struct gyre_domain *domain)
{
    if (!domain->peer_bells)
        return;
    if (domain->light_ring)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < domain->peer_bells; i++) {
        uint32_t state =
            atomic_load_explicit(&domain->peer_bell[i].page->state, memory_order_relaxed);
        if (state != GYRE_AWAKE)
            wake_peer(domain, &domain->peer_bell[i], state);
    }
}

bool gyre_domain_say_asleep(struct gyre_domain *domain)
{
    atomic_store(&domain->bell->state, domain->sockets ? GYRE_ON_DESCRIPTORS : GYRE_ON_FUTEX);
    atomic_thread_fence(memory_order_seq_cst);
    return !domain->peer_bells || !membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void gyre_domain_say_awake(struct gyre_domain *domain)
{
    atomic_store(&domain->bell->state, GYRE_AWAKE);
}
