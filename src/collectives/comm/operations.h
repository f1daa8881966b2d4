/* Operations whose arguments have been checked. */
#ifndef GYRE_COLLECTIVES_COMM_OPERATIONS_H
#define GYRE_COLLECTIVES_COMM_OPERATIONS_H

#include "collectives/comm/communicator.h"
#include "collectives/plan/request.h"

/* All calls but gyre_comm_enter_and_run(): owner. */

/* Runs an operation to its end. */
int gyre_comm_run(struct gyre_comm *comm, const struct gyre_request *request);

/* Runs an operation for a caller that is not the owner: enters the domain and leaves it. */
int gyre_comm_enter_and_run(struct gyre_comm *comm, const struct gyre_request *request);

/* Runs an operation, unchecked and its buffers not measured, where it goes the shortest way and its
 * shape is that of the operation before, as in a loop: the shape has passed the checks. False: the
 * operation does not fit, and nothing was done; kinds of buffers may be known. */
bool gyre_comm_run_again(struct gyre_comm *comm, struct gyre_request *request, int *status);

/* Starts an operation and makes its handle, which takes over `buffer`. */
int gyre_comm_begin(struct gyre_comm *comm, const struct gyre_request *request, void *buffer,
                    struct gyre_work **work);

/* Starts an operation in the order of a stream: the operation waits for the work on the stream, and
 * later work on the stream waits for the operation. */
int gyre_comm_begin_on(struct gyre_comm *comm, const struct gyre_request *request, void *stream);

/* Copies between two memories, one of which may be a device's; done when the call returns. */
int gyre_comm_copy(struct gyre_comm *comm, void *to, const void *from, uint64_t bytes,
                   bool on_device);

/* Waits until an operation may start: all calls that came before have had their turn, and there is
 * room. */
int gyre_comm_await_room(struct gyre_comm *comm);

/* Starts an operation. start() awaits room; for start_plan() there is room, and the shape is the
 * plan's. */
int gyre_comm_start(struct gyre_comm *comm, const struct gyre_request *request,
                    struct gyre_operation **op);
int gyre_comm_start_plan(struct gyre_comm *comm, struct gyre_plan *plan,
                         const struct gyre_request *request, struct gyre_operation **op);

/* Drives until the operation has ended, and returns its status. */
int gyre_comm_drive(struct gyre_comm *comm, struct gyre_operation *op);

#endif
