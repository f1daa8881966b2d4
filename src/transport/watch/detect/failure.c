/* One failure for the whole job.
 *
 *      CALM ── cause found here, or a peer's proposal ──▶ PROPOSED
 *       │                                                    │ rank 0's decision,
 *       │ a connection is lost: perhaps only the echo        │ or GRACE without one
 *       │ a mismatch: rank 0 asks what both called           │
 *       ▼                                                    ▼
 *      HELD ── a cause: PROPOSED ── else after GRACE ──▶  DECIDED
 *
 * The stage only rises. Two ranks that find different failures at once both propose. Rank 0 decides
 * for the proposal that arrives first, and every rank tells that one. Rank 0 decides at once about
 * its own findings, and a rank that has lost rank 0 decides by itself. A rank sends proposals and
 * verdicts on all its channels, so they also spread inside a node that has lost rank 0.
 *
 * A rank that reports a failure of its own (an abort, a mismatch) cannot wait for a verdict,
 * because its caller returns: the rank decides for itself and proposes the same to the others.
 *
 * A rank that passes the states of a peer on passes on, upwards, what the peer proposes, in front
 * of the states. A state that overtook the proposal would tell rank 0 of a rank in gyre_finalize(),
 * and not that it failed. In a deep tree a rank also passes on what a rank below it holds, and a
 * verdict to all its channels.
 *
 * An echo is told to rank 0, which waits GRACE for the cause and decides for all. So that all ranks
 * tell one story, the rank that has the echo waits longer than rank 0 does. A rank that has just
 * stood still for the dead time, and gets no verdict, tells itself: the others have missed it.
 *
 * The process of a rank with a device may take seconds to end: its sockets close, and the device's
 * driver takes down what the process had there before the pidfd tells the end. Such an echo, found
 * inside the node, is held for half of the dead time, in place of GRACE.
 *
 * A mismatch that a link found is held until rank 0 has what both ranks called (inquiry.c). While
 * one of the two lives and has not answered, the mismatch is held for half of the dead time, so all
 * are told within the dead time. With both answers it is held for the rest of TALE.
 *
 * Tested by tests/unit/transport/watch/detect/failure_detector_test.c. */
#include "transport/watch/detect/inside.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SLOW    (100 * GYRE_MS)   /* for a word of the rank above in a deep tree */
#define GRACE   (200 * GYRE_MS)   /* for the cause of an echo, and for rank 0's verdict */
#define VERDICT (800 * GYRE_MS)   /* for rank 0's verdict about an echo, however busy its machine */
#define TALE    (600 * GYRE_MS)   /* two beats: for the audit, where both states tell too little */
#define ANSWERS (5 * GYRE_SECOND) /* for ranks' answers, where there is no dead time */

/* Decides. A rank that is told as lost, by an echo perhaps, may be stopped and pass nothing on, so
 * the ranks below it are called before this process ends. */
static void decide(struct gyre_failure_detector *detector, bool is_final,
                   const struct gyre_detector_channel *source)
{
    detector->stage = GYRE_DETECTOR_DECIDED;
    detector->is_final = is_final;
    if (detector->record.status == GYRE_PEER_LOST)
        gyre_detector_call_orphans(detector, detector->record.rank);
    gyre_detector_owe(detector, GYRE_OWED_FAILURE, source);
}

static void grant_time(struct gyre_failure_detector *detector)
{
    if (detector->stage != GYRE_DETECTOR_CALM)
        return;
    detector->deadline = detector->clock + GRACE;
    detector->climb_at = detector->clock + SLOW;
}

/* Owes this rank's failure to rank 0, or to the rank above, which passes it on. */
static void pass_up(struct gyre_failure_detector *detector)
{
    struct gyre_detector_channel *root = gyre_detector_root_channel(detector);

    if (root != NULL)
        root->owed |= GYRE_OWED_FAILURE;
}

/* Whether this rank decides: it is rank 0, or rank 0 is the one that failed, or has gone. */
static bool judges(struct gyre_failure_detector *detector,
                   const struct gyre_detector_record *record)
{
    return detector->is.rank == 0 || record->rank == 0 || gyre_detector_without_root(detector);
}

void gyre_detector_found(struct gyre_failure_detector *detector,
                         const struct gyre_detector_record *record)
{
    if (detector->stage >= GYRE_DETECTOR_PROPOSED)
        return;
    detector->record = *record;
    if (judges(detector, record)) {
        decide(detector, true, NULL);
        return;
    }
    grant_time(detector);
    detector->stage = GYRE_DETECTOR_PROPOSED;
    gyre_detector_owe(detector, GYRE_OWED_FAILURE, NULL);
}

/* Waits for the answers of an inquiry. Rank 0 asks, and all others tell rank 0 that they wait. Rank
 * 0's own limit begins later but ends first. */
static void wait_for_answers(struct gyre_failure_detector *detector, uint32_t holder)
{
    uint64_t limit = detector->is.dead_ns > 0 ? detector->is.dead_ns / 2 : ANSWERS;
    uint64_t longer = limit / 4 < GRACE ? limit / 4 : GRACE;

    detector->held_at = detector->clock;
    detector->deadline = detector->clock + limit + (detector->is.rank != 0 ? longer : 0);
    if (detector->is.rank == 0)
        gyre_detector_inquire(detector, holder, detector->record.rank);
    else if (gyre_detector_without_root(detector))
        gyre_detector_all_told(detector);
    pass_up(detector);
}

static bool has_device(const struct gyre_member *member)
{
    static const uint8_t none[sizeof member->device];

    return memcmp(member->device, none, sizeof none) != 0;
}

/* How long the cause of an echo may be in coming; `holder` has the echo. */
static uint64_t grace_of(const struct gyre_failure_detector *detector, uint32_t holder,
                         const struct gyre_detector_record *record)
{
    const struct gyre_member *member = detector->is.member;
    uint64_t slow = detector->is.dead_ns > 0 ? detector->is.dead_ns / 2 : ANSWERS;

    if (record->status != GYRE_PEER_LOST || record->rank >= detector->is.n ||
        holder >= detector->is.n || member[holder].node != member[record->rank].node ||
        !has_device(&member[record->rank]))
        return GRACE;
    return slow > GRACE ? slow : GRACE;
}

/* Tells rank 0 of an echo and waits for its verdict, which may take rank 0 `grace`. Ranks that
 * waited for a cause by themselves would each tell a story of their own. */
static void wait_for_verdict(struct gyre_failure_detector *detector, uint64_t grace)
{
    uint64_t half = detector->is.dead_ns / 2;
    uint64_t limit = half > 0 && half < VERDICT ? half : VERDICT;

    if (limit < 2 * GRACE)
        limit = 2 * GRACE;
    if (detector->is.rank == 0 || gyre_detector_without_root(detector))
        return;
    detector->deadline = detector->clock + limit + (grace - GRACE);
    pass_up(detector);
}

void gyre_detector_root_gone(struct gyre_failure_detector *detector)
{
    gyre_detector_all_told(detector); /* rank 0 would have asked */
    if (detector->stage == GYRE_DETECTOR_PROPOSED)
        decide(detector, true, NULL);
}

void gyre_detector_hold(struct gyre_failure_detector *detector, uint32_t holder,
                        const struct gyre_detector_record *record)
{
    if (detector->stage != GYRE_DETECTOR_CALM)
        return;
    grant_time(detector);
    detector->record = *record;
    detector->holder = holder;
    detector->stage = GYRE_DETECTOR_HELD;
    if (record->status == GYRE_MISMATCH) {
        wait_for_answers(detector, holder);
        return;
    }
    const uint64_t grace = grace_of(detector, holder, record);
    detector->deadline = detector->clock + grace;
    wait_for_verdict(detector, grace);
}

void gyre_detector_all_told(struct gyre_failure_detector *detector)
{
    bool waits = detector->stage == GYRE_DETECTOR_HELD && detector->record.status == GYRE_MISMATCH;
    uint64_t tale = TALE + detector->depth * detector->interval; /* a beat for each floor */

    if (waits && detector->deadline > detector->held_at + tale)
        detector->deadline = detector->held_at + tale;
}

/* Turns to the next rank above while the one above says nothing: it may be stopped, and nobody has
 * missed it yet. */
static void seek_verdict(struct gyre_failure_detector *detector)
{
    if (detector->clock < detector->climb_at)
        return;
    detector->climb_at = detector->clock + SLOW;
    gyre_detector_climb_past(detector);
}

/* Whether the echo is the end of peers that have missed this rank, which stood still. */
static bool was_missed(const struct gyre_failure_detector *detector)
{
    return detector->stage == GYRE_DETECTOR_HELD && detector->record.status == GYRE_PEER_LOST &&
           detector->holder == detector->is.rank && detector->stood_ns > 0 &&
           detector->clock - detector->stood_until <= detector->is.dead_ns;
}

/* Ends a wait that was long enough. An echo without a cause is told as it is; a proposal that rank
 * 0 does not answer stands. */
void gyre_detector_stop_waiting(struct gyre_failure_detector *detector)
{
    if (!gyre_detector_waits(detector))
        return;
    seek_verdict(detector);
    if (detector->clock < detector->deadline)
        return;
    if (was_missed(detector))
        gyre_detector_compose(detector, &detector->record, GYRE_PEER_LOST, detector->is.rank,
                              "did not run for %" PRIu64 " ms, and the dead time is %" PRIu64
                              " ms (GYRE_DEAD_TIME): it was stopped or swapped out, or had no "
                              "core, and the others have ended without it",
                              detector->stood_ns / GYRE_MS, detector->is.dead_ns / GYRE_MS);
    decide(detector,
           detector->stage == GYRE_DETECTOR_PROPOSED || judges(detector, &detector->record), NULL);
}

/* Whether the peer's states go to rank 0 through this rank. */
static bool carries_states(const struct gyre_failure_detector *detector,
                           const struct gyre_detector_channel *source)
{
    return source->kin == GYRE_KIN_BELOW ||
           gyre_detector_parent(detector, source->peer) == detector->is.rank;
}

void gyre_detector_hear_failure(struct gyre_failure_detector *detector,
                                const struct gyre_detector_channel *source,
                                const struct gyre_watch_message *message)
{
    bool is_final = message->flags & GYRE_WATCH_DECIDED;
    struct gyre_detector_record record;

    if (detector->stage == GYRE_DETECTOR_DECIDED ||
        (!is_final && detector->stage == GYRE_DETECTOR_PROPOSED))
        return;
    record.status = message->status;
    record.rank = message->rank < detector->is.n ? message->rank : GYRE_NOBODY;
    gyre_watch_text(message, record.text, sizeof record.text);
    if (message->flags & GYRE_WATCH_HELD) {
        const uint32_t holder = message->id > 0 ? message->id - 1 : source->peer;
        gyre_detector_hold(detector, gyre_detector_sender(detector, source, holder), &record);
        return;
    }
    detector->record = record;
    if (is_final || judges(detector, &detector->record)) {
        decide(detector, true, is_final ? source : NULL); /* the proposer waits for the answer */
        return;
    }
    grant_time(detector);
    detector->stage = GYRE_DETECTOR_PROPOSED;
    if (carries_states(detector, source))
        pass_up(detector);
}

void gyre_detector_adopt(struct gyre_failure_detector *detector,
                         const struct gyre_detector_record *record)
{
    if (detector->stage == GYRE_DETECTOR_DECIDED)
        return;
    if (detector->stage < GYRE_DETECTOR_PROPOSED)
        detector->record = *record;
    decide(detector, judges(detector, &detector->record), NULL);
}

void gyre_detector_compose(const struct gyre_failure_detector *detector,
                           struct gyre_detector_record *record, int status, uint32_t rank,
                           const char *format, ...)
{
    const struct gyre_member *member = &detector->is.member[rank];
    size_t size = sizeof record->text;
    va_list arguments;

    record->status = status;
    record->rank = rank;
    int used =
        snprintf(record->text, size, "rank %u (%.63s, pid %d) ", rank, member->host, member->pid);
    va_start(arguments, format);
    vsnprintf(record->text + used, size - (size_t)used, format, arguments);
    va_end(arguments);
}
