/* Checks of a call's arguments, and refusals. All calls but the first: owner. */
#ifndef GYRE_COLLECTIVES_COMM_ARGUMENTS_H
#define GYRE_COLLECTIVES_COMM_ARGUMENTS_H

#include "collectives/comm/communicator.h"
#include "collectives/plan/request.h"

struct gyre_message_terms;

/* A collective call with its arguments. */
struct gyre_call {
    const char *name;
    int root;
    bool unequal; /* the shape has blocks; the check finds the largest */
    struct gyre_request request;
};

/* 0 if a call of this name may go on; otherwise the status that says why not. */
int gyre_comm_check(struct gyre_comm *comm, const char *call);

/* Checks a call that may go on, completes its shape, and measures its buffers. */
int gyre_call_check(struct gyre_comm *comm, struct gyre_call *call);

/* Refuses a call in a stream's order that cannot have one. */
int gyre_call_check_stream(const struct gyre_comm *comm, const struct gyre_call *call,
                           const void *stream);

/* Checks the terms of a message, and finds the kind of its memory; `peer` is the caller's. */
int gyre_message_check(const struct gyre_comm *comm, const char *call,
                       struct gyre_message_terms *terms, int peer);

/* Finds the kind of memory, and refuses a device's that this rank cannot reach. */
int gyre_comm_admit(const struct gyre_comm *comm, const char *call, const void *memory,
                    enum gyre_memory_kind *kind);

/* Refuses a stream that does not exist. */
int gyre_comm_check_stream(const char *call, const void *stream);

/* Puts a refused call into the books: the reason is in the thread's trouble, and peers may wait in
 * their call. Does nothing where `status` is 0. Where the communicator has failed, also unseen, it
 * does nothing and returns the failure; otherwise `status`. */
int gyre_comm_refused(struct gyre_comm *comm, int status);

/* Puts a group with a refused call into the books: that call is missing behind all that the group
 * started. */
void gyre_comm_refused_in_group(struct gyre_comm *comm);

/* As gyre_comm_refused(), for a message. */
int gyre_message_refused(struct gyre_comm *comm, int status);

#endif
