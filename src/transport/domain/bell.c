/* The doorbell, by which the node's peers wake a rank that sleeps.
 *
 * Each rank shows its sleep in a page, or a line, that the node's peers can write. A rank sleeps on
 * a futex in it, or on the links' descriptors where sockets are in play. The race between going to
 * sleep and the coming of data is closed from both sides: the sleeper shows its sleep, fences and
 * looks again; a peer writes its data, fences and looks whether a rank sleeps. Peers write often
 * and ranks sleep seldom. So where membarrier(2) is available the sleeper fences for all processes,
 * and a peer's look costs a load.
 *
 * A rank of a large node that sleeps on descriptors cannot be rung: it has no descriptor of each
 * peer's eventfd. It sleeps for a millisecond at most (idle.c).
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
    if (domain->node.base)
        domain->bell = gyre_node_memory_bell(&domain->node, domain->node.own);
    else {
        int status = host->alloc(0, 4096, GYRE_SHARE_OPEN, &domain->bell_region, trouble);
        if (status)
            return status;
        domain->bell = domain->bell_region.base;
    }
    domain->light_ring = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    return 0;
}

static int make_bell_table(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const uint32_t peers = domain->joined->local_size;
    domain->peer_bell = calloc(peers, sizeof(*domain->peer_bell));
    return domain->peer_bell
               ? 0
               : gyre_trouble_set(trouble, -ENOMEM, "no memory for %u doorbells", peers);
}

/* Gives the bell to the node's peers and takes theirs. In a large node all bells lie in the node's
 * memory, and a link brings its peer's. */
int gyre_domain_bell_meet(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    int status = make_bell_table(domain, trouble);
    if (status || joined->large)
        return status;
    status = gyre_watch_share(domain->watch, GYRE_REGION_BELL, &domain->bell_region,
                              GYRE_SHARE_OPEN, trouble);
    if (!status && domain->activity.recorder)
        status = gyre_watch_share(domain->watch, GYRE_REGION_RECORD,
                                  &domain->activity.recorder->region, GYRE_SHARE_SEALED, trouble);
    struct gyre_region waker = {.kind = GYRE_MEMORY_HOST, .fd = domain->eventfd};
    if (!status && joined->nodes > 1) /* peers may find this process asleep on sockets */
        status =
            gyre_watch_share(domain->watch, GYRE_REGION_WAKER, &waker, GYRE_SHARE_OPEN, trouble);
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

/* Takes the bells of links made since the last look. */
static void learn_bells(struct gyre_domain *domain)
{
    const struct gyre_node_memory *node = &domain->node;
    for (uint32_t peer;
         (peer = gyre_links_attached(domain->links, domain->links_seen)) != UINT32_MAX;
         domain->links_seen++)
        if (node->place[peer] != GYRE_NO_PLACE)
            domain->peer_bell[domain->peer_bells++] =
                (struct gyre_peer_bell){gyre_node_memory_bell(node, node->place[peer]), peer};
}

void gyre_domain_ring(struct gyre_domain *domain)
{
    if (domain->node.base && domain->links)
        learn_bells(domain);
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
    if (domain->node.base && domain->sockets)
        return false;
    return !(domain->peer_bells || domain->node.base) ||
           !membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void gyre_domain_say_awake(struct gyre_domain *domain)
{
    atomic_store(&domain->bell->state, GYRE_AWAKE);
}
