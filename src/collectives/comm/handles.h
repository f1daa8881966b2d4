/* Handles of started work, as one communicator keeps them. Users see a number only. All calls:
 * owner, except gyre_work_comm(). */
#ifndef GYRE_COLLECTIVES_COMM_HANDLES_H
#define GYRE_COLLECTIVES_COMM_HANDLES_H

#include "base/status.h"

#include <gyre/gyre.h>

#include <stdbool.h>

struct gyre_comm;
struct gyre_operation;
struct gyre_message;
struct gyre_pack;

/* The place of a call's result in a pack, and the place where it belongs. */
struct gyre_pack_share {
    const uint8_t *from;
    uint8_t *to;
    uint64_t block, bytes; /* of one block; of all */
    uint64_t pitch;        /* from block to block in the pack */
    bool on_device;        /* `to` is a device's memory */
};

struct gyre_started {
    struct gyre_work *handle;  /* a number, never an address; NULL: the place is free */
    struct gyre_started *next; /* of the free places */
    uint32_t place, generation;
    struct gyre_comm *comm;
    struct gyre_operation *op;    /* NULL: a message; or the operation has ended, with `status` */
    struct gyre_message *message; /* NULL: none */
    int status;
    char *story;                  /* of a failure that is not the communicator's; NULL: none */
    bool deferred;                /* its group has not ended, so nothing was started */
    bool awaited;                 /* a thread waits for it, and will spend it */
    void *buffer;                 /* freed at the end */
    struct gyre_pack *pack;       /* of a group, with this call in it; NULL: none */
    struct gyre_pack_share share; /* the call's share of the pack */
};

struct gyre_work_table {
    struct gyre_comm *comm; /* whose handles these are */
    uint32_t number;        /* of the communicator in the process; 0: no table yet */
    uint32_t places;
    struct gyre_started **chunk;       /* WORK_CHUNK places each */
    struct gyre_started *first, *last; /* free places, longest free first */
};

/* Makes room for the first handles of this communicator, in zeroed memory. */
int gyre_work_init(struct gyre_work_table *work, struct gyre_comm *comm,
                   struct gyre_trouble *trouble);

/* Ends all handles at once. Any state allows it. */
void gyre_work_deinit(struct gyre_work_table *work);

/* Makes a handle; the table grows where needed. -ENOMEM, or GYRE_INVALID where a million handles
 * are out. */
int gyre_work_new(struct gyre_work_table *work, struct gyre_started **started);

/* Spends a handle. */
void gyre_work_free(struct gyre_work_table *work, struct gyre_started *started);

/* The communicator of a handle; NULL: it has ended, or the handle never existed. Any thread. */
struct gyre_comm *gyre_work_comm(const struct gyre_work *handle);

/* The started work of a handle of this communicator; NULL: the handle is spent. */
struct gyre_started *gyre_work_find(const struct gyre_work_table *work,
                                    const struct gyre_work *handle);

/* The started work at a place, which may be free. */
struct gyre_started *gyre_work_at(const struct gyre_work_table *work, uint32_t place);

#endif
