/* Questions 3 and 4 of the call audit: ranks that have parted from the others.
 *
 *     standstill   all ranks wait in different places, and nothing moves
 *     left         a rank is in gyre_finalize() while others wait for it
 *     refused      a rank refused a call in which others wait, and has not made the call since
 *
 * A finding names both sides, the operation in which the one waits, and why the other is not there.
 *
 * Tested by tests/unit/transport/watch/detect/audit_left_test.c. */
#include "transport/watch/detect/audit_inside.h"

#include "base/clock.h"
#include "transport/stream/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PLACE_ROOM   256 /* bytes for the place where a rank waits */
#define REFUSED_ROOM (GYRE_WATCH_WHY_MAX + 40)
/* Refused calls that one audit follows; each takes a walk over all ranks. */
#define SUSPECTS 16u

/* -- 3: all wait, and not for each other ------------------------------------------------------- */

/* Writes "rank 1 waits in operation 7 (barrier)"; without the name where the state has forgotten
 * it. */
static void tell_place(const struct gyre_call_audit *audit, uint32_t rank, char *out, size_t size)
{
    const struct gyre_watch_state *state = &audit->entry[rank].state;
    struct gyre_watch_call call;
    char signature[128];

    char of[GYRE_AUDIT_COMM];
    if (gyre_audit_in_message(state)) {
        gyre_signature_text(signature, sizeof signature, state->signature, state->count);
        snprintf(out, size, "rank %u waits in %s", rank, signature);
        return;
    }
    int used = snprintf(out, size, "rank %u waits in operation %" PRIu64 "%s", rank,
                        gyre_audit_oldest(state), gyre_audit_name_comm(state->comm, of));
    if (!gyre_audit_recall(state, gyre_audit_oldest(state), &call))
        return;
    gyre_signature_text(signature, sizeof signature, call.signature, call.count);
    snprintf(out + used, size - (size_t)used, " (%s)", signature);
}

static void tell_standstill(const struct gyre_call_audit *audit, uint32_t behind, uint32_t other,
                            struct gyre_audit_finding *finding)
{
    const struct gyre_watch_state *state = &audit->entry[behind].state;
    bool left =
        gyre_audit_joined(&audit->entry[other].state, state->comm, gyre_audit_oldest(state));
    char here[PLACE_ROOM], there[PLACE_ROOM];

    finding->outcome = GYRE_AUDIT_MISMATCH;
    finding->comm = state->comm;
    finding->sequence = gyre_audit_oldest(state);
    tell_place(audit, behind, here, sizeof here);
    tell_place(audit, other, there, sizeof there);
    if (gyre_audit_in_message(state))
        snprintf(finding->text, sizeof finding->text,
                 "%s; %s: all ranks wait, and nothing moves any more", here, there);
    else
        snprintf(finding->text, sizeof finding->text,
                 "%s, which rank %u has %s; %s: every rank must call the same operations in the "
                 "same order",
                 here, other, left ? "left" : "not called", there);
}

/* A rank for which `rank` waits although it is not there, neither before nor in that operation. */
static uint32_t absent_from(const struct gyre_call_audit *audit, uint32_t rank)
{
    const struct gyre_watch_state *state = &audit->entry[rank].state;

    if (gyre_audit_in_message(state) && state->signature >> 32 == GYRE_SIGNATURE_ANYONE)
        return (rank + 1) % audit->n; /* all are absent: they wait, too */
    if (gyre_audit_in_message(state))
        return state->signature >> 32 < audit->n ? (uint32_t)(state->signature >> 32)
                                                 : GYRE_AUDIT_NOBODY;
    for (uint32_t other = 0; other < audit->n; other++) {
        const struct gyre_watch_state *theirs = &audit->entry[other].state;
        uint64_t sequence, finished;
        if (theirs->comm == state->comm
                ? gyre_audit_oldest(theirs) > gyre_audit_oldest(state)
                : gyre_audit_progress(theirs, state->comm, &sequence, &finished) &&
                      (sequence < gyre_audit_oldest(state) || finished >= gyre_audit_oldest(state)))
            return other;
    }
    return GYRE_AUDIT_NOBODY;
}

/* Longer than the dead time: a rank that was stopped stands still too, and its silence is told
 * before. */
static uint64_t still_enough(const struct gyre_call_audit *audit)
{
    return audit->limit.dead_ns + audit->limit.dead_ns / 4;
}

/* Whether every rank has said since that time that it still waits where it did. */
static bool all_confirmed(struct gyre_call_audit *audit, uint64_t since)
{
    bool all = true;

    for (uint32_t rank = 0; rank < audit->n; rank++)
        all &= gyre_audit_confirmed(audit, rank, since);
    return all;
}

bool gyre_audit_find_standstill(struct gyre_call_audit *audit, uint64_t clock,
                                struct gyre_audit_finding *finding)
{
    if (audit->limit.dead_ns == 0 || clock - audit->moved_at < still_enough(audit))
        return false;
    bool together = true;
    for (uint32_t rank = 0; rank < audit->n; rank++) {
        const struct gyre_audit_entry *entry = &audit->entry[rank], *first = &audit->entry[0];
        if (!gyre_audit_waiting(entry))
            return false;
        together &= entry->state.comm == first->state.comm &&
                    !gyre_audit_in_message(&entry->state) &&
                    gyre_audit_oldest(&entry->state) == gyre_audit_oldest(&first->state);
    }
    for (uint32_t rank = 0; rank < audit->n && !together; rank++) {
        uint32_t other = absent_from(audit, rank);
        if (other == GYRE_AUDIT_NOBODY)
            continue;
        if (!all_confirmed(audit, audit->moved_at + still_enough(audit)))
            return false;
        tell_standstill(audit, rank, other, finding);
        return true;
    }
    return false;
}

/* -- 4: who has left, and who refused what others wait in -------------------------------------- */

/* Writes why the rank did not make its next call there; nothing if the rank did not refuse that
 * call. */
static const char *name_refused(const struct gyre_watch_state *state, uint32_t comm,
                                char out[REFUSED_ROOM])
{
    const struct gyre_watch_refused *refused = &state->refused;

    out[0] = '\0';
    if (refused->stands && refused->comm == comm)
        snprintf(out, REFUSED_ROOM, ", where it %s %s", gyre_audit_verb(refused), refused->why);
    return out;
}

void gyre_audit_tell_left(const struct gyre_audit_early_leave *parted,
                          struct gyre_audit_finding *finding)
{
    const struct gyre_watch_state *behind = parted->behind, *ahead = parted->ahead;
    uint64_t sequence = 0, finished = 0;
    char of[GYRE_AUDIT_COMM], why[REFUSED_ROOM], signature[128] = "";
    struct gyre_watch_call call;

    gyre_audit_progress(behind, parted->comm, &sequence, &finished);
    if (parted->comm == ahead->comm && gyre_audit_recall(ahead, parted->number, &call))
        gyre_signature_text(signature, sizeof signature, call.signature, call.count);
    finding->outcome = GYRE_AUDIT_LEFT;
    finding->comm = parted->comm;
    finding->sequence = parted->number;
    finding->rank = behind->rank;
    snprintf(finding->text, sizeof finding->text,
             "has left by gyre_finalize() after operation %" PRIu64
             "%s%s, but rank %u %s operation %" PRIu64
             "%s%s%s: every rank must call the same operations in the same order",
             sequence, gyre_audit_name_comm(parted->comm, of),
             name_refused(behind, parted->comm, why), ahead->rank, parted->how, parted->number,
             signature[0] ? " (" : "", signature, signature[0] ? ")" : "");
}

/* Enters, under number 0, the waiting rank of each communicator that has called most. */
static void enter_latest(struct gyre_call_audit *audit)
{
    memset(audit->slot, 0, audit->slots * sizeof *audit->slot);
    for (uint32_t rank = 0; rank < audit->n; rank++) {
        const struct gyre_watch_state *state = &audit->entry[rank].state;
        if (!gyre_audit_waiting(&audit->entry[rank]) || gyre_audit_in_message(state))
            continue;
        uint32_t first = gyre_audit_first_under(audit, rank, 0);
        if (state->sequence > audit->entry[first].state.sequence) {
            audit->entry[rank].number = 0;
            *gyre_audit_slot(audit, state->comm, 0) = rank + 1;
        }
    }
}

static bool left_behind(struct gyre_call_audit *audit, const struct gyre_watch_state *state,
                        uint32_t comm, uint64_t sequence, struct gyre_audit_finding *finding)
{
    uint32_t slot = *gyre_audit_slot(audit, comm, 0);
    const struct gyre_watch_state *ahead = slot ? &audit->entry[slot - 1].state : NULL;

    if (!slot || ahead->sequence <= sequence)
        return false;
    uint64_t number = sequence < gyre_audit_oldest(ahead) ? gyre_audit_oldest(ahead) : sequence + 1;
    gyre_audit_tell_left(&(struct gyre_audit_early_leave){state, ahead, comm, number, "waits in"},
                         finding);
    return true;
}

/* Finds a rank in its gyre_finalize(), which calls nothing more, for which others wait. */
bool gyre_audit_find_left(struct gyre_call_audit *audit, struct gyre_audit_finding *finding)
{
    bool found = false;

    enter_latest(audit);
    for (uint32_t rank = 0; rank < audit->n && !found; rank++) {
        const struct gyre_watch_state *state = &audit->entry[rank].state;
        if (!state->parting)
            continue;
        found = left_behind(audit, state, state->comm, state->sequence, finding);
        for (uint32_t i = 0; i < state->elsewhere_count && !found; i++)
            found = left_behind(audit, state, (uint32_t)state->elsewhere[i].comm,
                                state->elsewhere[i].sequence, finding);
    }
    return found;
}

/* Whether the entry's rank waits in an operation, also for `rank`; since *since. */
static bool waits_in_call(const struct gyre_audit_entry *entry, uint32_t rank,
                          const struct gyre_watch_refused *refused, uint64_t *since)
{
    const struct gyre_watch_state *state = &entry->state;

    *since = entry->since;
    if (!gyre_audit_waiting(entry) || state->comm != refused->comm)
        return false;
    return gyre_audit_in_message(state) ? state->signature >> 32 == rank
                                        : gyre_audit_oldest(state) >= refused->sequence;
}

/* Whether the entry's rank has made the refused call, and waits at its end; since *since. */
static bool waits_at_end(const struct gyre_audit_entry *entry,
                         const struct gyre_watch_refused *refused, uint64_t *since)
{
    *since = entry->parted_at;
    return entry->state.parting && refused->comm != GYRE_WATCH_POINT_TO_POINT &&
           gyre_audit_joined(&entry->state, (uint32_t)refused->comm, refused->sequence);
}

static bool refused_alike(const struct gyre_watch_refused *one,
                          const struct gyre_watch_refused *two)
{
    return one->comm != GYRE_WATCH_POINT_TO_POINT && gyre_audit_same_refusal(one, two) &&
           strcmp(one->why, two->why) == 0;
}

/* A rank that has waited for `rank` since before `limit`. */
static uint32_t kept_waiting(const struct gyre_call_audit *audit, uint32_t rank, uint64_t limit,
                             uint64_t *since)
{
    const struct gyre_watch_refused *refused = &audit->entry[rank].state.refused;

    for (uint32_t other = 0; other < audit->n; other++) {
        const struct gyre_audit_entry *entry = &audit->entry[other];
        if (other != rank &&
            (waits_in_call(entry, rank, refused, since) || waits_at_end(entry, refused, since)) &&
            *since <= limit && !refused_alike(refused, &entry->state.refused))
            return other;
    }
    return GYRE_AUDIT_NOBODY;
}

static void tell_refused(const struct gyre_call_audit *audit, uint32_t rank, uint32_t other,
                         uint64_t waited, struct gyre_audit_finding *finding)
{
    const struct gyre_watch_refused *refused = &audit->entry[rank].state.refused;
    char there[PLACE_ROOM], of[GYRE_AUDIT_COMM];
    uint64_t since;

    finding->outcome = GYRE_AUDIT_MISMATCH;
    finding->comm = (uint32_t)refused->comm;
    finding->sequence = refused->sequence;
    finding->rank = rank;
    if (waits_in_call(&audit->entry[other], rank, refused, &since))
        tell_place(audit, other, there, sizeof there);
    else
        snprintf(there, sizeof there,
                 "rank %u has called operation %" PRIu64 "%s and waits in gyre_finalize()", other,
                 refused->sequence, gyre_audit_name_comm(finding->comm, of));
    snprintf(finding->text, sizeof finding->text,
             "rank %u %s %s, and has not called it again for %" PRIu64 ".%" PRIu64
             " s, while %s: every rank must call the same operations in the same order",
             rank, gyre_audit_verb(refused), refused->why, waited / GYRE_SECOND,
             waited % GYRE_SECOND / (100 * GYRE_MS), there);
}

static bool both_confirmed(struct gyre_call_audit *audit, uint32_t one, uint32_t other,
                           uint64_t since)
{
    const bool is_one = gyre_audit_confirmed(audit, one, since);

    return gyre_audit_confirmed(audit, other, since) && is_one;
}

bool gyre_audit_find_refused(struct gyre_call_audit *audit, uint64_t clock,
                             struct gyre_audit_finding *finding)
{
    uint64_t patience = audit->limit.dead_ns / 2, since;
    uint32_t first = audit->suspect, suspects = 0;

    for (uint32_t i = 0; i < audit->n && patience > 0 && suspects < SUSPECTS; i++) {
        uint32_t rank = (first + i) % audit->n;
        const struct gyre_audit_entry *entry = &audit->entry[rank];
        if (!entry->state.refused.stands || clock - entry->refused_at < patience)
            continue;
        audit->suspect = rank + 1;
        suspects++;
        uint32_t other = kept_waiting(audit, rank, clock - patience, &since);
        if (other == GYRE_AUDIT_NOBODY)
            continue;
        since = since > entry->refused_at ? since : entry->refused_at;
        if (!both_confirmed(audit, rank, other, since + patience))
            continue;
        tell_refused(audit, rank, other, clock - since, finding);
        return true;
    }
    return false;
}
