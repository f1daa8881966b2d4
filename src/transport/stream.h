/* The message protocol over one ordered byte stream, without any I/O, clock or thread in it.
 *
 * A stream turns posts (send this, receive that) into bytes that want to go out and turns bytes that came in into
 * completions. Whatever carries the bytes (a TCP socket driven by epoll or io_uring, a ring in shared memory, the
 * simulator) calls four functions: gather/wrote for output, target/read for input. So framing, matching, flow control
 * and checks exist once, are tested without a socket, and behave alike on every carrier.
 *
 *   send ──▶ ┌────────┐ gather ▶ wrote     up to GYRE_EAGER_MAX bytes go at once, within the peer's 64 KiB store;
 *            │ stream │                    longer messages wait for the GRANT that the peer's recv sends
 *   recv ──▶ └────────┘ target ◀ read      and then land directly in the posted buffer
 *                │
 *                ▼ complete (token, status)
 *
 * Rules: nothing here blocks or allocates after create(); at most `posts` sends and `posts` receives are outstanding;
 * each accepted post completes exactly once, also after fail(); a SEND completes when its last byte was accepted by
 * the carrier (wrote), a RECV when its last frame's sum was verified; a stream never refuses to read because a receive
 * is missing: what may arrive unexpected is limited by credit at the sender. A frame whose sum is wrong, whose epoch
 * differs, or that does not fit the protocol makes read() return GYRE_CORRUPT; a posted receive (or stored message) of
 * the same comm and sequence with another fingerprint, or the same name with another length, makes it GYRE_MISMATCH with
 * the two fingerprints in gyre_stream_mismatch(). One thread. */
#ifndef GYRE_TRANSPORT_STREAM_H
#define GYRE_TRANSPORT_STREAM_H

#include "base/status.h"
#include "transport/match.h"

#include <sys/uio.h>

struct gyre_stream;

struct gyre_stream_options {
    uint16_t epoch;
    uint32_t posts; /* 1 … 65,536 sends and as many receives */
    bool checksum;  /* false: carriers inside one machine's memory skip the payload's sum (the header's stays) */
};

int gyre_stream_create(const struct gyre_stream_options *options, struct gyre_stream **stream);
void gyre_stream_destroy(struct gyre_stream *stream); /* NULL allowed; outstanding posts are forgotten */

/* 0: accepted, the buffer is borrowed until its completion. GYRE_AGAIN: all posts are in use, nothing was taken.
 * Negative: the stream has failed, nothing was taken. */
int gyre_stream_send(struct gyre_stream *stream, const struct gyre_match *match, const void *data, uint64_t length,
                     uint64_t token);
int gyre_stream_recv(struct gyre_stream *stream, const struct gyre_match *match, void *data, uint64_t length,
                     uint64_t token);

/* Withdraws a post. 0: it will complete with -ECANCELED and its buffer is free then; -ENOENT: no such post. A message
 * half on the wire is finished from (or read into) a buffer of the stream's own, so the stream stays usable. */
int gyre_stream_cancel(struct gyre_stream *stream, uint64_t token);

/* Output: the next bytes to write, at most `max` vectors; returns how many (0: nothing to write). They stay valid until
 * wrote() says how many bytes of them the carrier took. */
int gyre_stream_gather(struct gyre_stream *stream, struct iovec *iov, int max);
void gyre_stream_wrote(struct gyre_stream *stream, size_t bytes);

/* Input: where the next bytes belong (1 or 2 vectors; never 0), then how many came. read() returns 0 or negative, after
 * which the stream has failed and every outstanding post completes with that status. */
int gyre_stream_target(struct gyre_stream *stream, struct iovec iov[2]);
int gyre_stream_read(struct gyre_stream *stream, size_t bytes);

int gyre_stream_complete(struct gyre_stream *stream, struct gyre_completion *out, int max); /* returns how many */

/* The carrier broke: every outstanding post completes with `status`, later posts are refused with it. */
void gyre_stream_fail(struct gyre_stream *stream, int status);

/* Asks for a BYE after everything accepted so far; said() is true once it left, heard() once the peer's came. */
void gyre_stream_bye(struct gyre_stream *stream);
bool gyre_stream_said_bye(const struct gyre_stream *stream);
bool gyre_stream_heard_bye(const struct gyre_stream *stream);

/* After GYRE_MISMATCH: the name with this side's fingerprint, and the peer's fingerprint. */
void gyre_stream_mismatch(const struct gyre_stream *stream, struct gyre_match *mine, uint64_t *theirs);

/* Bytes held, for the memory budget. */
size_t gyre_stream_footprint(const struct gyre_stream *stream);

#endif
