/* Memory into which a carrier can write at the peer, past the stream's own bytes. Whoever creates a
 * stream passes these look-ups in; they neither block nor call back. */
#ifndef GYRE_TRANSPORT_MEMORY_REMOTE_WRITE_H
#define GYRE_TRANSPORT_MEMORY_REMOTE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#define GYRE_REMOTE_WRITE_KEYS 4

/* Where the peer may write: what its carrier needs for that, as this side's carrier names it, a key
 * for each of several ways. */
struct gyre_remote_place {
    uint64_t address;
    uint32_t key[GYRE_REMOTE_WRITE_KEYS];
};

struct gyre_remote_write {
    void *context;
    uint32_t most; /* places that the peer holds at a time */

    /* The peer may write there from now on; false: it cannot. */
    bool (*expose)(void *context, void *memory, uint64_t length, struct gyre_remote_place *place);

    /* This side can write from there. */
    bool (*covers)(void *context, const void *memory, uint64_t length);

    /* What has come into memory that the CPU cannot touch is there for whoever uses it from now on;
     * 0 or negative. NULL: it is anyway. */
    int (*flush)(void *context);
};

#endif
