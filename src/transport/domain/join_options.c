/* How a domain joins: its settings, as options of a join, and the job of a later epoch.
 *
 * Tested by tests/program/job/settings.c. */
#include "transport/domain/inside.h"

#include "base/rng.h"
#include "transport/link/words.h"

#include <stdio.h>
#include <string.h>

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0;
    for (; *text; text++)
        hash = gyre_mix64(hash + (uint8_t)*text);
    return hash;
}

static enum gyre_join_nodes nodes_of(const char *transport)
{
    return gyre_link_word_maps(transport)    ? GYRE_NODES_SHARE_ALL
           : gyre_link_word_sends(transport) ? GYRE_NODES_APART
                                             : GYRE_NODES_SHARE;
}

void gyre_domain_join_options(const struct gyre_domain *domain, const char *above,
                              char text[GYRE_DOMAIN_CONFIGURATION],
                              struct gyre_join_options *options)
{
    const struct gyre_domain_settings *settings = &domain->settings;
    snprintf(text, GYRE_DOMAIN_CONFIGURATION,
             "GYRE_TRANSPORT=%s GYRE_TCP_CONNECTIONS=%d GYRE_TCP_SUMS=%s GYRE_TCP_SECURITY=%s "
             "GYRE_TCP_RENEW=%s GYRE_RDMA_FAILOVER=%s GYRE_LINKS_AT_ONCE=%d %s",
             settings->transport, (int)settings->connections,
             settings->bare_payload ? "header" : "payload",
             gyre_domain_security_word(settings->security),
             gyre_domain_renewal_word(settings->renewal), settings->failover ? "tcp" : "none",
             (int)settings->links_at_once, above ? above : "");
    *options =
        (struct gyre_join_options){.nodes = nodes_of(settings->transport),
                                   .join_timeout_ms = (int)settings->join_timeout_ms,
                                   .dead_time_ms = (int)settings->dead_time_ms,
                                   .connections = (int)settings->connections,
                                   .links_at_once = (int)settings->links_at_once,
                                   .interface = settings->interface[0] ? settings->interface : NULL,
                                   .port_low = settings->port_low,
                                   .port_high = settings->port_high,
                                   .configuration = hash_text(text),
                                   .configuration_text = text};
    memcpy(options->device, domain->cuda_identity.uuid, sizeof options->device);
}

void gyre_domain_describe_job(const struct gyre_domain *domain, const struct gyre_company *company,
                              struct gyre_job *job)
{
    *job = domain->job;
    job->rank = job->first_here = (int)company->rank;
    job->world = (int)company->n;
    job->ranks_here = 1;
    job->local_world = -1;
    job->epoch = (uint16_t)domain->members->seen;
    job->root_kind = GYRE_ROOT_HELD; /* the company has met already */
    memcpy(job->key, domain->members->key, sizeof job->key);
    memcpy(job->id, domain->members->id, sizeof job->id);
    memcpy(job->key_id, domain->members->key_id, sizeof job->key_id);
}
