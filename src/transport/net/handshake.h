/* The handshake: both sides prove that they know the job's key, in three messages, without a
 * socket.
 *
 *     client                                  server
 *       │  M1 hello   128 bytes ───────────────▶ │  answers nothing unless M1's code is right
 *       │ ◀─────────────── M2 answer  96 bytes   │
 *       │  M3 proof    32 bytes ───────────────▶ │  both are proven; only now reasons are told
 *
 *   M1  magic 8 | version low, high 4 | job 16 | epoch, rank, world, purpose+stripe 16 | features 4
 *       | configuration 8 | key id 8 | nonce C 32 | code 32 = HMAC(K, "c1" M1 without code)
 *   M2  magic 8 | version low, high 4 | epoch, rank, world 12 | features 4 | zero 4 | nonce S 32
 *       | code 32 = HMAC(K, "s" M1 M2 without code)
 *   M3  code 32 = HMAC(K, "c2" M1 M2)
 *
 * Afterwards each direction has its own key, HKDF(K, C S, direction), which seals the records of
 * talk.h. */
#ifndef GYRE_TRANSPORT_NET_HANDSHAKE_H
#define GYRE_TRANSPORT_NET_HANDSHAKE_H

#include "transport/net/crypto.h"

#define GYRE_HELLO_BYTES   128
#define GYRE_ANSWER_BYTES  96
#define GYRE_PROOF_BYTES   32
#define GYRE_NONCE_BYTES   32
#define GYRE_REFUSAL_TEXT  512
#define GYRE_REFUSAL_BYTES (4 + 2 + GYRE_REFUSAL_TEXT) /* encoded, at most */

#define GYRE_PROTOCOL_LOW  2
#define GYRE_PROTOCOL_HIGH 2

/* CHECKUP: `gyre doctor`, which is no rank of a job. WATCH: a control connection, made anew.
 * RENEW: a data connection, made anew. MEMBERS: members of a job that agree on who goes on; rank
 * and world are those of its first epoch, and the server's rank and epoch do not matter. NEWCOMER:
 * a process that asks a job that runs to take it in; it has no rank, world or epoch. */
enum gyre_purpose {
    GYRE_PURPOSE_JOIN = 1,
    GYRE_PURPOSE_DATA = 2,
    GYRE_PURPOSE_CHECKUP = 3,
    GYRE_PURPOSE_WATCH = 4,
    GYRE_PURPOSE_RENEW = 5,
    GYRE_PURPOSE_MEMBERS = 6,
    GYRE_PURPOSE_NEWCOMER = 7
};

/* One side's claim about itself in M1. A server tells the first fields, in M2. */
struct gyre_claim {
    uint16_t version_low, version_high;
    uint8_t job[16];
    uint32_t epoch, rank, world;
    uint16_t purpose, stripe;
    uint32_t features;
    uint64_t configuration;
    uint8_t key_id[8];
};

enum gyre_handshake_side { GYRE_HANDSHAKE_CLIENT, GYRE_HANDSHAKE_SERVER };
enum gyre_handshake_state { GYRE_HANDSHAKE_OPEN, GYRE_HANDSHAKE_PROVEN, GYRE_HANDSHAKE_FAILED };

struct gyre_handshake {
    enum gyre_handshake_side side;
    enum gyre_handshake_state state;
    struct gyre_claim mine, theirs; /* theirs: believed once proven */
    bool claimed;                   /* theirs holds a well-formed claim, proven or not: for logs */
    uint8_t key[GYRE_KEY_BYTES];
    uint8_t nonce[GYRE_NONCE_BYTES];
    uint8_t transcript[GYRE_HELLO_BYTES + GYRE_ANSWER_BYTES + GYRE_PROOF_BYTES]; /* M1 M2 M3 */
    size_t have, want;  /* of the message being received */
    size_t sent, ready; /* of the transcript: output is [sent, ready) */
    size_t input;       /* where the message being received begins in the transcript */
    uint8_t key_out[GYRE_KEY_BYTES], key_in[GYRE_KEY_BYTES]; /* once proven */
};

/* Starts a handshake. `nonce` is fresh randomness; everything is copied. 0 or -EIO. */
int gyre_handshake_start(struct gyre_handshake *shake, enum gyre_handshake_side side,
                         const struct gyre_claim *mine, const uint8_t key[GYRE_KEY_BYTES],
                         const uint8_t nonce[GYRE_NONCE_BYTES]);
void gyre_handshake_wipe(struct gyre_handshake *shake);

/* Where the next bytes belong, and how many may come: never beyond the message that is due. 0:
 * none. */
size_t gyre_handshake_room(struct gyre_handshake *shake, uint8_t **where);

/* Takes `bytes` that were received. 0: proven now (output may be left to send). GYRE_AGAIN: more
 * bytes are needed. GYRE_CORRUPT: the peer is not Gyre. GYRE_REFUSED: the code is wrong, so the key
 * or the job is another. After a failure the caller hangs up without a word. */
int gyre_handshake_took(struct gyre_handshake *shake, size_t bytes);

/* The bytes to send now; then the number of them that were sent. */
size_t gyre_handshake_output(const struct gyre_handshake *shake, const uint8_t **bytes);
void gyre_handshake_sent(struct gyre_handshake *shake, size_t bytes);

/* -- reasons, which exist only after the proof ------------------------------------------------- */

enum gyre_refusal_code {
    GYRE_REFUSAL_NONE,
    GYRE_REFUSAL_VERSION,
    GYRE_REFUSAL_PURPOSE,
    GYRE_REFUSAL_EPOCH,
    GYRE_REFUSAL_WORLD,
    GYRE_REFUSAL_RANK,
    GYRE_REFUSAL_DUPLICATE,
    GYRE_REFUSAL_CONFIGURATION
};

struct gyre_refusal {
    uint32_t code;
    char text[GYRE_REFUSAL_TEXT + 1];
};

/* Whether the server that has proven the key to this client is `rank`. */
bool gyre_handshake_reached(const struct gyre_handshake *shake, uint32_t rank);

/* Finds the first reason why the client's claim does not fit that of a proven server. */
enum gyre_refusal_code gyre_handshake_judge(const struct gyre_handshake *shake);

/* Encodes a refusal into GYRE_REFUSAL_BYTES and returns the length; -EPERM before the proof. */
int gyre_refusal_encode(const struct gyre_handshake *shake, const struct gyre_refusal *refusal,
                        uint8_t out[GYRE_REFUSAL_BYTES]);
int gyre_refusal_decode(const uint8_t *bytes, size_t length,
                        struct gyre_refusal *refusal); /* 0 or GYRE_CORRUPT */

/* Writes the words NAME=VALUE in which two configurations differ: "GYRE_ALGO is ring on rank 0
 * (host a) and tree on rank 1 (host b); GYRE_LANES is 2 and unset". Words stand between blanks or
 * lines. who[i] has text[i]. */
void gyre_configuration_difference(const char *const text[2], const char *const who[2], char *out,
                                   size_t size);

#endif
