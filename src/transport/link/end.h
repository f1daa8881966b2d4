/* One end of a pipe: the state that every driver keeps of a pipe beside its wire.
 *
 *     struct shm_pipe ┌ struct gyre_pipe   rank, peer, streams, status, story      end.c
 *                     └ rings, counters                                            the driver
 *
 * A driver's struct begins with a `struct gyre_pipe`, and the driver casts. The driver brings the
 * streams' bytes over its wire, and says when its wire has failed. A detached pipe lives on among
 * the departed pipes of its wire, without a wire, until poll() has told its last completions. So
 * detach() needs no memory. */
#ifndef GYRE_TRANSPORT_LINK_END_H
#define GYRE_TRANSPORT_LINK_END_H

#include "transport/link/driver.h"
#include "transport/stream/stream.h"

struct gyre_pipe {
    int status;          /* 0, or the status with which the pipe has failed */
    bool left;           /* the peer left before there was a connection */
    uint32_t rank, peer; /* this end's; the other end's */
    uint32_t streams;
    struct gyre_stream *stream[GYRE_CHANNEL_SOCKETS];
    struct gyre_pipe *next;      /* among the departed pipes */
    struct gyre_trouble trouble; /* the story of `status` */
};

/* Makes a driver's pipe of `size` bytes, with so many streams, all else zero. options->keys has as
 * many elements. 0, -ENOMEM, -EIO: libcrypto fails, or GYRE_INVALID: options that no stream has. */
int gyre_end_create(size_t size, uint32_t rank, uint32_t peer,
                    const struct gyre_stream_options *options, uint32_t streams,
                    struct gyre_pipe **pipe);

/* Forgets outstanding posts. */
void gyre_end_destroy(struct gyre_pipe *pipe);

/* Fails the pipe and every post with `status`; only the first failure counts. The caller has
 * written the story to `trouble`, and its wire touches no buffer of a post any more. */
void gyre_end_fail(struct gyre_pipe *pipe, int status);

/* Says why a stream has refused, with `status`, a frame or this rank's post: on a mismatch what
 * both ends mean, else `other`. `text` is room for the answer. */
const char *gyre_end_refusal(const struct gyre_pipe *pipe, uint32_t stream, int status,
                             const char *other, char text[256]);

/* Fails an end whose peer left before there was a connection. Posts end as over a connection that
 * has ended: the peer may have left because of a failure of which this rank will hear. The link
 * tells of a mismatch, which it is if this rank hears of none. Not `told`: the peer refuses a
 * connection, and rank 0, which would know whether it has left or died, has left. */
void gyre_end_leave(struct gyre_pipe *pipe, bool told);

/* The driver's state(): the status is the story's, which may be another than that of posts. */
int gyre_end_state(const struct gyre_pipe *pipe, struct gyre_trouble *trouble);

/* The driver's carries(), of a pipe with one stream. */
bool gyre_end_carries(struct gyre_pipe *pipe, const void *memory, uint64_t length, bool send);

/* Whether a message of that name has come or waits at the peer, as gyre_stream_announced() tells it
 * of the stream that carries the name. */
int gyre_end_announced(const struct gyre_pipe *pipe, struct gyre_match *match);

/* Whether the peer has said goodbye, on any stream, or left before there was one: it posts nothing
 * more. */
bool gyre_end_has_left(const struct gyre_pipe *pipe);

/* Has every stream say goodbye. */
void gyre_end_bye(struct gyre_pipe *pipe);

/* Whether goodbyes have gone both ways on every stream. */
bool gyre_end_parted(const struct gyre_pipe *pipe);

/* Ends the pipe's posts with -ECANCELED, and puts the pipe among the departed ones. */
void gyre_end_depart(struct gyre_pipe *pipe, struct gyre_pipe **departed);

/* Writes completions of departed pipes, at most `max`, and frees pipes without more. Returns the
 * number written. */
int gyre_end_harvest(struct gyre_pipe **departed, struct gyre_completion *out, int max);

/* Frees all departed pipes. */
void gyre_end_forget(struct gyre_pipe **departed);

#endif
