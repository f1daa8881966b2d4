/* The place where ranks meet rank 0: an address that all know, or what rank 0 writes, a file or a
 * value in a store. */
#ifndef GYRE_TRANSPORT_JOIN_PLACE_H
#define GYRE_TRANSPORT_JOIN_PLACE_H

#include "transport/job/job.h"

#include <stdint.h>
#include <sys/socket.h>

struct gyre_rendezvous_wish {
    const struct gyre_job *job;
    const char *interface;        /* GYRE_INTERFACE; NULL: none */
    uint16_t port_low, port_high; /* of a listener that a file tells; 0, 0: any */
    bool moved; /* this may be another machine than the one that the address names */
};

struct gyre_rendezvous {
    int listener[4];
    int listeners;
    const struct gyre_job *written; /* whose file or value this process has written; NULL: none */
};

/* open: rank 0 listens, and says where; borrows the job. close: removes the file or the value, and
 * closes all listeners. */
int gyre_rendezvous_open(const struct gyre_rendezvous_wish *wish, struct gyre_rendezvous *place,
                         struct gyre_trouble *trouble);
void gyre_rendezvous_close(struct gyre_rendezvous *place);

/* Finds the places where rank 0 may be: writes at most `max` addresses with ports and returns their
 * number. -EAGAIN: not known yet. Gives *job the key that lies there, if one does. May wait half a
 * second for a store. */
int gyre_rendezvous_find(struct gyre_job *job, struct sockaddr_storage *out, int max,
                         struct gyre_trouble *trouble);

#endif
