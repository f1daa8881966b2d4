/* Which options a join accepts. Tested by tests/program/job/join_refused.c. */
#include "transport/join/options.h"

uint32_t gyre_join_links_at_once(const struct gyre_join_options *options)
{
    return options->links_at_once ? (uint32_t)options->links_at_once : GYRE_LINKS_AT_ONCE;
}

int gyre_join_options_check(const struct gyre_join_options *options, struct gyre_trouble *trouble)
{
    if (options->connections < 1 || options->connections > GYRE_TCP_CONNECTIONS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%d data connections per peer: 1 to %d are possible",
                                options->connections, GYRE_TCP_CONNECTIONS_MAX);
    if (options->port_low > options->port_high || (options->port_high && !options->port_low))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_PORT_RANGE=%u-%u: the first port must be above 0 and not "
                                "above the last",
                                options->port_low, options->port_high);
    return 0;
}
