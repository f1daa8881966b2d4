/* The messages of the watch: one format over Unix packets and TCP streams.
 *
 *    0        4      5      6       8      12       16   20    24               32
 *    | length | kind | flags| epoch | rank | status | id | crc | region length  | payload …
 *
 * Little endian; `length` counts everything; crc is the CRC-32C of the whole message with crc = 0.
 * A beat's payload is a list of states of 508 bytes; the payload of a failure, a warning or a reply
 * is its text. Nothing here does I/O. */
#ifndef GYRE_TRANSPORT_WATCH_DETECT_MESSAGE_H
#define GYRE_TRANSPORT_WATCH_DETECT_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define GYRE_WATCH_HEADER_BYTES 32
#define GYRE_WATCH_MESSAGE_MAX  4096
#define GYRE_WATCH_PAYLOAD_MAX  (GYRE_WATCH_MESSAGE_MAX - GYRE_WATCH_HEADER_BYTES)
#define GYRE_WATCH_TEXT_MAX     900 /* of a failure, NUL included */
#define GYRE_WATCH_CALLS        7   /* calls that a state remembers besides its newest */
/* Communicators in a state besides the one that it tells in full. */
#define GYRE_WATCH_ELSEWHERE 8
#define GYRE_WATCH_WHY_MAX   152 /* of a refused call, NUL included */
#define GYRE_WATCH_STATE_BYTES                                                                     \
    (68 + 16 * GYRE_WATCH_CALLS + 20 * GYRE_WATCH_ELSEWHERE + 16 + GYRE_WATCH_WHY_MAX)
#define GYRE_WATCH_STATES_MAX (GYRE_WATCH_PAYLOAD_MAX / GYRE_WATCH_STATE_BYTES)

enum gyre_watch_kind {
    GYRE_WATCH_BEAT = 1, /* the sender is alive; states that are new since its last beat */
    GYRE_WATCH_FAILURE,  /* status, rank, text; see GYRE_WATCH_DECIDED */
    GYRE_WATCH_WARNING,  /* text for the log */
    GYRE_WATCH_BYE,      /* the sender has finished, with this state: its end is no failure */
    GYRE_WATCH_ALL_BYE,  /* rank 0: all ranks have finished */
    GYRE_WATCH_SHARE,    /* id, region length, _SEALED, _CUDA, _TRIAL; a descriptor comes along */
    /* To a share, an unshare of CUDA memory, or a wish to try: id, status, text, _COPIED. */
    GYRE_WATCH_REPLY,
    GYRE_WATCH_UNSHARE, /* id, GYRE_WATCH_CUDA */
    GYRE_WATCH_ASK,     /* rank 0: send your state at once */
    GYRE_WATCH_TELL,    /* to rank 0: the sender's state */
    GYRE_WATCH_TRY,     /* try copies of your device's memory, and answer when you have: id */
    GYRE_WATCH_KINDS
};

enum gyre_watch_flag {
    GYRE_WATCH_DECIDED = 1, /* of a failure: decided for the whole job, not only proposed */
    GYRE_WATCH_SEALED = 2,  /* of a share: for reading only */
    GYRE_WATCH_CUDA = 4,    /* of a share or unshare: the region is CUDA memory */
    GYRE_WATCH_TRIAL = 8,   /* of a share: copy from and to the region, then unmap it */
    GYRE_WATCH_COPIED =
        16, /* of a reply: the sender's device copies the region, and cannot map it */
    /* Of a failure: a mismatch of sender and `rank`, which rank 0 should ask. */
    GYRE_WATCH_HELD = 32,
    GYRE_WATCH_ROOTLESS = 64 /* of a beat downwards: rank 0 has left, see gyre_health.rootless */
};

struct gyre_watch_call {
    uint64_t signature, count;
};

/* Communicators are told apart by id and lowest rank: groups of ranks that have no rank in common
 * may have one id. The world is 0. Messages from rank to rank are one communicator of their own,
 * whose `signature` has the other rank. */
#define GYRE_WATCH_POINT_TO_POINT UINT32_MAX
#define GYRE_WATCH_COMM_MASK      4095u /* the id; the rank stands above it */

/* How far a rank is in another communicator. */
struct gyre_watch_elsewhere {
    uint64_t comm; /* 32 bits; states are compared as bytes, so there must be no gap */
    uint64_t sequence, finished;
};

/* A call that the rank refused, and that peers may have made. */
struct gyre_watch_refused {
    uint64_t stands;         /* 1: no call has taken its place yet; 0: one has, or there is none */
    uint64_t comm, sequence; /* sequence: the number that the call would have had */
    char why[GYRE_WATCH_WHY_MAX]; /* "gyre_reduce: type 99 is unknown"; filled up with zeros */
};

/* What one rank is doing, as its beats tell. */
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

/* Encodes a message. Returns the bytes written, at most GYRE_WATCH_MESSAGE_MAX. */
size_t gyre_watch_encode(const struct gyre_watch_message *message, uint8_t *out);

/* The length of the message that starts with these 4 bytes; 0: no message has such a length. */
size_t gyre_watch_length(const uint8_t in[4]);

/* Decodes exactly `length` bytes; the payload points into `in`. 0 or GYRE_CORRUPT. */
int gyre_watch_decode(const uint8_t *in, size_t length, struct gyre_watch_message *message);

/* Copies the payload's text, cut to fit, control characters replaced, always terminated. */
void gyre_watch_text(const struct gyre_watch_message *message, char *out, size_t size);

void gyre_watch_state_encode(const struct gyre_watch_state *state,
                             uint8_t out[GYRE_WATCH_STATE_BYTES]);
void gyre_watch_state_decode(const uint8_t in[GYRE_WATCH_STATE_BYTES],
                             struct gyre_watch_state *state);

#endif
