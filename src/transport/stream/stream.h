/* The message protocol over one ordered byte stream, without any I/O, clock or thread in it.
 *
 * A stream turns posts (send this, receive that) into bytes that want to go out and turns bytes
 * that came in into completions. Whatever carries the bytes (a TCP socket driven by epoll or
 * io_uring, a ring in shared memory, the simulator) calls four functions: gather/wrote for output,
 * target/read for input. So framing, matching, flow control and checks exist once, are tested
 * without a socket, and behave alike on every carrier.
 *
 *   send ──▶ ┌────────┐ gather ▶ wrote     up to `eager` bytes go at once, while the peer's store,
 *            │ stream │                    four times as much, has room; all others wait for the
 *   recv ──▶ └────────┘ target ◀ read      GRANT that the peer's recv sends, and then land directly
 *                │                         in the posted buffer
 *                ▼ complete (token, status)
 *
 * Where both ends see the sender's memory, a long message is not sent: POINT says where it lies,
 * the receiver copies it, piece by piece, and says TAKEN, with which the SEND completes.
 *
 * Such memory may be a device's. A copy queue then copies the message (transport/memory/
 * copy_queue.h), as the copy queue does for every long message into a device's memory.
 *
 * A carrier that can write into the receiver's buffer from where the message lies does so
 * (transport/memory/remote_write.h). PLACE grants the write; only the grant and the news of its end
 * take part in the stream. The memory may be a device's. Where only one end's carrier reaches its
 * memory, the copy queue copies at the other end.
 *
 * Rules: nothing here blocks; nothing allocates after create(), but for cancel() of a half-written
 * send; at most `posts` sends and `posts` receives are outstanding (until complete() returned
 * them), `posts` being equal at both ends; each accepted post completes exactly once, also after
 * fail(); a SEND completes when its last byte was accepted by the carrier (wrote), a RECV when its
 * last frame's sum was verified; a stream never refuses to read because a receive is missing: what
 * may arrive unexpected is limited by credit at the sender; a message whose receive is posted
 * always moves, however full that store is.
 *
 * A frame whose sum is wrong, whose epoch differs, or that does not fit the protocol makes read()
 * return GYRE_CORRUPT. Whatever is alive of one comm and sequence at either end must have one
 * fingerprint, and messages of one name one length; else read(), or the post that shows it, gives
 * GYRE_MISMATCH, with both fingerprints in gyre_stream_mismatch(). Messages of equal names that are
 * outstanding at once are not told apart, and a second receive longer than `eager` of one
 * name is GYRE_INVALID. One thread. */
#ifndef GYRE_TRANSPORT_STREAM_STREAM_H
#define GYRE_TRANSPORT_STREAM_STREAM_H

#include "base/status.h"
#include "transport/stream/match.h"
#include "transport/memory/remote_write.h"
#include "transport/memory/lookup.h"

#include <sys/uio.h>

struct gyre_stream;
struct gyre_send;

struct gyre_stream_options {
    uint16_t epoch;
    uint32_t posts; /* 1 … 65,536 sends and as many receives */
    bool checksum;  /* of payload too; false inside one machine's memory: of headers only */
    uint32_t eager; /* a longer message waits for a GRANT; both ends alike; 0: GYRE_EAGER_MAX */
    uint32_t peer;  /* by which `lookup` knows views of its memory */
    struct gyre_memory_lookup
        *lookup; /* NULL: no memory is seen by both ends. Outlives the stream */
    const struct gyre_remote_write
        *remote_write; /* NULL: the carrier writes no memory of the peer. Likewise */
    struct gyre_copy_queue
        *copy_queue; /* copies what the CPU cannot touch, where `sight` has none. Likewise */
};

int gyre_stream_create(const struct gyre_stream_options *options, struct gyre_stream **stream);
void gyre_stream_destroy(struct gyre_stream *stream); /* NULL allowed; forgets outstanding posts */

/* 0: accepted, the buffer is borrowed until its completion. GYRE_AGAIN: all posts are in use,
 * nothing was taken. Negative: the stream has failed (or GYRE_INVALID: after bye(), or a name or
 * fingerprint that this side itself uses otherwise), nothing was taken. */
int gyre_stream_send(struct gyre_stream *stream, const struct gyre_match *match, const void *data,
                     uint64_t length, uint64_t token);
int gyre_stream_recv(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                     uint64_t length, uint64_t token);

/* A send of at most `eager` bytes that leaves at once: its frame is written to `to`, 32 bytes and
 * the message, for the carrier to bring behind all that it has taken; the send has completed.
 * Returns the frame's bytes; 0: it is not to be so (another message goes first, a credit is
 * missing, it is too long, it would be refused), nothing was taken: send() it. */
uint32_t gyre_stream_send_now(struct gyre_stream *stream, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token, uint8_t *to);

/* Short messages without a post and a completion, up to `eager` bytes. Each returns false where
 * nothing was taken: send(), or recv() and give the stream its bytes.
 *
 *     leave_now()   true: the carrier brings the header and `length` bytes of data behind all that
 *                   it has taken
 *     take_now()    true: the message had come before, and is in `data`
 *     come_now()    the carrier's next bytes are `header` and `length` bytes without a sum of their
 *                   own; true: the carrier copies these to their place and goes on behind them */
bool gyre_stream_leave_now(struct gyre_stream *stream, const struct gyre_match *match,
                           const void *data, uint64_t length, uint8_t header[32]);
bool gyre_stream_take_now(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                          uint64_t length);
bool gyre_stream_come_now(struct gyre_stream *stream, const struct gyre_match *match,
                          uint64_t length, const uint8_t header[32]);

/* A carrier took only `bytes` of the header and data that leave_now() let go. With none taken the
 * message has not left. Otherwise the rest goes before all else, and the send() of that name, which
 * has to follow, completes behind the rest. `length` is at most GYRE_STREAM_REST_MOST. */
#define GYRE_STREAM_REST_MOST 4096u
void gyre_stream_leave_rest(struct gyre_stream *stream, const struct gyre_match *match,
                            const void *data, uint64_t length, const uint8_t header[32],
                            size_t bytes);

/* Does as read(), between two frames. Returns true where the first frame is this message, whole,
 * and has gone to `data`. *status is read()'s. */
bool gyre_stream_awaits_frame(const struct gyre_stream *stream);
bool gyre_stream_read_now(struct gyre_stream *stream, size_t bytes, const struct gyre_match *match,
                          void *data, uint64_t length, int *status);

/* Withdraws a post. 0: it will complete with -ECANCELED, and its buffer is free then. -ENOENT: no
 * such post, or one that ends by itself, because the peer, the carrier or the copy queue works on
 * its buffer. The stream stays usable: a frame that is half written goes on from a copy, the rest
 * of a message that the peer has granted is declared void (the peer's receive ends with
 * -ECANCELED), a message on its way into a withdrawn receive is read and dropped. Vectors from
 * gather() and target() before the cancel are void too: a carrier that still works on them must end
 * that first. */
int gyre_stream_cancel(struct gyre_stream *stream, uint64_t token);

/* Output: the next bytes to write, at most `max` vectors; returns how many (0: nothing to write).
 * They stay valid until wrote() says how many bytes of them the carrier took. */
int gyre_stream_gather(struct gyre_stream *stream, struct iovec *iov, int max);
bool gyre_stream_silent(const struct gyre_stream *stream); /* nor is there a take_write() */
void gyre_stream_wrote(struct gyre_stream *stream, size_t bytes);

/* Input: where the next bytes belong (1 or 2 vectors; never 0), then how many came. read() returns
 * 0 or negative, after which the stream has failed and every outstanding post completes with that
 * status. */
int gyre_stream_target(struct gyre_stream *stream, struct iovec iov[2]);
int gyre_stream_read(struct gyre_stream *stream, size_t bytes);

/* Both at once, for bytes that lie in memory of the carrier, where the peer may even write still:
 * each byte is read once. One stream is given its bytes in one of the two ways. */
int gyre_stream_feed(struct gyre_stream *stream, const uint8_t *bytes, size_t length);

/* Messages that the peer points at, in memory that both ends see, and those for memory that the CPU
 * cannot touch, or from it: fetch() copies at most one piece of the next one, or has the copy queue
 * copy it, learns what the copy queue has copied, and says 1 if anything moved, 0 if not, negative
 * if the stream has just failed. pending() says whether one waits for fetch() alone. */
int gyre_stream_fetch(struct gyre_stream *stream);
bool gyre_stream_pending(const struct gyre_stream *stream);

/* Whether memory that the CPU cannot touch can be posted. If not, give host memory. */
bool gyre_stream_carries(const struct gyre_stream *stream, const void *memory, uint64_t length,
                         bool send);

/* Messages that the carrier writes at the peer by itself. take_write(): the next one, which the
 * carrier has to write from now on; false: none. end_write(): it was, and the buffer is not needed
 * any more; the peer has been told its number. arrived(): so says the peer; 0 or negative as
 * read(). */
struct gyre_stream_write {
    const uint8_t *from;
    uint64_t length;
    struct gyre_remote_place place;
    uint32_t number;
    struct gyre_send *send;
};

bool gyre_stream_take_write(struct gyre_stream *stream, struct gyre_stream_write *write);
void gyre_stream_end_write(struct gyre_stream *stream, struct gyre_send *send);
int gyre_stream_arrived(struct gyre_stream *stream, uint32_t number);

/* For a carrier that has to begin anew by other means: what take_write() said of a message, and
 * where the one belongs that the peer writes under this number (NULL: none does), and how long it
 * is. */
void gyre_stream_write_of(const struct gyre_send *send, struct gyre_stream_write *write);
uint8_t *gyre_stream_place(struct gyre_stream *stream, uint32_t number, uint64_t *length);

/* waits(): some post has not completed; starves(): the next short message has no credit. Either may
 * be helped by reading. */
bool gyre_stream_waits(const struct gyre_stream *stream);
bool gyre_stream_lacks_credit(const struct gyre_stream *stream);

/* Returns how many it wrote. */
int gyre_stream_complete(struct gyre_stream *stream, struct gyre_completion *out, int max);

/* The carrier broke: every outstanding post completes with `status`, later posts are refused with
 * it. */
void gyre_stream_fail(struct gyre_stream *stream, int status);

/* Nothing is posted any more: a BYE goes out behind every message accepted so far; said() is true
 * once it left, heard() once the peer's came. What then still waits for the peer (receives, long
 * sends without a grant) completes with GYRE_PEER_LOST. */
void gyre_stream_bye(struct gyre_stream *stream);
bool gyre_stream_said_bye(const struct gyre_stream *stream);
bool gyre_stream_heard_bye(const struct gyre_stream *stream);

/* After GYRE_MISMATCH: the name with this side's fingerprint, and the peer's fingerprint. */
void gyre_stream_mismatch(const struct gyre_stream *stream, struct gyre_match *mine,
                          uint64_t *theirs);

/* Bytes held, for the memory budget. */
size_t gyre_stream_footprint(const struct gyre_stream *stream);

#endif
