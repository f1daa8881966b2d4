/* Opens a wire, and tells its driver about this rank.
 *
 * Tested by tests/unit/transport/domain/wire_test.c. */
#include "transport/domain/inside.h"

#include "transport/link/driver.h"

int gyre_domain_open_wire(struct gyre_domain *domain, const struct gyre_driver *driver,
                          uint32_t peers, struct gyre_wire **wire, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    const struct gyre_job *job = &domain->job;
    bool told =
        /* On the machine, whether or not memory is shared. */
        job->local_rank >= 0 && job->local_world > 0;
    struct gyre_wire_options options = {
        .rank = joined->rank,
        .n = joined->n,
        .local_rank = told ? job->local_rank : (int)joined->local_rank,
        .local_size = told ? job->local_world : (int)joined->local_size,
        .epoch = domain->job.epoch,
        .peers = peers,
        .failover = domain->settings.failover,
        .bare_payload = domain->settings.bare_payload,
        .dead_time_ms = (int)domain->settings.dead_time_ms,
        .variant = domain->settings.poller,
        .address = &joined->member[joined->rank].address,
        .lookup = &domain->lookup,
        .node = domain->node.base ? &domain->node : NULL};
    return driver->open(&options, wire, trouble);
}
