/* Compares the operations of both ends.
 *
 * Every message carries its operation's fingerprint; an operation is a (comm, sequence). While
 * anything of an operation is alive here (a post, a stored message, a note) one record holds its
 * fingerprint and counts the references:
 *
 *     posts (local) ──┐
 *                     ├──▶ { comm, sequence, fingerprint, local, remote }
 *     peer (remote) ──┘
 *
 * So the first frame or post of another operation is noticed, also where no name is equal. The
 * status depends on who differs: both ends from each other, GYRE_MISMATCH; the peer from itself,
 * GYRE_CORRUPT; this end from itself, GYRE_INVALID.
 *
 * Tested by tests/unit/transport/stream/ends_test.c. */
#include "transport/stream/inside.h"

static struct gyre_match operation_of(const struct gyre_match *match)
{
    return (struct gyre_match){
        .comm = match->comm, .sequence = match->sequence, .fingerprint = match->fingerprint};
}

int gyre_stream_disagree(struct gyre_stream *stream, const struct gyre_match *mine, uint64_t theirs)
{
    stream->mine = *mine;
    stream->theirs = theirs;
    return GYRE_MISMATCH;
}

int gyre_stream_agree_check(struct gyre_stream *stream, const struct gyre_match *match)
{
    struct gyre_match operation = operation_of(match);
    const struct gyre_agreement *known = gyre_table_find(&stream->agreements, &operation);
    if (!known || known->slot.match.fingerprint == match->fingerprint) {
        return 0;
    }
    if (known->local == 0) {
        return GYRE_CORRUPT;
    }
    struct gyre_match mine = *match;
    mine.fingerprint = known->slot.match.fingerprint;
    return gyre_stream_disagree(stream, &mine, match->fingerprint);
}

bool gyre_stream_differs(const struct gyre_stream *stream, const struct gyre_match *match)
{
    struct gyre_match operation = operation_of(match);
    const struct gyre_agreement *known = gyre_table_find(&stream->agreements, &operation);
    return known && known->slot.match.fingerprint != match->fingerprint;
}

/* The status for a post whose fingerprint differs from the record's. */
static int local_verdict(struct gyre_stream *stream, const struct gyre_match *match,
                         const struct gyre_agreement *known)
{
    if (known->remote == 0) {
        return GYRE_INVALID;
    }
    return gyre_stream_disagree(stream, match, known->slot.match.fingerprint);
}

struct gyre_agreement *gyre_stream_agree_join(struct gyre_stream *stream,
                                              const struct gyre_match *match, bool remote,
                                              int *status)
{
    struct gyre_match operation = operation_of(match);
    struct gyre_agreement *known = gyre_table_find(&stream->agreements, &operation);
    if (!known) {
        known =
            /* One per reference: never exhausted. */
            gyre_table_take(&stream->agreements, &operation);
        gyre_table_insert(&stream->agreements, known);
    } else if (known->slot.match.fingerprint != match->fingerprint) {
        *status =
            remote ? gyre_stream_agree_check(stream, match) : local_verdict(stream, match, known);
        return NULL;
    }
    *(remote ? &known->remote : &known->local) += 1;
    return known;
}

void gyre_stream_agree_leave(struct gyre_stream *stream, struct gyre_agreement *agreement,
                             bool remote)
{
    *(remote ? &agreement->remote : &agreement->local) -= 1;
    if (agreement->local + agreement->remote == 0) {
        gyre_table_remove(&stream->agreements, agreement);
        gyre_table_give(&stream->agreements, agreement);
    }
}
