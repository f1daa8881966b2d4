/* An all_to_all_v: blocks of unequal lengths between every two ranks. */
#ifndef GYRE_COLLECTIVES_COMM_ALL_TO_ALL_V_H
#define GYRE_COLLECTIVES_COMM_ALL_TO_ALL_V_H

#include "collectives/comm/communicator.h"

struct gyre_all_to_all_v_side { /* the blocks that a rank sends, or those that it receives */
    const char *name;
    uint8_t *data;
    const uint64_t *count, *at; /* by rank; `at` NULL: one behind the other */
    enum gyre_memory_kind kind; /* of the data; found by the check */
};

struct gyre_all_to_all_v_call {
    const char *call;
    struct gyre_all_to_all_v_side out, in;
    enum gyre_type type;
};

/* Checks a call that may go on, and finds the kinds of its memory; a refusal goes into the books.
 * Owner. */
int gyre_all_to_all_v_check(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call);

/* Starts an all_to_all_v. Its tables have been read when the call returns. Owner. */
int gyre_all_to_all_v_begin(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                            struct gyre_operation **op);

/* Runs the all_to_all_v of one rank alone. Owner. */
int gyre_all_to_all_v_run_alone(struct gyre_comm *comm,
                                const struct gyre_all_to_all_v_call *v_call);

/* The bytes of a copy of the blocks to be sent; 0: the call is not in place. In place, received
 * blocks would overwrite blocks that are still to be sent. */
uint64_t gyre_all_to_all_v_aside_bytes(const struct gyre_comm *comm,
                                       const struct gyre_all_to_all_v_call *v_call);

/* Copies the blocks to `room`, from which the call then sends. Owner. */
int gyre_all_to_all_v_step_aside(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call,
                                 void *room);

#endif
