/* The checks of a call's arguments, and refusals. Not the owner, any call. */
#ifndef GYRE_COLLECTIVES_COMM_ARGUMENTS_H
#define GYRE_COLLECTIVES_COMM_ARGUMENTS_H

#include "collectives/comm/communicator.h"
#include "collectives/comm/request.h"

struct gyre_message_terms;

/* A collective call, as it was given. */
struct gyre_call {
    const char *name;
    int root;
    bool unequal; /* blocks are in the shape; the check finds the largest */
    struct gyre_request request;
};

/* 0 if a call of this name may go on; otherwise why not. */
int gyre_comm_check(struct gyre_comm *comm, const char *call);

/* Checks a call that may go on, completes its shape, and measures its buffers. */
int gyre_call_check(struct gyre_comm *comm, struct gyre_call *call);

/* Checks what a call in a stream's order must not be. */
int gyre_call_check_stream(const struct gyre_comm *comm, const struct gyre_call *call,
                           const void *stream);

/* Checks what a message is to carry; `peer` as it was given. */
int gyre_message_check(const struct gyre_comm *comm, const char *call,
                       const struct gyre_message_terms *terms, int peer);

/* Finds out of which kind memory is, and refuses a device's that this rank cannot reach. */
int gyre_comm_admit(const struct gyre_comm *comm, const char *call, const void *memory,
                    enum gyre_memory_kind *kind);

/* Refuses a stream that is none. */
int gyre_comm_check_stream(const char *call, const void *stream);

/* A call came to nothing here, for the reason in the thread's trouble, and peers may wait in
 * theirs: it goes into the books, unless `status` is 0 or the communicator's own failure. Returns
 * `status`. */
int gyre_comm_refused(struct gyre_comm *comm, int status);

/* A group ends of which a call was refused: what it lacks is missing behind all that it started. */
void gyre_comm_refused_in_group(struct gyre_comm *comm);

/* As gyre_comm_refused(), of a message. */
int gyre_message_refused(struct gyre_comm *comm, int status);

#endif
