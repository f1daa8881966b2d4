/* The words every part of the transport shares: what names a message, and what says that a post has
 * ended. */
#ifndef GYRE_TRANSPORT_MATCH_H
#define GYRE_TRANSPORT_MATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Names one message between two ranks in one direction. `fingerprint` is not part of the name: it
 * says what the operation is (type, count, …), and two ends that disagree about it fail with
 * GYRE_MISMATCH. */
struct gyre_match {
    uint16_t comm;
    uint16_t lane;  /* slice of the operation, modulo 2^16 */
    uint16_t order; /* round, modulo 2^16 */
    uint64_t sequence;
    uint64_t fingerprint;
};

/* Exactly one per accepted post. */
struct gyre_completion {
    uint64_t token; /* as given to the post */
    int status;     /* 0 or negative */
};

static inline bool gyre_match_same(const struct gyre_match *a, const struct gyre_match *b)
{
    return a->sequence == b->sequence && a->comm == b->comm && a->lane == b->lane &&
           a->order == b->order;
}

#endif
