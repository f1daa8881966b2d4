/* One failure for the whole job.
 *
 *      CALM ── cause found here, or a peer's proposal ──▶ PROPOSED
 *       │                                                    │ rank 0's verdict,
 *       │ a connection is lost: perhaps only the echo        │ or GRACE without one
 *       │ a mismatch: rank 0 asks what both called           │
 *       ▼                                                    ▼
 *      HELD ── a cause: PROPOSED ── else after GRACE ──▶  DECIDED
 *
 * The stage only rises. Two ranks that find different failures at once both propose; rank 0 takes
 * what reaches it first, and everybody tells that. Rank 0 itself decides at once, and so does
 * whoever finds that rank 0 is what failed. What a rank proposes or is told as verdict it sends on
 * all its channels, so the story also spreads inside a node that has lost rank 0.
 *
 * A rank that reports a failure of its own (an abort, a mismatch) cannot wait for a verdict,
 * because its caller returns; it decides for itself and proposes the same to the others.
 *
 * A mismatch that a link found is held until rank 0 has what both ranks called (inquiry.c): for
 * half of the dead time while one of them lives and has not answered, so that all are told within
 * it; then, with both answers, for the rest of TALE. */
#include "transport/watch/detect/inside.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>

#define GRACE   (200 * GYRE_MS) /* for the cause of an echo, and for rank 0's verdict */
#define TALE    (600 * GYRE_MS) /* two beats, for the roll call, where both calls do not tell enough */
#define ANSWERS (5 * GYRE_SECOND) /* for what ranks called, where there is no dead time */

static void decide(struct gyre_vigil *vigil, bool verdict, const struct gyre_vigil_channel *source)
{
    vigil->stage = GYRE_VIGIL_DECIDED;
    vigil->verdict = verdict;
    gyre_vigil_owe(vigil, GYRE_OWED_FAILURE, source);
}

static void set_deadline(struct gyre_vigil *vigil)
{
    if (vigil->stage == GYRE_VIGIL_CALM)
        vigil->deadline = vigil->clock + GRACE;
}

/* The verdict is this rank's to give: it is rank 0, or rank 0 is what failed. */
static bool judges(const struct gyre_vigil *vigil, const struct gyre_vigil_record *record)
{
    return vigil->is.rank == 0 || record->rank == 0;
}

void gyre_vigil_found(struct gyre_vigil *vigil, const struct gyre_vigil_record *record)
{
    if (vigil->stage >= GYRE_VIGIL_PROPOSED)
        return;
    vigil->record = *record;
    if (judges(vigil, record)) {
        decide(vigil, true, NULL);
        return;
    }
    set_deadline(vigil);
    vigil->stage = GYRE_VIGIL_PROPOSED;
    gyre_vigil_owe(vigil, GYRE_OWED_FAILURE, NULL);
}

/* Rank 0 asks, all others tell it that they wait: its own limit, which begins later, ends first. */
static void wait_for_answers(struct gyre_vigil *vigil, uint32_t holder)
{
    uint64_t limit = vigil->is.dead_ns > 0 ? vigil->is.dead_ns / 2 : ANSWERS;
    uint64_t longer = limit / 4 < GRACE ? limit / 4 : GRACE;

    vigil->held_at = vigil->clock;
    vigil->deadline = vigil->clock + limit + (vigil->is.rank != 0 ? longer : 0);
    if (vigil->is.rank == 0)
        gyre_vigil_doubt(vigil, holder, vigil->record.rank);
    else if (vigil->channel[0].gone)
        gyre_vigil_all_told(vigil);
    else
        vigil->channel[0].owed |= GYRE_OWED_FAILURE;
}

void gyre_vigil_hold(struct gyre_vigil *vigil, uint32_t holder,
                     const struct gyre_vigil_record *record)
{
    if (vigil->stage != GYRE_VIGIL_CALM)
        return;
    set_deadline(vigil);
    vigil->record = *record;
    vigil->stage = GYRE_VIGIL_HELD;
    if (record->status == GYRE_MISMATCH)
        wait_for_answers(vigil, holder);
}

void gyre_vigil_all_told(struct gyre_vigil *vigil)
{
    bool waits = vigil->stage == GYRE_VIGIL_HELD && vigil->record.status == GYRE_MISMATCH;

    if (waits && vigil->deadline > vigil->held_at + TALE)
        vigil->deadline = vigil->held_at + TALE;
}

/* Waited long enough: an echo without a cause is told as it is; a proposal that rank 0 does not
 * answer stands. */
void gyre_vigil_stop_waiting(struct gyre_vigil *vigil)
{
    bool waits = vigil->stage == GYRE_VIGIL_HELD || vigil->stage == GYRE_VIGIL_PROPOSED;

    if (waits && vigil->clock >= vigil->deadline)
        decide(vigil, vigil->stage == GYRE_VIGIL_PROPOSED || judges(vigil, &vigil->record), NULL);
}

void gyre_vigil_hear_failure(struct gyre_vigil *vigil, const struct gyre_vigil_channel *source,
                             const struct gyre_watch_message *message)
{
    bool verdict = message->flags & GYRE_WATCH_VERDICT;
    struct gyre_vigil_record record;

    if (vigil->stage == GYRE_VIGIL_DECIDED || (!verdict && vigil->stage == GYRE_VIGIL_PROPOSED))
        return;
    record.status = message->status;
    record.rank = message->rank < vigil->is.n ? message->rank : GYRE_NOBODY;
    gyre_watch_text(message, record.text, sizeof record.text);
    if (message->flags & GYRE_WATCH_HELD) {
        gyre_vigil_hold(vigil, source->peer, &record);
        return;
    }
    vigil->record = record;
    if (verdict || judges(vigil, &vigil->record)) {
        decide(vigil, true, verdict ? source : NULL); /* whoever proposed it waits for the answer */
        return;
    }
    set_deadline(vigil);
    vigil->stage = GYRE_VIGIL_PROPOSED;
}

void gyre_vigil_adopt(struct gyre_vigil *vigil, const struct gyre_vigil_record *record)
{
    if (vigil->stage == GYRE_VIGIL_DECIDED)
        return;
    if (vigil->stage < GYRE_VIGIL_PROPOSED)
        vigil->record = *record;
    decide(vigil, judges(vigil, &vigil->record), NULL);
}

void gyre_vigil_compose(const struct gyre_vigil *vigil, struct gyre_vigil_record *record,
                        int status, uint32_t rank, const char *format, ...)
{
    const struct gyre_member *member = &vigil->is.member[rank];
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
