/* A collective call: its arguments, and the ways it can go. */
#ifndef GYRE_COLLECTIVES_CALLS_CALL_H
#define GYRE_COLLECTIVES_CALLS_CALL_H

#include "collectives/comm/comm.h"

struct gyre_call {
    const char *name;
    struct gyre_shape shape;
    int root; /* as given */
    const void *input;
    void *output;
    bool unequal; /* blocks are in shape.blocks; the check finds the largest */
};

/* Checks the arguments, and then: to its end; started, with a handle; or in the order of a stream of
 * the caller's, without one. Not the owner. */
int gyre_call_run(struct gyre_comm *comm, struct gyre_call *call);
int gyre_call_begin(struct gyre_comm *comm, struct gyre_call *call, struct gyre_work **work);
int gyre_call_run_on(struct gyre_comm *comm, struct gyre_call *call, void *stream);

/* Refuses memory of a device that this rank's cannot access. */
int gyre_call_admit(const struct gyre_comm *comm, const char *name, const void *memory);
int gyre_call_check_stream(const char *name, const void *stream); /* it is one */

#endif
