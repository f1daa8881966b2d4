/* Questions 1 and 2 of the call audit: ranks whose calls differ.
 *
 * Tested by tests/unit/transport/watch/detect/audit_test.c. */
#include "transport/watch/detect/audit_inside.h"

#include "transport/stream/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- 1: different operations under one number -------------------------------------------------- */

static void tell_two(uint32_t a, const struct gyre_watch_call *one, uint32_t b,
                     const struct gyre_watch_call *two, struct gyre_audit_finding *finding)
{
    char first[128], second[128], differ[80] = "";

    gyre_signature_text(first, sizeof first, one->signature, one->count);
    gyre_signature_text(second, sizeof second, two->signature, two->count);
    if (strcmp(first, second) == 0)
        snprintf(differ, sizeof differ, ", and they differ in %s",
                 gyre_signature_untold(one->signature));
    snprintf(finding->text, sizeof finding->text,
             "rank %u called %s, but rank %u called %s, both as operation %" PRIu64
             " of communicator %u%s: every rank must call the same operations in the same order",
             a, first, b, second, finding->sequence, finding->comm & GYRE_WATCH_COMM_MASK, differ);
}

/* The number of the first of two ranks' last calls that differ; 0: none that both states
 * remember. */
static uint64_t first_difference(const struct gyre_watch_state *one,
                                 const struct gyre_watch_state *two)
{
    struct gyre_watch_call here = {0}, there = {0};
    uint64_t found = 0;

    for (uint64_t number = one->sequence < two->sequence ? one->sequence : two->sequence;
         number > 0 && gyre_audit_recall(one, number, &here) &&
         gyre_audit_recall(two, number, &there);
         number--)
        if (here.signature != there.signature || here.count != there.count)
            found = number;
    return found;
}

static void tell_past(const struct gyre_watch_state *one, const struct gyre_watch_state *two,
                      struct gyre_audit_finding *finding)
{
    char call[128];

    gyre_signature_text(call, sizeof call, one->signature, one->count);
    snprintf(
        finding->text, sizeof finding->text,
        "rank %u and rank %u agree about operation %" PRIu64
        " of communicator %u (%s), but not about one before it, which none of them had to wait "
        "for: every rank must call the same operations in the same order, with one root",
        one->rank, two->rank, finding->sequence, finding->comm & GYRE_WATCH_COMM_MASK, call);
}

void gyre_audit_tell(const struct gyre_watch_state *one, const struct gyre_watch_state *two,
                     struct gyre_audit_finding *finding)
{
    uint64_t number = first_difference(one, two);
    struct gyre_watch_call here = {0}, there = {0};

    finding->outcome = GYRE_AUDIT_MISMATCH;
    finding->comm = one->comm;
    finding->sequence = number > 0 ? number : one->sequence;
    if (number == 0 && (uint32_t)one->fingerprint == (uint32_t)two->fingerprint) {
        tell_past(one, two, finding);
        return;
    }
    gyre_audit_recall(one, finding->sequence, &here);
    gyre_audit_recall(two, finding->sequence, &there);
    tell_two(one->rank, &here, two->rank, &there, finding);
    gyre_audit_add_refusal(one, finding);
    gyre_audit_add_refusal(two, finding);
}

bool gyre_audit_compare(const struct gyre_call_audit *audit, uint32_t one, uint32_t two,
                        struct gyre_audit_finding *finding)
{
    *finding = (struct gyre_audit_finding){.outcome = GYRE_AUDIT_FINE, .rank = GYRE_AUDIT_NOBODY};
    if (one >= audit->n || two >= audit->n)
        return false;
    const struct gyre_watch_state *mine = &audit->entry[one].state,
                                  *theirs = &audit->entry[two].state;
    bool level = mine->sequence == theirs->sequence && mine->fingerprint != theirs->fingerprint;
    if (mine->comm != theirs->comm || gyre_audit_in_message(mine) ||
        (!level && first_difference(mine, theirs) == 0))
        return false;
    gyre_audit_tell(mine, theirs, finding);
    return true;
}

bool gyre_audit_find_mismatch(struct gyre_call_audit *audit, struct gyre_audit_finding *finding)
{
    memset(audit->slot, 0, audit->slots * sizeof *audit->slot);
    for (uint32_t rank = 0; rank < audit->n; rank++) {
        if (!gyre_audit_waiting(&audit->entry[rank]) ||
            gyre_audit_in_message(&audit->entry[rank].state))
            continue;
        uint32_t first = gyre_audit_first_under(audit, rank, audit->entry[rank].state.sequence);
        if (audit->entry[first].state.fingerprint == audit->entry[rank].state.fingerprint)
            continue;
        gyre_audit_tell(&audit->entry[first].state, &audit->entry[rank].state, finding);
        return true;
    }
    return false;
}

/* -- 2: others called something else there, and went past -------------------------------------- */

/* Compares a rank's call under that number with the call in which another rank waits. */
static bool differs_there(struct gyre_call_audit *audit, uint32_t rank, uint64_t number,
                          struct gyre_audit_finding *finding)
{
    uint32_t comm = audit->entry[rank].state.comm, slot = *gyre_audit_slot(audit, comm, number);
    uint32_t waits = slot ? slot - 1 : 0;
    struct gyre_watch_call mine, theirs;

    if (!slot || !gyre_audit_recall(&audit->entry[rank].state, number, &mine) ||
        !gyre_audit_recall(&audit->entry[waits].state, number, &theirs))
        return false;
    if (mine.signature == theirs.signature && mine.count == theirs.count)
        return false;
    finding->outcome = GYRE_AUDIT_MISMATCH;
    finding->comm = comm;
    finding->sequence = number;
    tell_two(waits, &theirs, rank, &mine, finding);
    gyre_audit_add_refusal(&audit->entry[waits].state, finding);
    gyre_audit_add_refusal(&audit->entry[rank].state, finding);
    return true;
}

bool gyre_audit_find_departed(struct gyre_call_audit *audit, struct gyre_audit_finding *finding)
{
    memset(audit->slot, 0, audit->slots * sizeof *audit->slot);
    for (uint32_t rank = 0; rank < audit->n; rank++)
        if (gyre_audit_waiting(&audit->entry[rank]) &&
            !gyre_audit_in_message(&audit->entry[rank].state))
            gyre_audit_first_under(audit, rank, gyre_audit_oldest(&audit->entry[rank].state));
    for (uint32_t rank = 0; rank < audit->n; rank++) {
        const struct gyre_watch_state *state = &audit->entry[rank].state;
        for (uint64_t ago = 0; ago <= state->calls && ago < state->sequence; ago++)
            if (!gyre_audit_in_message(state) &&
                differs_there(audit, rank, state->sequence - ago, finding))
                return true;
    }
    return false;
}
