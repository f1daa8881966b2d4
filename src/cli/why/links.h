/* Which link of a living job is slow. */
#ifndef GYRE_CLI_WHY_LINKS_H
#define GYRE_CLI_WHY_LINKS_H

#include "cli/why/trail.h"

struct gyre_slow_link {
    uint32_t rank, peer; /* peer: of its slowest connection, GYRE_TRAIL_NONE: not here */
    bool receives;       /* the way to the rank is slow, not the one from it */
    double busy;         /* of the time in which the connections were watched */
    double rate;         /* bytes a second while one was busy */
};

/* Watches the connections between the ranks here for a second. True: those from or to one rank had
 * bytes under way far longer than those of the others. */
bool gyre_find_slow_link(const struct gyre_trails *trails, struct gyre_slow_link *found);

#endif
