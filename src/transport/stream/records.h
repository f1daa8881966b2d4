/* The records of a stream: one for each post, each stored message, each note of the peer and each
 * operation. records.c ends them, frees them and finds them by name. */
#ifndef GYRE_TRANSPORT_STREAM_RECORDS_H
#define GYRE_TRANSPORT_STREAM_RECORDS_H

#include "transport/stream/store.h"
#include "transport/stream/table.h"

struct gyre_stream;

/* One operation, (comm, sequence), and its fingerprint. Lives while anything refers to it. */
struct gyre_agreement {
    struct gyre_slot slot;
    uint32_t local;  /* posts of this side */
    uint32_t remote; /* messages and notes of the peer */
};

/* A posted receive, in receives' hash. A withdrawn receive that was granted stays there without a
 * buffer until its message has come or was declared void. */
struct gyre_receive {
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    uint8_t *data;
    uint64_t length, got, token;
    uint32_t region; /* of the peer, that holds the message; 0: the message comes in frames */
    uint64_t offset; /* in the region */
    bool live;       /* its completion is due */
    bool granted;    /* the peer may send the message, or will get the GRANT */
    bool invited;    /* the peer has got the GRANT */
    bool registered; /* the carrier knows data, as `place` */
    bool placed;     /* the peer may write the message into the buffer */
    bool recalled;   /* the peer shall stop writing there */
    bool recall_due; /* the RECALL has not been sent */
    struct gyre_remote_place place;
    bool on_device;     /* data is memory that only the copy queue copies */
    bool landing;       /* the whole message is in staged_in, on its way to data */
    uint8_t *staged_in; /* host memory for pieces of a message for a device; NULL: none came */
    uint64_t copying;   /* bytes that the copy queue copies */
    uint64_t ticket;    /* the copy queue's */
};

enum gyre_send_state {
    GYRE_SEND_FREE,
    GYRE_SEND_QUEUED,  /* eager, in out.eager: waits for credit */
    GYRE_SEND_WAITING, /* long, in sends' hash and out.patient: waits for its grant */
    GYRE_SEND_ASKED,   /* in sends' hash: has asked and waits for its grant */
    GYRE_SEND_GRANTED, /* in out.granted: pieces go in turn */
    GYRE_SEND_LOCATED, /* in out.points: the peer will be told where the message lies */
    GYRE_SEND_POINTED, /* in sends' hash: the peer reads the message */
    GYRE_SEND_REMOTE,  /* in out.remote_writes: the carrier will write the message at the peer */
    GYRE_SEND_STAGING, /* in out.staging: the copy queue copies the message to host memory */
    GYRE_SEND_WRITING, /* the carrier writes the message at the peer */
    GYRE_SEND_FRAMED,  /* all bytes are in offers */
    GYRE_SEND_TEARING, /* withdrawn while one of its frames is half written */
    GYRE_SEND_VOID     /* withdrawn after its grant, in out.voids: the peer must be told */
};

struct gyre_send {
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    const uint8_t *data;
    uint64_t length, framed, token;
    uint32_t region; /* of this process, that holds the message and that the peer sees; 0: none */
    uint64_t offset; /* in the region */
    enum gyre_send_state state;
    bool live;       /* its completion is due */
    bool granted;    /* by the peer */
    bool registered; /* the carrier knows data */
    bool placed;     /* the grant has a place and a number for a remote write */
    uint32_t number;
    struct gyre_remote_place place;
    bool on_device;        /* data is memory that only the copy queue copies */
    uint8_t *staged_out;   /* a copy of data in host memory; NULL: none */
    uint64_t bytes_staged; /* bytes of data that have been copied */
    uint64_t copying;      /* bytes that the copy queue copies */
    uint64_t ticket;       /* the copy queue's */
};

/* A whole message whose receive is not posted yet. */
struct gyre_stored {
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    struct gyre_parcel parcel;
};

/* A GRANT that came before its send, or an ASK that came before its receive. */
struct gyre_note {
    struct gyre_slot slot;
    struct gyre_agreement *agreement;
    uint64_t length;
    bool placed; /* the GRANT is a PLACE */
    uint32_t number;
    struct gyre_remote_place place;
    bool spared_due; /* the place was recalled, and SPARED has not been sent */
};

/* Records the completion of a post for gyre_stream_complete(). */
void gyre_stream_tell(struct gyre_stream *stream, uint64_t token, int status, bool send);

/* Complete the post; its record lives on. */
void gyre_stream_end_send(struct gyre_stream *stream, struct gyre_send *send, int status);
void gyre_stream_end_receive(struct gyre_stream *stream, struct gyre_receive *receive, int status);

/* Free the record. The send is in no hash and no queue, the receive is in its hash. */
void gyre_stream_release_send(struct gyre_stream *stream, struct gyre_send *send);
void gyre_stream_release_receive(struct gyre_stream *stream, struct gyre_receive *receive);

/* Frees a receive that is in no hash. */
void gyre_stream_give_receive(struct gyre_stream *stream, struct gyre_receive *receive);

/* Complete the post and free its record. */
void gyre_stream_finish_send(struct gyre_stream *stream, struct gyre_send *send, int status);
void gyre_stream_finish_receive(struct gyre_stream *stream, struct gyre_receive *receive,
                                int status);

/* Finishes a granted receive, which may have been withdrawn. */
void gyre_stream_end_granted(struct gyre_stream *stream, struct gyre_receive *receive, int status);

/* Ends a receive, which is in no queue, after its message was copied from the peer's memory. */
void gyre_stream_end_copied(struct gyre_stream *stream, struct gyre_receive *receive);

/* The receive for a message of that name without a grant; NULL: none is posted. */
struct gyre_receive *gyre_stream_expecting(struct gyre_stream *stream,
                                           const struct gyre_match *match);

/* The receive for a granted message of that name; NULL: none. */
struct gyre_receive *gyre_stream_granted_receive(struct gyre_stream *stream,
                                                 const struct gyre_match *match);

/* Whether the copy queue may write the receive's buffer. Such a receive cannot be withdrawn and
 * ends by itself. */
static inline bool gyre_stream_past_recall(const struct gyre_receive *receive)
{
    return receive->landing || receive->copying;
}

/* Queues a GRANT for the peer. */
void gyre_stream_grant(struct gyre_stream *stream, struct gyre_receive *receive);

/* Copies a stored message out, frees its record and returns its credit to the peer. */
void gyre_stream_unstore(struct gyre_stream *stream, struct gyre_stored *stored, void *data);

/* Waits until the copy queue touches no buffer of a post any more. */
void gyre_stream_settle(struct gyre_stream *stream);

#endif
