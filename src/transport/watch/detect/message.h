/* What watches say to each other: one format over Unix packets and TCP streams.
 *
 *    0        4      5      6       8      12       16   20    24               32
 *    | length | kind | flags| epoch | rank | status | id | crc | region length  | payload …
 *
 * Little endian; `length` counts everything; crc is the CRC-32C of the whole message with crc = 0.
 * A beat's payload is a list of states of 508 bytes, a failure's, warning's or reply's is its text.
 * Nothing here does I/O. */
#ifndef GYRE_TRANSPORT_WATCH_DETECT_MESSAGE_H
#define GYRE_TRANSPORT_WATCH_DETECT_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define GYRE_WATCH_HEADER_BYTES 32
#define GYRE_WATCH_MESSAGE_MAX  4096
#define GYRE_WATCH_PAYLOAD_MAX  (GYRE_WATCH_MESSAGE_MAX - GYRE_WATCH_HEADER_BYTES)
#define GYRE_WATCH_TEXT_MAX     900 /* of a failure, NUL included */
#define GYRE_WATCH_CALLS        7   /* that a state remembers besides its newest */
#define GYRE_WATCH_ELSEWHERE    8   /* communicators besides the one it tells of in full */
#define GYRE_WATCH_WHY_MAX      152 /* of a refused call, NUL included */
#define GYRE_WATCH_STATE_BYTES                                                                     \
    (68 + 16 * GYRE_WATCH_CALLS + 20 * GYRE_WATCH_ELSEWHERE + 16 + GYRE_WATCH_WHY_MAX)
#define GYRE_WATCH_STATES_MAX (GYRE_WATCH_PAYLOAD_MAX / GYRE_WATCH_STATE_BYTES)

enum gyre_watch_kind {
    GYRE_WATCH_BEAT = 1, /* the sender is alive; states that are new since its last beat */
    GYRE_WATCH_FAILURE,  /* status, rank, text; see GYRE_WATCH_DECIDED */
    GYRE_WATCH_WARNING,  /* text for the log */
    GYRE_WATCH_BYE, /* the sender has finished, with this state: its end is no failure any more */
    GYRE_WATCH_ALL_BYE, /* rank 0: everybody has */
    GYRE_WATCH_SHARE,   /* id, region length, _SEALED, _CUDA, _TRIAL; a descriptor comes along */
    GYRE_WATCH_REPLY,   /* to a share, or an unshare of CUDA memory: id, status, text, _COPIED */
    GYRE_WATCH_UNSHARE, /* id, GYRE_WATCH_CUDA */
    GYRE_WATCH_ASK,     /* rank 0: say what you do, at once */
    GYRE_WATCH_TELL,    /* to rank 0: the sender's state */
    GYRE_WATCH_KINDS
};

enum gyre_watch_flag {
    GYRE_WATCH_DECIDED = 1, /* of a failure: decided for the whole job, not only proposed */
    GYRE_WATCH_SEALED = 2,  /* of a share: for reading only */
    GYRE_WATCH_CUDA = 4,    /* of a share or unshare: the region is CUDA memory */
    GYRE_WATCH_TRIAL = 8,   /* of a share: try to copy from and to it, and let it go */
    GYRE_WATCH_COPIED =
        16,              /* of a reply: the sender's device copies the region, and cannot map it */
    GYRE_WATCH_HELD = 32 /* of a failure: a mismatch of sender and `rank`, who should be asked */
};

struct gyre_watch_call {
    uint64_t signature, count;
};

/* Communicators are told apart by id and lowest rank: groups of ranks that have no rank in common
 * may have one id. The world is 0. Messages from rank to rank are one communicator of their own,
 * whose `signature` has the other rank. */
#define GYRE_WATCH_POINT_TO_POINT UINT32_MAX
#define GYRE_WATCH_COMM_MASK      4095u /* the id; the rank stands above it */

/* How far it is in another communicator. */
struct gyre_watch_elsewhere {
    uint64_t comm; /* 32 bits of it; states are compared as bytes, so there is no gap */
    uint64_t sequence, finished;
};

/* A call that it refused, and that peers may have made. */
struct gyre_watch_refused {
    uint64_t stands;         /* 1: it has made none in its place yet; 0: it has, or there is none */
    uint64_t comm, sequence; /* the number that it would have had */
    char why[GYRE_WATCH_WHY_MAX]; /* "gyre_reduce: type 99 is unknown"; filled up with zeros */
};

/* What one rank is doing, as its beats carry it. */
struct gyre_watch_state {
    uint32_t rank, comm;
    uint64_t sequence, finished, fingerprint, signature, count; /* the newest operation */
    uint64_t motion; /* changes whenever anything moves in its operations */
    uint64_t calls;  /* operations before the newest that `call` holds, latest first */
    struct gyre_watch_call call[GYRE_WATCH_CALLS]; /* the rest is 0 */
    uint64_t elsewhere_count;
    struct gyre_watch_elsewhere elsewhere[GYRE_WATCH_ELSEWHERE]; /* the rest is 0 */
    uint64_t parting;                                            /* 1: it is in gyre_finalize() */
    struct gyre_watch_refused refused;
};

struct gyre_watch_message {
    enum gyre_watch_kind kind;
    uint8_t flags;
    uint16_t epoch;
    uint32_t rank; /* whose failure; otherwise the sender */
    int32_t status;
    uint32_t id;
    uint64_t region_length;
    const uint8_t *payload; /* borrowed */
    uint32_t payload_bytes; /* at most GYRE_WATCH_PAYLOAD_MAX */
};

/* Returns the bytes written, at most GYRE_WATCH_MESSAGE_MAX. */
size_t gyre_watch_encode(const struct gyre_watch_message *message, uint8_t *out);

/* How long the message that starts with these 4 bytes is; 0 if no message has such a length. */
size_t gyre_watch_length(const uint8_t in[4]);

/* Decodes exactly `length` bytes; the payload points into `in`. 0 or GYRE_CORRUPT. */
int gyre_watch_decode(const uint8_t *in, size_t length, struct gyre_watch_message *message);

/* The payload's text, cut to fit, control characters replaced, always terminated. */
void gyre_watch_text(const struct gyre_watch_message *message, char *out, size_t size);

void gyre_watch_state_encode(const struct gyre_watch_state *state,
                             uint8_t out[GYRE_WATCH_STATE_BYTES]);
void gyre_watch_state_decode(const uint8_t in[GYRE_WATCH_STATE_BYTES],
                             struct gyre_watch_state *state);

#endif
