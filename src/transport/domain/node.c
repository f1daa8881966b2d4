/* Links to the peers of this node, over queues in memory that both ends have mapped.
 *
 *     from one rank      to each peer of its node
 *     ┌ queue to 0 ┬ queue to 1 ┬ queue to 2 ┬ …      one region, shared with all of them, sealed
 *
 * In a large node all queues lie in one file, which the join has left, and links are made at their
 * first use.
 *
 * Tested by tests/program/collectives/collectives.c and tests/program/collectives/first_use.c. */
#include "transport/domain/inside.h"

#include "transport/link/table.h"

#include <unistd.h>

/* Opens a wire to the peers of this node, of the first mapped driver available here. Returns the
 * wire's number. */
static int open_mapped(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct gyre_wire *opened;
    struct gyre_trouble absent = {0};
    int status = GYRE_UNSUPPORTED;
    for (const struct gyre_driver *const *it = gyre_drivers; *it && status == GYRE_UNSUPPORTED;
         it++) {
        if (!(*it)->mapped)
            continue;
        absent = (struct gyre_trouble){0};
        status = gyre_domain_open_wire(domain, *it, (uint32_t)domain->joined->local_size, &opened,
                                       &absent);
        if (!status)
            return gyre_links_add_wire(domain->links, *it, opened);
    }
    return gyre_trouble_set(trouble, status, "%s", absent.text);
}

/* The queue from the owner of `base` to the peer whose place in the node is `local_rank`. */
static struct gyre_region shm_queue_of(void *base, int local_rank)
{
    return (struct gyre_region){.base = (uint8_t *)base + (size_t)local_rank * GYRE_QUEUE_BYTES,
                                .length = GYRE_QUEUE_BYTES};
}

static int attach_mapped(struct gyre_domain *domain, int wire, uint32_t peer,
                         struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    void *view;
    int status = gyre_domain_await_view(domain, peer, GYRE_REGION_QUEUES,
                                        domain->queue_region.length, &view, trouble);
    if (status)
        return status;
    struct gyre_region mine =
        shm_queue_of(domain->queue_region.base, joined->member[peer].local_rank);
    struct gyre_region theirs = shm_queue_of(view, (int)joined->local_rank);
    struct gyre_channel channel = {.peer = peer, .mine = &mine, .theirs = &theirs};
    return gyre_links_attach(domain->links, wire, &channel, trouble);
}

int gyre_domain_open_node(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct gyre_joined *joined = domain->joined;
    if (!joined->large)
        return 0;
    int status = gyre_node_memory_map(&domain->node, joined->node_file, joined->places,
                                      joined->local_rank, joined->n, trouble);
    for (uint32_t rank = 0; !status && rank < joined->n; rank++)
        if (joined->member[rank].node == joined->node)
            gyre_node_memory_seat(&domain->node, (uint32_t)joined->member[rank].local_rank, rank);
    close(joined->node_file);
    joined->node_file = -1;
    return status;
}

int gyre_domain_attach_node(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    const struct gyre_device *host = gyre_device_of(GYRE_MEMORY_HOST);
    if (joined->local_size < 2)
        return 0;
    int wire = open_mapped(domain, trouble);
    if (wire < 0)
        return wire;
    if (joined->large) {
        gyre_links_attach_lazily(domain->links, wire);
        return 0;
    }
    int status = host->alloc(0, (uint64_t)joined->local_size * GYRE_QUEUE_BYTES, GYRE_SHARE_SEALED,
                             &domain->queue_region, trouble);
    if (!status)
        status = gyre_watch_share(domain->watch, GYRE_REGION_QUEUES, &domain->queue_region,
                                  GYRE_SHARE_SEALED, trouble);
    for (uint32_t peer = 0; !status && peer < joined->n; peer++)
        if (gyre_domain_mapped(domain, peer))
            status = attach_mapped(domain, wire, peer, trouble);
    return status;
}
