/* An operation's signature in 64 bits. It lets any rank that notices a disagreement print what each
 * of two ranks asked for. The communicator packs it, beats carry it, and the teller of a story
 * formats it. */
#ifndef GYRE_TRANSPORT_STREAM_SIGNATURE_H
#define GYRE_TRANSPORT_STREAM_SIGNATURE_H

#include "base/status.h"
#include "base/verbs.h"

/* The rows of base/verbs.h, and the calls that have no row. */
#define GYRE_SIGNATURE_NUMBER(ID, ...) GYRE_SIGNATURE_##ID,
enum gyre_signature_verb {
    GYRE_VERB_ROWS(GYRE_SIGNATURE_NUMBER) GYRE_SIGNATURE_VERBS,
    GYRE_SIGNATURE_ALL_GATHER_V = 250, /* count: the longest block's */
    GYRE_SIGNATURE_ALL_TO_ALL_V = 251, /* its count differs from rank to rank */
    GYRE_SIGNATURE_RECV = 252,         /* gyre_signature_message(); the rank is the world's */
    GYRE_SIGNATURE_SEND = 253,
    GYRE_SIGNATURE_BARRIER = 255
};

/* Reductions that the caller made: a function has its handle's number, a scaled sum one of its
 * own. */
#define GYRE_SIGNATURE_FUNCTION ((uint32_t)GYRE_OP_FIRST_HANDLE)
#define GYRE_SIGNATURE_SCALED   128u

/* Packs a signature: verb 8 bits, type 8, reduction 8, calls 8, root 32 (upper half). */
static inline uint64_t gyre_signature_pack(enum gyre_signature_verb verb, enum gyre_type type,
                                           uint32_t op, uint32_t root)
{
    return (uint64_t)root << 32 | (uint64_t)(op & 255) << 16 | ((uint64_t)type & 255) << 8 |
           ((uint64_t)verb & 255);
}

/* Packs the signature of a message: verb 8 bits, type 8, tag 16, the other rank 32. */
#define GYRE_SIGNATURE_ANYONE   UINT32_MAX /* in place of the other rank: a receive from any */
#define GYRE_SIGNATURE_TAG_MOST 0xffffu    /* stands for longer ones, too */
static inline uint64_t gyre_signature_message(enum gyre_signature_verb verb, enum gyre_type type,
                                              uint32_t tag, uint32_t peer)
{
    uint32_t told = tag < GYRE_SIGNATURE_TAG_MOST ? tag : GYRE_SIGNATURE_TAG_MOST;
    return (uint64_t)peer << 32 | (uint64_t)told << 16 | ((uint64_t)type & 255) << 8 |
           ((uint64_t)verb & 255);
}

/* The number of calls of a group that travel as one operation, to be added to the signature; 255
 * also stands for more. */
static inline uint64_t gyre_signature_calls(uint32_t calls)
{
    return (uint64_t)(calls < 255 ? calls : 255) << 24;
}

const char *gyre_verb_name(uint32_t verb); /* "all_reduce", "broadcast", "barrier", "?" */

/* Writes what two ends that disagree about a message mean: `mine` is this rank's match, `theirs`
 * the peer's fingerprint. */
struct gyre_match;
void gyre_signature_disagreement(char *out, size_t size, uint32_t rank, uint32_t peer,
                                 const struct gyre_match *mine, uint64_t theirs);

/* Writes an operation: "all_reduce f32 sum, 1000 elements" / "broadcast f64 from rank 2, 10
 * elements" / "barrier"; "group of 3 all_reduce f32 sum, 1000 elements" / "group of 3 broadcast
 * from rank 2, 96 bytes". */
void gyre_signature_text(char *out, size_t size, uint64_t signature, uint64_t count);

/* The difference of two operations whose texts are the same: "the lengths or places of the
 * blocks". */
const char *gyre_signature_untold(uint64_t signature);

#endif
