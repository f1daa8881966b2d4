/* Ranks that have found each other already: what a join has instead of a rendezvous. */
#ifndef GYRE_TRANSPORT_JOIN_COMPANY_H
#define GYRE_TRANSPORT_JOIN_COMPANY_H

#include "transport/net/talk.h"

#include <sys/socket.h>

struct gyre_company {
    uint32_t rank, n;       /* this process's */
    struct gyre_talk *talk; /* proven: on rank 0 one for each rank, [0] closed; else to rank 0 */
    int listener;           /* of this rank, which keeps it: taken where the join succeeds */
    struct sockaddr_storage address; /* of the listener */
};

/* Closes every conversation that is left, and frees the list. The listener stays the caller's. */
void gyre_company_close(struct gyre_company *company);

#endif
