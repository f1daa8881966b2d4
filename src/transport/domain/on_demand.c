/* Links to other nodes that are made at their first use: what they need to know beforehand.
 *
 * Tested by tests/program/collectives/first_use.c. */
#include "transport/domain/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int gyre_domain_plan_links(struct gyre_domain *domain)
{
    struct gyre_on_demand *plan = &domain->on_demand;
    const struct gyre_joined *joined = domain->joined;
    plan->rank = joined->rank;
    plan->n = joined->n;
    plan->sockets = (int)domain->settings.connections;
    memcpy(plan->key, joined->session_key, sizeof plan->key);
    plan->peer = calloc(plan->n, sizeof *plan->peer);
    if (!plan->peer)
        return -ENOMEM;
    for (uint32_t peer = 0; peer < plan->n; peer++)
        if (joined->peer[peer].tcps > 0 && !gyre_joined_connects(joined, joined->rank, peer))
            plan->peer[peer] = (struct gyre_on_demand_peer){
                .far = true,
                .renewable = gyre_domain_renews(domain, peer),
                .security = gyre_domain_seals(domain, joined->peer[peer].one_machine)};
    return 0;
}

void gyre_domain_forget_links(struct gyre_domain *domain)
{
    free(domain->on_demand.peer);
    gyre_wipe(domain->on_demand.key, sizeof domain->on_demand.key);
    domain->on_demand.peer = NULL;
}
