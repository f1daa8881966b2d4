/* The place where ranks meet rank 0: an address that all know, or a file that rank 0 writes. */
#ifndef GYRE_TRANSPORT_JOIN_PLACE_H
#define GYRE_TRANSPORT_JOIN_PLACE_H

#include "transport/job/job.h"

#include <stdint.h>
#include <sys/socket.h>

struct gyre_rendezvous_wish {
    const struct gyre_job *job;
    const char *interface;        /* GYRE_INTERFACE; NULL: none */
    uint16_t port_low, port_high; /* of a listener that a file tells; 0, 0: any */
};

struct gyre_rendezvous {
    int listener[4];
    int listeners;
    char file[520]; /* written by this process; "" if none */
};

/* open: rank 0 listens, and says where. close: removes the file and closes all listeners. */
int gyre_rendezvous_open(const struct gyre_rendezvous_wish *wish, struct gyre_rendezvous *place,
                         struct gyre_trouble *trouble);
void gyre_rendezvous_close(struct gyre_rendezvous *place);

/* Finds the places where rank 0 may be: writes at most `max` addresses with ports and returns their
 * number. -EAGAIN: not known yet. */
int gyre_rendezvous_find(const struct gyre_job *job, struct sockaddr_storage *out, int max,
                         struct gyre_trouble *trouble);

#endif
