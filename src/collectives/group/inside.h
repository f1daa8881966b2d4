/* The inside of groups: calls, packs of them, and a group that runs. */
#ifndef GYRE_COLLECTIVES_GROUP_INSIDE_H
#define GYRE_COLLECTIVES_GROUP_INSIDE_H

#include "collectives/comm/all_to_all_v.h"
#include "collectives/comm/pack_memory.h"
#include "collectives/plan/request.h"

#define GYRE_PACK_BYTES   (256u * 1024) /* of all blocks of a pack */
#define GYRE_PACK_UNASKED (64u * 1024)  /* bytes that TCP sends without a grant */
#define GYRE_PACK_GRAIN   4096u         /* a pack's memory is a multiple of this */
#define GYRE_GROUP_WINDOW 32u           /* operations of a group in flight */

struct gyre_group_call {
    struct gyre_request request;
    struct gyre_started *started; /* of a call with a handle; NULL: the group waits */
    void *buffer;                 /* for a scaled input, or for tables; freed at the end */
    const struct gyre_all_to_all_v_call
        *v_call;                  /* in the buffer; NULL: the shape says everything */
    struct gyre_pack *pack;       /* the pack with this call; NULL: none */
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
    uint32_t next; /* the next call to start */
    int status;    /* the first failure */
};

/* -- collect.c --------------------------------------------------------------------------------- */

int gyre_group_no_memory(struct gyre_group *group);

/* -- run.c ------------------------------------------------------------------------------------- */

/* start_next(): starts the next call of a group; false: all are started. end(): waits for all of
 * them. Owner. */
bool gyre_run_start_next(struct gyre_group_run *run);
void gyre_run_end(struct gyre_group_run *run);

/* run(): runs a whole group of one communicator. empty(): then ends and empties its calls. */
int gyre_group_run(struct gyre_comm *comm);
void gyre_group_empty(struct gyre_group *group);

/* -- together.c: of one of several ranks in this process
 * ---------------------------------------- */

/* Put the group that this thread opens on the list, and take it off. */
int gyre_group_list(struct gyre_comm *comm);
void gyre_group_unlist(struct gyre_comm *comm);

/* Ends the group, together with the groups that the thread has open on other ranks. */
int gyre_group_end_with_others(struct gyre_comm *comm);

/* -- pack.c ------------------------------------------------------------------------------------ */

/* Packs call `first` with as many of its kind as fit; *together becomes their operation. *pack is
 * NULL where the call stays alone. -ENOMEM. */
int gyre_pack_make(struct gyre_comm *comm, uint32_t first, struct gyre_pack **pack,
                   struct gyre_request *together);

/* Whether the call is in the pack that call `first` leads, or is that call itself. */
bool gyre_pack_has(const struct gyre_group *group, uint32_t first, uint32_t call);

/* Copies out the results of the calls for which the group itself waits, and leaves the pack. */
void gyre_pack_empty(struct gyre_comm *comm, struct gyre_pack *pack, struct gyre_operation *op,
                     uint32_t first, int status);

#endif
