/* PUSH in the order of a caller's stream.
 *
 * An operation is *alone* where its stream runs the turn by itself. */
#ifndef GYRE_COLLECTIVES_MAPPED_DEVICE_PUSH_STREAM_H
#define GYRE_COLLECTIVES_MAPPED_DEVICE_PUSH_STREAM_H

#include "collectives/mapped/mesh.h"

/* Puts an operation that devices may run on the caller's stream; `turn` is what its turn will be.
 * The operation is alone where that is possible. Otherwise the host has a part in it; and where the
 * folds have no place there, the stream has words alone, and the operation posts its folds
 * itself. */
int gyre_push_post_on(struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t turn,
                      void *stream, struct gyre_trouble *trouble);

/* Puts the operation into the graph that is captured on the stream. Its turn tells peers where the
 * buffers are, and each launch of the graph runs the operation. */
int gyre_push_capture(struct gyre_mesh *mesh, struct gyre_operation *op, void *stream,
                      struct gyre_trouble *trouble);

/* Lets the stream of an operation that is ahead fold as soon as all have arrived: it is in the turn
 * under way, whose lines are read. */
void gyre_push_resolve(const struct gyre_mesh *mesh, struct gyre_operation *op);

/* Runs the host's part of an operation whose folds stand on a stream. True if anything moved. */
bool gyre_push_beside_stream(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Keeps a stream from folding, or waits until it has, at most until `limit`: the job has failed. */
void gyre_push_stop(const struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t limit);

/* Has launches of all captured operations pass from now on, and do nothing: the job has failed. */
void gyre_captured_stop(struct gyre_mesh *mesh, uint64_t limit);

/* The same at the end of the communicator, behind launches that are under way. */
void gyre_captured_end(struct gyre_mesh *mesh, uint64_t limit);

/* Takes outputs away from peers that may write them, because a launch was under way when the job
 * failed. */
void gyre_captured_detach(struct gyre_mesh *mesh);

#endif
