/* Handles of started work, as one communicator keeps them, and what a handle stands for. Users see
 * a number only. All calls: one thread at a time, as the calls that start. */
#ifndef GYRE_COLLECTIVES_COMM_HANDLES_H
#define GYRE_COLLECTIVES_COMM_HANDLES_H

#include "base/status.h"

#include <gyre/gyre.h>

#include <stdbool.h>

struct gyre_comm;
struct gyre_operation;
struct gyre_message;
struct gyre_pack;

/* Where in a pack the result of one of its calls stands, and where it belongs. */
struct gyre_pack_share {
    const uint8_t *from;
    uint8_t *to;
    uint64_t block, bytes; /* of one block, of all */
    uint64_t pitch;        /* from block to block in the pack */
};

struct gyre_started {
    struct gyre_work *handle;  /* a number, never an address; NULL: it stands for nothing */
    struct gyre_started *next; /* of the free ones */
    uint32_t place, generation;
    struct gyre_comm *comm;
    struct gyre_operation *op;    /* NULL: a message, or it has ended, with `status` */
    struct gyre_message *message; /* NULL: none */
    int status;
    bool deferred;                /* its group has not ended: it is not started */
    void *buffer;                 /* freed when it ends */
    struct gyre_pack *pack;       /* of a group, that it is in; NULL: none */
    struct gyre_pack_share share; /* its own of that */
};

struct gyre_work_table {
    struct gyre_comm *comm; /* whose handles they are */
    uint32_t number;        /* of the communicator among the process's; 0: it has no table yet */
    uint32_t places;
    struct gyre_started **chunk;       /* WORK_CHUNK places each */
    struct gyre_started *first, *last; /* free ones, in the order in which they became it */
};

/* Makes room for the first handles of this communicator, in zeroed memory. */
int gyre_work_init(struct gyre_work_table *work, struct gyre_comm *comm,
                   struct gyre_trouble *trouble);

/* Ends all handles at once. Any state allows it. */
void gyre_work_deinit(struct gyre_work_table *work);

/* Makes a handle; the table grows if need be. -ENOMEM or, where a million are out, GYRE_INVALID. */
int gyre_work_new(struct gyre_work_table *work, struct gyre_started **started);

/* The handle is spent. */
void gyre_work_free(struct gyre_work_table *work, struct gyre_started *started);

/* What a handle of any communicator stands for; NULL: it is spent, or never was one. */
struct gyre_started *gyre_work_find(const struct gyre_work *handle);

/* What stands at a place, which may be free. */
struct gyre_started *gyre_work_at(const struct gyre_work_table *work, uint32_t place);

#endif
