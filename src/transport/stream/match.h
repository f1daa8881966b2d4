/* The name of a message, and the end of a post, as every part of the transport uses both. */
#ifndef GYRE_TRANSPORT_STREAM_MATCH_H
#define GYRE_TRANSPORT_STREAM_MATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Names one message between two ranks in one direction. `fingerprint` is not part of the name: it
 * says what the operation is (type, count, …). Two ends whose fingerprints differ fail with
 * GYRE_MISMATCH. Nor are `on_device` and `early`, which each end has for itself. */
struct gyre_match {
    uint16_t comm;
    uint16_t lane;  /* slice of the operation, modulo 2^16 */
    uint16_t order; /* round, modulo 2^16 */
    uint64_t sequence;
    uint64_t fingerprint;
    bool on_device; /* of a post: its memory is one that only a device's queues touch */
    bool early;     /* of a receive: it leaves half of the pipe's posts to those that are due */
};

/* Marks of `comm`, above the communicator's id, on messages from rank to rank. */
#define GYRE_MATCH_PAIR 0x8000u /* `fingerprint` is gyre_match_terms() */
#define GYRE_MATCH_DOWN 0x4000u /* from the higher to the lower rank */
/* A block of operation `sequence`; others have gyre_match_sequence(). */
#define GYRE_MATCH_BLOCK 0x2000u
#define GYRE_MATCH_ID    0x0fffu

/* The `sequence` of a message from rank to rank: its tag, and its number among the messages of that
 * tag between the two ranks in that direction. Both ends count alike, modulo 2^32. */
static inline uint64_t gyre_match_sequence(uint32_t tag, uint32_t number)
{
    return (uint64_t)tag << 32 | number;
}

static inline uint32_t gyre_match_tag(uint64_t sequence)
{
    return (uint32_t)(sequence >> 32);
}

static inline uint32_t gyre_match_number(uint64_t sequence)
{
    return (uint32_t)sequence;
}

/* The fingerprint of a message from rank to rank: its type and count. */
static inline uint64_t gyre_match_terms(uint32_t type, uint64_t count)
{
    return UINT64_C(1) << 63 | (uint64_t)(type & 127) << 56 | (count & ((UINT64_C(1) << 56) - 1));
}

static inline uint32_t gyre_match_terms_type(uint64_t terms)
{
    return terms >> 56 & 127;
}

static inline uint64_t gyre_match_terms_count(uint64_t terms)
{
    return terms & ((UINT64_C(1) << 56) - 1);
}

/* The end of an accepted post. Each post has exactly one. */
struct gyre_completion {
    uint64_t token; /* the post's */
    int status;     /* 0 or negative */
};

static inline bool gyre_match_same(const struct gyre_match *a, const struct gyre_match *b)
{
    return a->sequence == b->sequence && a->comm == b->comm && a->lane == b->lane &&
           a->order == b->order;
}

#endif
