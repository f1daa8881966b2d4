/* The shm driver's entries, for a driver in front of it whose messages go by the same rings
 * (cuda_ipc.c). Nobody else includes this. */
#ifndef GYRE_TRANSPORT_LINK_SHM_H
#define GYRE_TRANSPORT_LINK_SHM_H

#include "transport/link/driver.h"

int gyre_shm_open(const struct gyre_wire_options *options, struct gyre_wire **out,
                  struct gyre_trouble *trouble);
void gyre_shm_close(struct gyre_wire *wire);
int gyre_shm_attach(struct gyre_wire *wire, const struct gyre_channel *channel,
                    struct gyre_pipe **out, struct gyre_trouble *trouble);
void gyre_shm_detach(struct gyre_pipe *pipe);
int gyre_shm_bye(struct gyre_pipe *pipe);
int gyre_shm_send(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                  uint64_t length, uint64_t token);
int gyre_shm_recv(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
                  uint64_t length, uint64_t token);
bool gyre_shm_send_now(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                       uint64_t length);
int gyre_shm_recv_now(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
                      uint64_t length);
int gyre_shm_cancel(struct gyre_pipe *pipe, uint64_t token);
int gyre_shm_poll(struct gyre_wire *wire, uint64_t now, struct gyre_completion *out, int max);
int gyre_shm_state(const struct gyre_pipe *pipe, struct gyre_trouble *trouble);
int gyre_shm_arm(struct gyre_wire *wire, struct gyre_alarm *alarm);
uint64_t gyre_shm_moved(const struct gyre_wire *wire);

#define GYRE_SHM_POSTS 256u

/* All of those and what the rings can do, in the initialiser of a driver. */
#define GYRE_SHM_ENTRIES                                                                           \
    .limits = {.mapped = true,                                                                     \
               .memory_kinds = 1u << GYRE_MEMORY_HOST,                                             \
               .message_max = UINT64_MAX / 2,                                                      \
               .inline_max = 0,                                                                    \
               .posts = GYRE_SHM_POSTS,                                                            \
               .alignment = 1,                                                                     \
               .latency_ns = 500,                                                                  \
               .bandwidth_mib = 8000},                                                             \
    .close = gyre_shm_close, .attach = gyre_shm_attach, .detach = gyre_shm_detach,                 \
    .bye = gyre_shm_bye, .send = gyre_shm_send, .recv = gyre_shm_recv,                             \
    .send_now = gyre_shm_send_now, .recv_now = gyre_shm_recv_now, .cancel = gyre_shm_cancel,       \
    .poll = gyre_shm_poll, .state = gyre_shm_state, .arm = gyre_shm_arm, .moved = gyre_shm_moved

/* Not entries: what the wire can see, and the stream of a pipe; NULL: the pipe has failed. */
const struct gyre_memory_lookup *gyre_shm_lookup(const struct gyre_wire *wire);
struct gyre_stream *gyre_shm_stream(struct gyre_pipe *pipe);

#endif
