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
 * A carrier writes a message into the receiver's buffer from where the message lies, if the memory
 * of both posts is registered with the carrier. PLACE grants the write; only the grant and the news
 * of the write's end take part in the stream. The memory may be a device's. Where only one end's
 * memory is registered, the copy queue copies at the other end.
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
#include "transport/stream/frame.h"
#include "transport/memory/lookup.h"

#include <sys/uio.h>

struct gyre_stream;
struct gyre_send;

struct gyre_stream_options {
    uint16_t epoch;
    uint32_t posts; /* 1 … 65,536 sends and as many receives */
    bool checksum;  /* of payloads; false inside one machine's memory: of headers only */
    uint32_t eager; /* a longer message waits for a GRANT; both ends alike; 0: GYRE_EAGER_MAX */
    uint32_t peer;  /* the number by which `lookup` knows the peer's memory */
    /* NULL: no memory is seen by both ends. Outlives the stream. */
    struct gyre_memory_lookup *lookup;
    /* Copies memory that the CPU cannot touch, where `lookup` has no queue. Outlives the stream. */
    struct gyre_copy_queue *copy_queue;
    uint32_t places; /* into which the peer may write at a time; 0: carriers write no memory */
    /* Frames have tags instead of sums of the payload. Not for carriers that feed(). */
    enum gyre_seal_mode security;
    const struct gyre_traffic_keys *keys; /* with a `security`; copied */
};

int gyre_stream_create(const struct gyre_stream_options *options, struct gyre_stream **stream);
void gyre_stream_destroy(struct gyre_stream *stream); /* NULL allowed; forgets outstanding posts */

/* Whether frames have tags, and whether payloads are encrypted. */
bool gyre_stream_has_keys(const struct gyre_stream *stream);
bool gyre_stream_encrypts(const struct gyre_stream *stream);

/* The bytes before each payload: the header and the payload's proof (frame.h). */
uint32_t gyre_stream_head_bytes(const struct gyre_stream *stream);

/* Posts a send or a receive. 0: accepted, the buffer is borrowed until the completion. GYRE_AGAIN:
 * all posts are in use, nothing was taken. Negative: nothing was taken, and the stream has failed;
 * or GYRE_INVALID: after bye(), or this side itself uses the name or the fingerprint for something
 * else. */
int gyre_stream_send(struct gyre_stream *stream, const struct gyre_match *match, const void *data,
                     uint64_t length, uint64_t token);
int gyre_stream_recv(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                     uint64_t length, uint64_t token);

/* The same of memory that is registered with the carrier. The carrier can write the message from
 * `data` at the peer; the peer's carrier can write the message to `place`, which is `data`. */
int gyre_stream_send_registered(struct gyre_stream *stream, const struct gyre_match *match,
                                const void *data, uint64_t length, uint64_t token);
int gyre_stream_recv_registered(struct gyre_stream *stream, const struct gyre_match *match,
                                void *data, uint64_t length, uint64_t token,
                                const struct gyre_remote_place *place);

/* Writes the frame of a send of at most `eager` bytes to `to`, head_bytes() and the message. The
 * carrier brings the frame behind everything that it has taken; the send has completed. Returns the
 * frame's bytes. 0: nothing was taken, send() the message (another goes first, credit is missing,
 * it is too long, or it would be refused). */
uint32_t gyre_stream_send_now(struct gyre_stream *stream, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token, uint8_t *to);

/* Short messages without a post and a completion, up to `eager` bytes. Each returns false where
 * nothing was taken: send(), or recv() and give the stream its bytes.
 *
 *     leave_now()   true: the carrier brings the header, of head_bytes(), and `length` bytes of
 *                   data behind all that it has taken. `cipher` (NULL: none) has room for `length`
 *                   bytes, which ENCRYPT needs, and which then go instead of data
 *     take_now()    true: the message had come before, and is in `data`
 *     come_now()    the carrier's next bytes are `header` and `length` bytes without a sum of their
 *                   own; true: the carrier copies these to their place and goes on behind them */
bool gyre_stream_leave_now(struct gyre_stream *stream, const struct gyre_match *match,
                           const void *data, uint64_t length, uint8_t *header, uint8_t *cipher);
bool gyre_stream_take_now(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                          uint64_t length);
bool gyre_stream_come_now(struct gyre_stream *stream, const struct gyre_match *match,
                          uint64_t length, const uint8_t header[32]);

/* Goes on with a message of which a carrier took only `bytes` of the header and data that
 * leave_now() let go. With none taken the message has not left. Otherwise the rest goes before all
 * else, and the send() of that name, which has to follow, completes behind the rest. `length` is at
 * most GYRE_STREAM_REST_MOST. */
#define GYRE_STREAM_REST_MOST 4096u
void gyre_stream_leave_rest(struct gyre_stream *stream, const struct gyre_match *match,
                            const void *data, uint64_t length, const uint8_t *header, size_t bytes);

/* awaits_frame(): the stream is between two frames. read_now() does as read() there; true: the
 * first frame is this message, whole, and has gone to `data`. *status is read()'s. */
bool gyre_stream_awaits_frame(const struct gyre_stream *stream);
bool gyre_stream_read_now(struct gyre_stream *stream, size_t bytes, const struct gyre_match *match,
                          void *data, uint64_t length, int *status);

/* Withdraws a post. 0: the post will complete with -ECANCELED, and its buffer is free then.
 * -ENOENT: no such post, or one that ends by itself, because the peer, the carrier or the copy
 * queue works on its buffer. The stream stays usable: a half-written frame goes on from a copy; the
 * rest of a message that the peer has granted is declared void, and the peer's receive ends with
 * -ECANCELED; a message on its way into a withdrawn receive is read and dropped. Vectors from
 * gather() and target() before the cancel are void too: a carrier that still works on them must end
 * that first. */
int gyre_stream_cancel(struct gyre_stream *stream, uint64_t token);

/* Output. gather() gives the next bytes to write, in at most `max` vectors, and returns their
 * number (0: nothing to write). The vectors stay valid until wrote() says how many of their bytes
 * the carrier took. */
int gyre_stream_gather(struct gyre_stream *stream, struct iovec *iov, int max);
bool gyre_stream_silent(const struct gyre_stream *stream); /* also no write at the peer */
void gyre_stream_wrote(struct gyre_stream *stream, size_t bytes);

/* Input. target() says where the next bytes belong (1 or 2 vectors; never 0), read() how many came.
 * read() returns 0 or negative; after a negative status the stream has failed and every outstanding
 * post completes with that status. */
int gyre_stream_target(struct gyre_stream *stream, struct iovec iov[2]);
int gyre_stream_read(struct gyre_stream *stream, size_t bytes);

/* Input of bytes that lie in memory of the carrier, where the peer may even still write: each byte
 * is read once. A stream gets its bytes either by feed() or by target() and read(). */
int gyre_stream_feed(struct gyre_stream *stream, const uint8_t *bytes, size_t length);

/* Copies messages that the peer points at, in memory that both ends see, and messages for or from
 * memory that the CPU cannot touch. fetch() copies at most one piece of the next message, or has
 * the copy queue copy it, and learns what the copy queue has copied. 1: something moved; 0:
 * nothing; negative: the stream has just failed. pending(): a message waits for fetch() alone. */
int gyre_stream_fetch(struct gyre_stream *stream);
bool gyre_stream_pending(const struct gyre_stream *stream);

/* Whether memory that the CPU cannot touch, and that is not registered, can be posted. If not, the
 * caller posts host memory. */
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

/* What take_write() said of a message, for a carrier that has to begin anew by other means. */
void gyre_stream_write_of(const struct gyre_send *send, struct gyre_stream_write *write);

/* Where the message belongs that the peer writes under this number. False: there is none. */
struct gyre_stream_arrival {
    uint8_t *to;
    uint64_t length;
    bool on_device; /* the CPU cannot touch `to` */
};

bool gyre_stream_arrival_of(struct gyre_stream *stream, uint32_t number,
                            struct gyre_stream_arrival *arrival);

/* Whether a message of that name has come, or waits at the peer for its receive: then 1, and
 * match->fingerprint becomes the message's. 0: none has said so; GYRE_PEER_LOST: none will, for the
 * peer has said goodbye; the stream's failure. */
int gyre_stream_announced(const struct gyre_stream *stream, struct gyre_match *match);

/* Has long sends that wait for a grant ask for it at the next gather. True: some will. Called
 * before a sleep, in which no gather counts their patience. */
bool gyre_stream_ask(struct gyre_stream *stream);

/* waits(): a post has not completed. lacks_credit(): the next short message has no credit. Reading
 * may help both. */
bool gyre_stream_waits(const struct gyre_stream *stream);
bool gyre_stream_lacks_credit(const struct gyre_stream *stream);

/* Writes completions and returns their number. */
int gyre_stream_complete(struct gyre_stream *stream, struct gyre_completion *out, int max);

/* Fails the stream because the carrier broke: every outstanding post completes with `status`, and
 * later posts are refused with `status`. */
void gyre_stream_fail(struct gyre_stream *stream, int status);
int gyre_stream_failure(const struct gyre_stream *stream); /* 0: it has not failed */

/* Says goodbye: nothing is posted any more. A BYE goes out behind every accepted message. said() is
 * true once the BYE left, heard() once the peer's came. Posts that then still wait for the peer
 * (receives, long sends without a grant) complete with GYRE_PEER_LOST. */
void gyre_stream_bye(struct gyre_stream *stream);
bool gyre_stream_said_bye(const struct gyre_stream *stream);
bool gyre_stream_heard_bye(const struct gyre_stream *stream);

/* Fills in, after GYRE_MISMATCH, the name with this side's fingerprint, and the peer's
 * fingerprint. */
void gyre_stream_mismatch(const struct gyre_stream *stream, struct gyre_match *mine,
                          uint64_t *theirs);

#endif
