/* The inside of groups: calls, packs of them, and a group that runs. */
#ifndef GYRE_COLLECTIVES_GROUP_INSIDE_H
#define GYRE_COLLECTIVES_GROUP_INSIDE_H

#include "collectives/comm/all_to_all_v.h"
#include "collectives/comm/pack_memory.h"
#include "collectives/comm/request.h"

#define GYRE_PACK_BYTES   (256u * 1024) /* of all blocks of a pack */
#define GYRE_PACK_UNASKED (64u * 1024)  /* what TCP sends before the peer is asked */
#define GYRE_PACK_GRAIN   4096u         /* its memory is a multiple */
#define GYRE_GROUP_WINDOW 32u           /* operations of a group in flight */

struct gyre_group_call {
    struct gyre_request request;
    struct gyre_started *started; /* of one with a handle; NULL: the group waits */
    void *buffer;                 /* of a scaled input, or of tables; freed at the end */
    const struct gyre_all_to_all_v_call
        *v_call;                  /* in the buffer; NULL: it is what the shape says */
    struct gyre_pack *pack;       /* it was taken into; NULL: none */
    uint32_t leader;              /* the pack's first call */
    struct gyre_pack_share share; /* in the pack */
};

/* An operation of the group that is under way: one call, or a pack of several. */
struct gyre_flight {
    struct gyre_operation *op;
    struct gyre_pack *pack; /* NULL: none */
    uint32_t first;
};

struct gyre_group_run {
    struct gyre_comm *comm;
    struct gyre_flight flight[GYRE_GROUP_WINDOW];
    uint64_t begun, ended;
    uint32_t next; /* call to be started */
    int status;    /* the first failure */
};

/* -- collect.c --------------------------------------------------------------------------------- */

int gyre_group_no_memory(struct gyre_group *group);

/* -- run.c ------------------------------------------------------------------------------------- */

/* Starts the next call of a group; false when all are started. Waits for all of them. Owner. */
bool gyre_run_start_next(struct gyre_group_run *run);
void gyre_run_end(struct gyre_group_run *run);

/* Leaves the domain, to the helper if there is more to do. */
void gyre_group_leave(struct gyre_comm *comm);

/* Runs a whole group, of one communicator. Then its calls are over, and emptied. */
int gyre_group_run(struct gyre_comm *comm);
void gyre_group_empty(struct gyre_group *group);

/* -- together.c: of one of several ranks in this process
 * ---------------------------------------- */

/* Lists the group that this thread opens; takes it off the list. */
int gyre_group_list(struct gyre_comm *comm);
void gyre_group_unlist(struct gyre_comm *comm);

/* Ends the group, together with those that the thread has open on other ranks. */
int gyre_group_end_with_others(struct gyre_comm *comm);

/* -- pack.c ------------------------------------------------------------------------------------ */

/* Takes call `first` and as many of its kind as fit; *together is what they go as. *pack is
 * NULL where the call stays alone. -ENOMEM. */
int gyre_pack_make(struct gyre_comm *comm, uint32_t first, struct gyre_pack **pack,
                   struct gyre_request *together);

/* Is the call in the pack that call `first` leads, or that call itself? */
bool gyre_pack_has(const struct gyre_group *group, uint32_t first, uint32_t call);

/* Hands out the results of the calls that the group itself waits for, and leaves the pack. */
void gyre_pack_empty(struct gyre_comm *comm, struct gyre_pack *pack, struct gyre_operation *op,
                     uint32_t first, int status);

#endif
