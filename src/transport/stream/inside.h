/* The inside of a stream, for its own files only:
 *
 *     stream.c           life, completions, failure       agree.c    fingerprints
 *     post.c      send, recv                       table.c    records found by name
 *     now.c       short messages without a post
 *     out.c       gather, wrote                    store.c    unexpected payload
 *     in.c        target, read, messages           point.c    messages read in place
 *     control.c   what else the peer says
 *     withdraw.c  cancel                           remote_write.c    messages written at the peer
 *                                                         device.c     copied by a device */
#ifndef GYRE_TRANSPORT_STREAM_INSIDE_H
#define GYRE_TRANSPORT_STREAM_INSIDE_H

#include "transport/stream/frame.h"
#include "transport/stream/stream.h"
#include "transport/stream/store.h"
#include "transport/stream/table.h"

#define GYRE_STREAM_AHEAD_BYTES   (16u * 1024) /* read-ahead: what follows the payload being read */
#define GYRE_STREAM_STAGE_BYTES   (8u * 1024)  /* headers, and payloads that are cheaper copied */
#define GYRE_STREAM_INLINE_MAX    256u         /* such payloads */
#define GYRE_STREAM_OFFERS        64u          /* frames offered, not yet written; a power of two */
#define GYRE_STREAM_OFFER_BYTES   (512u * 1024) /* enough offered: summed, and still in the cache */
#define GYRE_STREAM_BURST         32u           /* eager frames in a row if a long one could move */
#define GYRE_STREAM_ASKS          16u           /* ASK frames in one gather */
#define GYRE_STREAM_CREDIT_BESIDE 4u            /* of a store, owed: told beside other frames */
#define GYRE_STREAM_CREDIT_ALONE  2u            /* the same: told in any case */
#define GYRE_STREAM_PATIENCE      256u /* idle gathers before a long send asks for a grant */

/* What is alive of one (comm, sequence), local or remote, has one fingerprint: that of its record
 * here. */
struct gyre_agreement {
    struct gyre_slot slot;
    uint32_t local, remote; /* posts; messages and notes from the peer */
};

/* A posted receive, in receives' hash. `live`: its completion is due. A withdrawn one that was
 * granted stays there without a buffer, until its message came or was declared void. */
struct gyre_receive {
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    uint8_t *data;
    uint64_t length, got, token;
    uint64_t offset; /* in the peer's region, if that is not 0 */
    uint32_t region;
    bool live, granted;
    bool invited;              /* the GRANT is out */
    bool placed;               /* and says where the peer may write */
    bool recalled, recall_due; /* which it shall not any more; it has not been told yet */
    struct gyre_remote_place place;
    bool on_device;           /* data is memory that the copy queue copies */
    bool landing;             /* all of it has come, and is on its way from */
    uint8_t *staged_in;       /* the host's memory, where pieces land first; NULL: none did */
    uint64_t copying, ticket; /* bytes that are being copied, and the copy queue's ticket */
};

enum gyre_send_state {
    GYRE_SEND_FREE,
    GYRE_SEND_QUEUED,  /* eager, in out.eager: waits for credit */
    GYRE_SEND_WAITING, /* long, in sends' hash and out.patient: waits for its grant */
    GYRE_SEND_ASKED,   /* in sends' hash: has asked and waits for its grant */
    GYRE_SEND_GRANTED, /* in out.granted: pieces go in turn */
    GYRE_SEND_LOCATED, /* in out.points: the peer will be told where it lies */
    GYRE_SEND_POINTED, /* in sends' hash: the peer reads it */
    GYRE_SEND_REMOTE,  /* in out.remote_writes: the carrier will write it at the peer */
    GYRE_SEND_STAGING, /* in out.staging: the copy queue copies it to the host's memory */
    GYRE_SEND_WRITING, /* and does */
    GYRE_SEND_FRAMED,  /* all its bytes are in offers */
    GYRE_SEND_TEARING, /* withdrawn, but a frame of it is half written */
    GYRE_SEND_VOID     /* withdrawn after its grant, in out.voids: the peer must be told */
};

struct gyre_send {
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    const uint8_t *data;
    uint64_t length, framed, token;
    uint64_t offset; /* in the region, when located */
    uint32_t region;
    enum gyre_send_state state;
    bool live, granted;
    bool placed; /* the grant said where to write, and under which number */
    uint32_t number;
    struct gyre_remote_place place;
    bool on_device;      /* data is memory that the copy queue copies */
    uint8_t *staged_out; /* a copy of it in the host's; NULL: none */
    uint64_t bytes_staged, copying,
        ticket; /* bytes copied; being copied; the copy queue's ticket */
};

struct gyre_stored { /* a whole message whose receive is not posted yet */
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    struct gyre_parcel parcel;
};

struct gyre_note { /* a GRANT before its send, or an ASK before its receive */
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    uint64_t length;
    bool placed, spared_due;
    uint32_t number;
    struct gyre_remote_place place;
};

struct gyre_offer { /* one frame on its way out: what is left of it */
    const uint8_t *head, *body;
    uint32_t head_left, body_left;
    enum gyre_frame_kind kind;
    struct gyre_send *send; /* NULL for control frames */
    bool last;              /* frame of the message */
    bool begun;             /* some of it was written */
};

struct gyre_outgoing {
    struct gyre_queue eager, patient, granted, voids; /* of gyre_send */
    struct gyre_queue points;                         /* of gyre_send too */
    struct gyre_queue remote_writes, staging;         /* likewise */
    struct gyre_queue grants, taken_notices, recalls; /* of gyre_receive */
    struct gyre_queue spared;                         /* of gyre_note */
    struct gyre_offer offer[GYRE_STREAM_OFFERS];
    uint32_t first, offers; /* ring */
    uint32_t staged;        /* bytes of stage in use */
    uint32_t burst, patience;
    uint32_t unframed; /* live sends that are not yet wholly in offers */
    size_t offered;    /* bytes in offers */
    uint8_t *torn;     /* copy of the half-written frame of a withdrawn send */
    bool begun;        /* a message without a post is half written, and its send() will follow: */
    struct gyre_match begun_match;
    struct gyre_offer *begun_rest; /* NULL: written meanwhile */
    bool bye_asked, bye_framed, bye_said;
    uint8_t *stage;
};

enum gyre_where { GYRE_IN_HEADER, GYRE_IN_BUFFER, GYRE_IN_STORE, GYRE_IN_CONTROL, GYRE_IN_VOID };

struct gyre_incoming {
    enum gyre_where where; /* do the next bytes belong? */
    struct gyre_frame frame;
    uint32_t left; /* payload bytes to come */
    uint32_t crc;
    int pending_status;           /* fails the stream once the frame's sum has proved it true */
    uint8_t *at;                  /* GYRE_IN_BUFFER */
    struct gyre_receive *receive; /* it is for; NULL: none */
    struct gyre_stored *stored;   /* GYRE_IN_STORE */
    struct gyre_queue points;     /* of gyre_receive: the peer has told where they lie */
    struct gyre_queue copying_receives; /* likewise: the copy queue copies them */
    uint8_t control[GYRE_FRAME_CONTROL_MAX];
    uint32_t have; /* bytes in ahead: the start of a header */
    bool bye_heard;
    uint8_t *ahead;
};

struct gyre_credit { /* running totals */
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
    bool checksum;
    uint32_t eager, unexpected; /* bytes: the longest message, and all of them, that come unasked */
    uint32_t peer;
    const struct gyre_memory_lookup *lookup;
    const struct gyre_remote_write *remote_write;
    struct gyre_copy_queue *copy_queue;
    uint32_t places;                         /* that the peer holds */
    uint32_t posts, sends_out, receives_out; /* posts whose completion was not fetched yet */
    struct gyre_table receives, sends, stored, grants, asks, agreements;
    struct gyre_credit credit;
    struct gyre_incoming in;
    struct gyre_outgoing out;
    struct gyre_done *done; /* ring of 2 × posts, rounded up */
    uint32_t done_mask, done_first, done_end;
    struct gyre_match mine;
    uint64_t theirs;
    size_t footprint;
    struct gyre_store store;
};

static inline struct gyre_offer *gyre_stream_offer_at(struct gyre_outgoing *out, uint32_t i)
{
    return &out->offer[(out->first + i) % GYRE_STREAM_OFFERS];
}

/* stream.c. tell: a post has completed; end: completes the post, its record lives on; release: the
 * record is free; finish: both. */
void gyre_stream_tell(struct gyre_stream *stream, uint64_t token, int status, bool send);
void gyre_stream_end_send(struct gyre_stream *stream, struct gyre_send *send, int status);
void gyre_stream_release_send(struct gyre_stream *stream, struct gyre_send *send);
void gyre_stream_finish_send(struct gyre_stream *stream, struct gyre_send *send, int status);
void gyre_stream_end_receive(struct gyre_stream *stream, struct gyre_receive *receive, int status);
void gyre_stream_release_receive(struct gyre_stream *stream, struct gyre_receive *receive);
void gyre_stream_give_receive(struct gyre_stream *stream,
                              struct gyre_receive *receive); /* as release; it is in no hash */
void gyre_stream_finish_receive(struct gyre_stream *stream, struct gyre_receive *receive,
                                int status);

/* out.c. retire: forgets the offers of which nothing is left. */
void gyre_stream_retire(struct gyre_stream *stream);
bool gyre_stream_has_credit(const struct gyre_stream *stream, uint64_t length);
void gyre_stream_grant(struct gyre_stream *stream, struct gyre_receive *receive);
void gyre_stream_granted(struct gyre_stream *stream, struct gyre_send *send); /* by the peer */

/* now.c. go_on: the send is the one that has begun without a post. is_next: read-ahead begins
 * with that message, of which all is there and proved; the credit is counted then. */
bool gyre_stream_go_on(struct gyre_stream *stream, struct gyre_send *send);
bool gyre_stream_is_next(struct gyre_stream *stream, const struct gyre_match *match,
                         uint64_t length);

/* in.c. unstore: a stored message goes where it belongs; expecting, granted_receive: the
 * receive that a message of that name is for, come of itself or granted; NULL: none. */
void gyre_stream_unstore(struct gyre_stream *stream, struct gyre_stored *stored, void *data);
struct gyre_receive *gyre_stream_expecting(struct gyre_stream *stream,
                                           const struct gyre_match *match);
struct gyre_receive *gyre_stream_granted_receive(struct gyre_stream *stream,
                                                 const struct gyre_match *match);
void gyre_stream_end_granted(struct gyre_stream *stream, struct gyre_receive *receive, int status);

/* point.c. point: the peer shall read the message in place, if it can; heard_*: what it says
 * of that. */
bool gyre_stream_point(struct gyre_stream *stream, struct gyre_send *send);
int gyre_stream_heard_point(struct gyre_stream *stream, const struct gyre_match *match);
int gyre_stream_heard_taken(struct gyre_stream *stream, const struct gyre_match *match);

/* The message of this receive, which is in no queue, has been copied. */
void gyre_stream_take(struct gyre_stream *stream, struct gyre_receive *receive);

/* device.c. is_on_device: that memory is the copy queue's; locate_on_device: the region that holds
 * it, 0: none; stage_in: where pieces land instead, NULL: no memory; land: all have come. send_off:
 * the first of in.points goes by the copy queue, and by_host says whether host memory is read;
 * end_copies: what has been copied: 1 or 0, whether anything moved, or the status with which the
 * stream has failed. stage: the message goes in pieces, from a copy; run_staging: moves that on,
 * and tells as end_copies does. settle: the copy queue touches no buffer any more. */
bool gyre_stream_is_on_device(const struct gyre_stream *stream, const void *memory,
                              uint64_t length);
uint32_t gyre_stream_locate_on_device(const struct gyre_stream *stream, const void *memory,
                                      uint64_t length, uint64_t *offset);
uint8_t *gyre_stream_stage_in(struct gyre_receive *receive);
void gyre_stream_land(struct gyre_stream *stream, struct gyre_receive *receive);
int gyre_stream_send_off(struct gyre_stream *stream, struct gyre_receive *receive, bool by_host);
int gyre_stream_end_copies(struct gyre_stream *stream);
void gyre_stream_stage(struct gyre_stream *stream, struct gyre_send *send);
int gyre_stream_run_staging(struct gyre_stream *stream);
void gyre_stream_settle(struct gyre_stream *stream);

/* The copy queue may write its buffer: it ends by itself. */
static inline bool gyre_stream_past_recall(const struct gyre_receive *receive)
{
    return receive->landing || receive->copying;
}

/* remote_write.c. expose: the peer may write the message where it belongs; unplace: it may not any
 * more; recall: it shall not, and the receive ends when that is sure; reach: the carrier will write
 * the message. */
bool gyre_stream_expose(struct gyre_stream *stream, struct gyre_receive *receive);
void gyre_stream_unplace(struct gyre_stream *stream, struct gyre_receive *receive);
bool gyre_stream_recall(struct gyre_stream *stream, struct gyre_receive *receive);
bool gyre_stream_write_remote(struct gyre_stream *stream, struct gyre_send *send);
uint32_t gyre_stream_number(const struct gyre_stream *stream, const struct gyre_receive *receive);
int gyre_stream_heard_recall(struct gyre_stream *stream, const struct gyre_match *match);
int gyre_stream_heard_spared(struct gyre_stream *stream, const struct gyre_match *match);

/* control.c. hear: acts on the control frame that has come; hear_nothing_more: ends what
 * waits for the peer. */
int gyre_stream_hear(struct gyre_stream *stream);
void gyre_stream_hear_nothing_more(struct gyre_stream *stream);

/* withdraw.c. The post completes with `status`. */
void gyre_stream_withdraw_send(struct gyre_stream *stream, struct gyre_send *send, int status);
void gyre_stream_withdraw_receive(struct gyre_stream *stream, struct gyre_receive *receive,
                                  int status);

/* agree.c. differs(): whatever is alive of it here has another fingerprint; check(): a frame from
 * the peer against what is known; join(): adds one local or remote mention to the record and
 * returns it, or NULL and *status; leave(): takes it back. GYRE_MISMATCH is recorded for the
 * caller. */
bool gyre_stream_differs(const struct gyre_stream *stream, const struct gyre_match *match);
int gyre_stream_agree_check(struct gyre_stream *stream, const struct gyre_match *match);
struct gyre_agreement *gyre_stream_agree_join(struct gyre_stream *stream,
                                              const struct gyre_match *match, bool remote,
                                              int *status);
void gyre_stream_agree_leave(struct gyre_stream *stream, struct gyre_agreement *agreement,
                             bool remote);
int gyre_stream_disagree(struct gyre_stream *stream, const struct gyre_match *mine,
                         uint64_t theirs);

#endif
