/* An all_to_all_v: blocks of unequal lengths between every two ranks. */
#ifndef GYRE_COLLECTIVES_COMM_ALL_TO_ALL_V_H
#define GYRE_COLLECTIVES_COMM_ALL_TO_ALL_V_H

#include "collectives/comm/communicator.h"

struct gyre_all_to_all_v_side { /* what goes out, or what comes in */
    const char *name;
    uint8_t *data;
    const uint64_t *count, *at; /* by rank; `at` NULL: behind each other */
};

struct gyre_all_to_all_v_call {
    const char *call;
    struct gyre_all_to_all_v_side out, in;
    enum gyre_type type;
};

/* Checks a call that may go on; a refusal is in the books. Not the owner. */
int gyre_all_to_all_v_check(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call);

/* Starts an all_to_all_v, whose tables it has read when it returns. Owner. */
int gyre_all_to_all_v_begin(struct gyre_comm *comm, const struct gyre_all_to_all_v_call *v_call,
                            struct gyre_operation **op);

/* Runs the all_to_all_v of one rank alone. Not the owner. */
int gyre_all_to_all_v_run_alone(struct gyre_comm *comm,
                                const struct gyre_all_to_all_v_call *v_call);

/* In place, what comes would overwrite what goes: what goes is copied first. Bytes of the copy; 0:
 * the call is not in place. */
uint64_t gyre_all_to_all_v_aside_bytes(const struct gyre_comm *comm,
                                       const struct gyre_all_to_all_v_call *v_call);

/* Makes the copy in `room`, which the call sends from then on. Not the owner. */
int gyre_all_to_all_v_step_aside(struct gyre_comm *comm, struct gyre_all_to_all_v_call *v_call,
                                 void *room);

#endif
