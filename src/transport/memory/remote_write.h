/* Memory into which a carrier can write at the peer, past the stream's own bytes. The table is the
 * carrier's, as gyre_driver is a driver's: the stream asks, and no entry blocks or calls the
 * stream. */
#ifndef GYRE_TRANSPORT_MEMORY_REMOTE_WRITE_H
#define GYRE_TRANSPORT_MEMORY_REMOTE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#define GYRE_REMOTE_WRITE_KEYS 4

/* A place in which the peer may write: its address, and a key for each of several ways, as this
 * side's carrier names them. */
struct gyre_remote_place {
    uint64_t address;
    uint32_t key[GYRE_REMOTE_WRITE_KEYS];
};

struct gyre_remote_write {
    void *context;
    uint32_t most; /* places that the peer holds at a time */

    /* Lets the peer write there from now on. False: it cannot. */
    bool (*expose)(void *context, void *memory, uint64_t length, struct gyre_remote_place *place);

    /* Whether this side can write from there. */
    bool (*covers)(void *context, const void *memory, uint64_t length);

    /* Makes what was written into a device's memory visible to the device. 0 or negative. NULL:
     * nothing has to be done. */
    int (*flush)(void *context);
};

#endif
