/* The inside of a stream, for its own files only. Each file uses those below it:
 *
 *     stream.c         create, destroy, and what a carrier asks of the whole stream
 *     post.c           send() and recv(): from a post to a record
 *     in.c             target(), read() and feed(): from bytes to messages
 *     now.c            short messages without a post
 *     out.c            gather(): which frame goes next
 *     control.c        control frames that the peer has sent
 *     withdraw.c       cancel(): posts that are taken back
 *     point.c          messages that the receiver reads where they lie
 *     device.c         copies by the copy queue, from and to memory of a device
 *     remote_write.c   messages that the carrier writes at the peer
 *     offers.c         frames that wait for the carrier
 *     records.c        posts, stored messages and notes: their ends, and how they are found
 *     agree.c          fingerprints
 *     table.c store.c frame.c match.h */
#ifndef GYRE_TRANSPORT_STREAM_INSIDE_H
#define GYRE_TRANSPORT_STREAM_INSIDE_H

#include "transport/seal/cipher_ring.h"
#include "transport/stream/frame.h"
#include "transport/stream/records.h"
#include "transport/stream/store.h"
#include "transport/stream/stream.h"
#include "transport/stream/table.h"

#define GYRE_STREAM_AHEAD_BYTES (16u * 1024) /* read-ahead: bytes behind the payload being read */
#define GYRE_STREAM_STAGE_BYTES (8u * 1024)  /* headers, and payloads that are cheaper copied */
#define GYRE_STREAM_INLINE_MAX  256u         /* a payload that is cheaper copied, at most */
#define GYRE_STREAM_OFFERS      64u          /* frames offered, not yet written; a power of two */
/* Offered bytes that are enough: summed, and still in the cache. */
#define GYRE_STREAM_OFFER_BYTES   (512u * 1024)
#define GYRE_STREAM_BURST         32u /* eager frames in a row if a long one could move */
#define GYRE_STREAM_ASKS          16u /* ASK frames in one gather */
#define GYRE_STREAM_CREDIT_BESIDE 4u  /* of a store, owed: told beside other frames */
#define GYRE_STREAM_CREDIT_ALONE  2u  /* of a store, owed: told in any case */
#define GYRE_STREAM_CIPHER_BYTES  (4 * GYRE_FRAME_PAYLOAD_MAX) /* encrypted, not yet written */
#define GYRE_STREAM_PATIENCE      256u /* idle gathers before a long send asks for a grant */

struct gyre_offer { /* one frame on its way out: the part that is left */
    const uint8_t *head, *body;
    uint32_t head_left, body_left;
    enum gyre_frame_kind kind;
    struct gyre_send *send; /* NULL for control frames */
    bool last;              /* the last frame of its message */
    bool begun;             /* some of it was written */
    uint64_t number;        /* with keys: of the frame */
    uint32_t cipher_end;    /* of body in out.cipher; 0: body is borrowed, or there is none */
};

struct gyre_outgoing {
    struct gyre_queue eager, patient, granted, voids; /* of gyre_send */
    struct gyre_queue points;                         /* of gyre_send too */
    struct gyre_queue remote_writes, staging;         /* of gyre_send too */
    struct gyre_queue grants, taken_notices, recalls; /* of gyre_receive */
    struct gyre_queue spared;                         /* of gyre_note */
    struct gyre_offer offer[GYRE_STREAM_OFFERS];
    uint32_t first, offers; /* ring */
    uint32_t staged;        /* bytes of stage in use */
    uint32_t burst, patience;
    uint32_t unframed; /* live sends that are not yet wholly in offers */
    size_t offered;    /* bytes in offers */
    uint8_t *torn;     /* copy of the half-written frame of a withdrawn send */
    bool begun;        /* a message without a post is half written, and its send() will follow */
    struct gyre_match begun_match;
    struct gyre_offer *begun_rest; /* the rest of that message; NULL: written meanwhile */
    bool bye_asked, bye_framed, bye_said;
    uint8_t *stage;
    struct gyre_cipher_ring cipher;
};

enum gyre_where { GYRE_IN_HEADER, GYRE_IN_BUFFER, GYRE_IN_STORE, GYRE_IN_CONTROL, GYRE_IN_VOID };

struct gyre_incoming {
    enum gyre_where where; /* do the next bytes belong? */
    struct gyre_frame frame;
    uint32_t left; /* payload bytes to come */
    /* Where payloads have sums: of the header and the payload so far, and what it shall become. */
    uint32_t sum, wanted;
    uint8_t tag[GYRE_SEAL_TAG_BYTES]; /* with keys */
    int pending_status;               /* fails the stream once the payload's proof is right */
    uint8_t *at;                      /* GYRE_IN_BUFFER */
    struct gyre_receive *receive;     /* the payload's; NULL: none */
    struct gyre_stored *stored;       /* GYRE_IN_STORE */
    struct gyre_queue points;         /* of gyre_receive: the peer has pointed at their messages */
    struct gyre_queue copying_receives; /* of gyre_receive: the copy queue copies their messages */
    uint8_t control[GYRE_FRAME_CONTROL_MAX];
    uint32_t have; /* bytes in ahead: the start of a header */
    bool bye_heard;
    uint8_t *ahead;
};

struct gyre_credit { /* running totals of bytes */
    /* As sender: charged here, given back by the peer. */
    uint64_t spent, returned;

    /* As receiver: charged by the peer, free again, told to the peer. */
    uint64_t received, given, reported;
};

struct gyre_done {
    struct gyre_completion completion;
    bool send;
};

struct gyre_stream {
    int status;
    uint16_t epoch;
    bool checksum;                        /* of payloads */
    uint32_t head;                        /* bytes before each payload */
    struct gyre_seal *seal_out, *seal_in; /* NULL: no keys */
    /* Bytes of the longest message that comes without a grant, and of all of them. */
    uint32_t eager, unexpected;
    uint32_t peer;
    struct gyre_memory_lookup *lookup;
    struct gyre_copy_queue *copy_queue;
    uint32_t places, places_most;            /* places that the peer holds, and may hold */
    uint32_t posts, sends_out, receives_out; /* posts whose completion was not fetched yet */
    struct gyre_table receives, sends, stored, grants, asks, agreements;
    struct gyre_credit credit;
    struct gyre_incoming in;
    struct gyre_outgoing out;
    struct gyre_done *done; /* ring of 2 × posts, rounded up */
    uint32_t done_mask, done_first, done_end;
    struct gyre_match mine;
    uint64_t theirs;
    struct gyre_unexpected store;
};

static inline struct gyre_offer *gyre_stream_offer_at(struct gyre_outgoing *out, uint32_t i)
{
    return &out->offer[(out->first + i) % GYRE_STREAM_OFFERS];
}

/* Whether the peer's store has room for an eager message of that length. */
static inline bool gyre_stream_has_credit(const struct gyre_stream *stream, uint64_t length)
{
    const struct gyre_credit *credit = &stream->credit;
    return credit->spent - credit->returned + length + GYRE_UNEXPECTED_CHARGE <= stream->unexpected;
}

/* agree.c. One record per operation that this end refers to, with its fingerprint. */

/* Whether an operation of that name is known here with another fingerprint. */
bool gyre_stream_differs(const struct gyre_stream *stream, const struct gyre_match *match);

/* Checks a frame of the peer against this end's knowledge: 0, GYRE_MISMATCH (recorded by
 * disagree()) or GYRE_CORRUPT. */
int gyre_stream_agree_check(struct gyre_stream *stream, const struct gyre_match *match);

/* Adds a reference, local or remote. Returns the operation's record; NULL: *status says why not. */
struct gyre_agreement *gyre_stream_agree_join(struct gyre_stream *stream,
                                              const struct gyre_match *match, bool remote,
                                              int *status);

/* Drops a reference. */
void gyre_stream_agree_leave(struct gyre_stream *stream, struct gyre_agreement *agreement,
                             bool remote);

/* Records both sides of a mismatch for gyre_stream_mismatch(). Returns GYRE_MISMATCH. */
int gyre_stream_disagree(struct gyre_stream *stream, const struct gyre_match *mine,
                         uint64_t theirs);

/* offers.c */

/* Whether one more offer, of any frame, may be made. */
bool gyre_stream_offers_have_room(const struct gyre_outgoing *out);

/* Offers a frame. A payload of more than GYRE_STREAM_INLINE_MAX bytes is borrowed until it is
 * written. */
struct gyre_offer *gyre_stream_offer(struct gyre_stream *stream, enum gyre_frame_kind kind,
                                     const struct gyre_match *match, const void *payload,
                                     uint32_t length);

/* Takes back an offer that no carrier has begun to write. With keys its number stays in use. */
void gyre_stream_take_back(struct gyre_stream *stream, struct gyre_offer *offer);

/* Writes a frame's header to `head`, and the payload's sum behind it where payloads have sums. */
void gyre_stream_write_head(const struct gyre_stream *stream, const struct gyre_frame *frame,
                            const void *payload, uint8_t head[GYRE_FRAME_HEAD_MOST]);

/* Seals the frame whose header is at `head`, and writes the tag behind the header. The payload goes
 * to `to`; NULL: it stays where it is. */
void gyre_stream_seal(struct gyre_stream *stream, uint8_t head[GYRE_FRAME_HEAD_MOST],
                      const void *payload, uint8_t *to, uint32_t length);

/* Fills `iov` with what is left of the offers. Returns the number of vectors, at most `max`. */
int gyre_stream_offered(const struct gyre_stream *stream, struct iovec *iov, int max);

/* Forgets the offers that are written. */
void gyre_stream_retire(struct gyre_stream *stream);

/* remote_write.c */

/* Lets the peer write the message into the receive's buffer, if that is registered. */
bool gyre_stream_expose(struct gyre_stream *stream, struct gyre_receive *receive);

/* The peer cannot write into the buffer any more. Ends a receive that was recalled. */
void gyre_stream_unplace(struct gyre_stream *stream, struct gyre_receive *receive);

/* True: the peer may write into the buffer and is told not to; the receive ends when it agrees. */
bool gyre_stream_recall(struct gyre_stream *stream, struct gyre_receive *receive);

/* The number by which the peer's carrier names the receive. */
uint32_t gyre_stream_number(const struct gyre_stream *stream, const struct gyre_receive *receive);

/* True: the carrier will write the message at the peer. */
bool gyre_stream_write_remote(struct gyre_stream *stream, struct gyre_send *send);

/* Act on RECALL and SPARED. recall returns the send that has to go in pieces now, in *send. */
int gyre_stream_heard_recall(struct gyre_stream *stream, const struct gyre_match *match,
                             struct gyre_send **send);
int gyre_stream_heard_spared(struct gyre_stream *stream, const struct gyre_match *match);

/* device.c. Negative returns are statuses that fail the stream. */

/* Whether a message lies in memory that only the copy queue copies. */
bool gyre_stream_is_on_device(const struct gyre_stream *stream, const struct gyre_match *match,
                              uint64_t length);

/* The region of a device's memory that holds the message, and where; 0: none does. */
uint32_t gyre_stream_locate_on_device(const struct gyre_stream *stream, const void *memory,
                                      uint64_t length, uint64_t *offset);

/* Host memory where the pieces of a message for a device land; NULL: no memory. */
uint8_t *gyre_stream_stage_in(struct gyre_receive *receive);

/* Has the copy queue bring a message to the device: all pieces have landed. */
void gyre_stream_land(struct gyre_stream *stream, struct gyre_receive *receive);

/* Posts a copy for the first of in.points; by_host: host memory takes part. 1: posted; 0: no room.
 */
int gyre_stream_post_copy(struct gyre_stream *stream, struct gyre_receive *receive, bool by_host);

/* Ends the copies that are over. Returns 1 if there were any, else 0. */
int gyre_stream_end_copies(struct gyre_stream *stream);

/* Queues a send of a device's memory to be copied to host memory, from which its pieces go. */
void gyre_stream_stage(struct gyre_stream *stream, struct gyre_send *send);

/* Moves the first of the sends that are staged. Returns 1 if anything moved, else 0. */
int gyre_stream_run_staging(struct gyre_stream *stream);

/* point.c */

/* True: the peer will be told where the message lies, and read it there. */
bool gyre_stream_point(struct gyre_stream *stream, struct gyre_send *send);

/* Act on POINT and TAKEN. */
int gyre_stream_heard_point(struct gyre_stream *stream, const struct gyre_match *match);
int gyre_stream_heard_taken(struct gyre_stream *stream, const struct gyre_match *match);

/* withdraw.c. Take a post back, which completes with `status`. */
void gyre_stream_withdraw_send(struct gyre_stream *stream, struct gyre_send *send, int status);
void gyre_stream_withdraw_receive(struct gyre_stream *stream, struct gyre_receive *receive,
                                  int status);

/* control.c */

/* Acts on a control frame that has come whole. */
int gyre_stream_hear(struct gyre_stream *stream);

/* Ends everything that waits for a peer that sends no message any more. */
void gyre_stream_hear_nothing_more(struct gyre_stream *stream);

/* Chooses the way of a message whose send the peer has granted. */
void gyre_stream_granted(struct gyre_stream *stream, struct gyre_send *send);

/* now.c */

/* True: the send is the one of which the beginning went without a post; the send goes on there. */
bool gyre_stream_go_on(struct gyre_stream *stream, struct gyre_send *send);

/* True: read-ahead begins with that message, whole and proved, and the message has gone to `data`.
 * Its credit has been counted. */
bool gyre_stream_take_next(struct gyre_stream *stream, const struct gyre_match *match, void *data,
                           uint64_t length);

#endif
