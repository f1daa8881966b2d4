/* Windows: device memory that every peer's device maps, in place of buffers that none maps.
 *
 *     INPUT, the program's ──copy──▶ window ─┐                       ┌─▶ window ──copy──▶ OUTPUT
 *                                            └─▶ PUSH by devices ────┘
 *
 * The copies stay on the device: the host's memory, which is far, has no part in them. A window is
 * made at its first need, and serves one operation at a time, or those of one stream in their
 * order. Where there is none the operation has a host mirror. Peers learn nothing of a window: to
 * them it is the buffer.
 *
 * Before a first window is made, or a stream is held, all ranks of the node have tried copies
 * between their devices (transport/domain): a peer whose stream is held could not answer a trial.
 *
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_MAPPED_DEVICE_WINDOW_H
#define GYRE_COLLECTIVES_MAPPED_DEVICE_WINDOW_H

#include "collectives/mapped/mesh.h"

/* Whether these buffers have use for a window. */
bool gyre_window_suits(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                       const struct gyre_request *request);

/* Finds the window for these buffers, or makes one. `stream`: the caller's, on which the copies
 * will be put; NULL: on none. Returns NULL where the buffers have no use for a window, or there is
 * none now. Nothing is copied yet. May block, where it makes one. */
struct gyre_push_window *gyre_window_take(struct gyre_mesh *mesh, struct gyre_plan *plan,
                                          const struct gyre_request *request, void *stream);

/* Finds, or makes, a window for the bytes of a message, which its owner copies; NULL: there is none
 * now. The message's end releases it. `mesh` may be NULL. May block, where it makes one. */
struct gyre_push_window *gyre_window_lend(struct gyre_mesh *mesh, uint64_t bytes);
void *gyre_window_memory(const struct gyre_push_window *window);

/* Lets the operation run on the window from here on. NULL: on its own buffers. */
void gyre_window_use(struct gyre_operation *op, struct gyre_push_window *window);

/* Posts the copy of INPUT. True if anything moved. */
bool gyre_window_run(struct gyre_push_window *window);

/* Is INPUT here? NULL allowed: yes. */
bool gyre_window_ready(const struct gyre_push_window *window);

/* Posts the copy of OUTPUT where that has not been done. Is all of it back? */
bool gyre_window_given(struct gyre_push_window *window);

/* Put the copies on the stream instead, which passes by those words. NULL allowed: nothing. */
int gyre_window_post_in(struct gyre_push_window *window, void *stream,
                        const struct gyre_stream_wait *way, struct gyre_trouble *trouble);
int gyre_window_post_out(struct gyre_push_window *window, void *stream,
                         struct gyre_trouble *trouble);

/* Whether a window for an operation that suits one, and that a graph will run, is there now, or can
 * be made. May block. */
bool gyre_window_serves_graph(struct gyre_mesh *mesh, struct gyre_plan *plan);

/* keep: the window is a graph's from now on, and lives as long as the process. capture: put the
 * copies on the stream that is captured, by kernels. That of OUTPUT goes by `table`, of
 * GYRE_FOLD_TABLE bytes in pinned memory: it does nothing before fill(), nor when the table is all
 * zeros again. NULL allowed: nothing. */
void gyre_window_keep(struct gyre_push_window *window);
int gyre_window_capture_in(const struct gyre_push_window *window, void *stream,
                           struct gyre_trouble *trouble);
int gyre_window_capture_out(const struct gyre_push_window *window, void *table, void *stream,
                            struct gyre_trouble *trouble);
void gyre_window_fill(const struct gyre_push_window *window, void *table);

/* Gives the window back; the stream may still use it. NULL allowed. */
void gyre_window_release(struct gyre_push_window *window);

/* Waits for streams that still use the mesh's windows, but not for ever, and forgets the windows.
 * Their memory is the domain's; `share_no_more`: peers unmap it, and it is freed. */
void gyre_windows_drop(struct gyre_mesh *mesh, bool share_no_more);

#endif
