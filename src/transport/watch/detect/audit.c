/* Rank 0's call audit.
 *
 * A rank *waits* while it has started an operation that it has not finished (sequence > finished);
 * what it waits in is the oldest such operation, finished + 1. A rank has *joined* an operation
 * when it has started it. Five questions are asked of the table:
 *
 *     rank   sequence  finished
 *      0        7         6     waits     1. do two waiting ranks hold different fingerprints under
 *      1        7         6     waits        one number? Then they will never finish.
 *      2        6         6     missing   2. did a rank call something else under the number in
 *      3        9         8     waits        which another waits, and get away with it (a
 *                                            broadcast's root does)? Every state tells its rank's
 *                                            last calls.
 *                                         3. do all wait, under different numbers or in different
 *                                            communicators, one of them for another that has not
 *                                            joined or has left, and nothing moves? Then they have
 *                                            parted long ago.
 *                                         4. does a rank wait for one that is in gyre_finalize(); or
 *                                            wait, also in gyre_finalize(), for one that refused that
 *                                            call and has not made it since? That one has half of the
 *                                            dead time, so all are told within it.
 *                                         5. has a rank waited too long in an operation that others
 *                                            have not joined? Those are named: first in a warning,
 *                                            then in the failure.
 *
 * 1 and 2 are asked here, 3 and 4 in audit_left.c, 5 in audit_wait.c.
 *
 * A rank tells of one communicator in full, the one that it waits in, and of others how far it is:
 * so 3 to 5 know who belongs to a communicator and who has joined.
 *
 * A call that was refused with the same words where a rank waits and where it is missing was wrong
 * on all ranks alike: the program knows of it, and whoever is late may be computing. So 4 leaves
 * that to the other questions.
 *
 * Nobody is judged by 3 while any rank computes, or moves as much as one byte: its state changes
 * then. Equal numbers are found by a small hash table of this call's waiting ranks, so a call is
 * O(n). */
#include "transport/watch/detect/audit_inside.h"

#include "base/clock.h"
#include "base/rng.h"
#include "transport/stream/signature.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK (100 * GYRE_MS) /* between calls when nothing changed, or an eighth of dead_ns */

int gyre_audit_create(uint32_t n, const struct gyre_audit_limits *limits,
                      struct gyre_call_audit **audit)
{
    struct gyre_call_audit *fresh = calloc(1, sizeof *fresh);

    if (fresh == NULL)
        return -ENOMEM;
    fresh->n = n;
    fresh->limit = *limits;
    fresh->look = limits->dead_ns > 0 && limits->dead_ns / 8 < LOOK ? limits->dead_ns / 8 : LOOK;
    for (fresh->slots = 4; fresh->slots < 2 * n; fresh->slots *= 2)
        ;
    fresh->entry = calloc(n, sizeof *fresh->entry);
    fresh->slot = calloc(fresh->slots, sizeof *fresh->slot);
    if (fresh->entry == NULL || fresh->slot == NULL) {
        gyre_audit_destroy(fresh);
        return -ENOMEM;
    }
    *audit = fresh;
    return 0;
}

void gyre_audit_destroy(struct gyre_call_audit *audit)
{
    if (audit == NULL)
        return;
    free(audit->slot);
    free(audit->entry);
    free(audit);
}

/* What the rank called under that number, if its state still tells. */
bool gyre_audit_recall(const struct gyre_watch_state *state, uint64_t number,
                       struct gyre_watch_call *call)
{
    uint64_t ago = state->sequence - number;

    if (number > state->sequence || ago > state->calls)
        return false;
    *call =
        ago > 0 ? state->call[ago - 1] : (struct gyre_watch_call){state->signature, state->count};
    return true;
}

bool gyre_audit_progress(const struct gyre_watch_state *state, uint32_t comm, uint64_t *sequence,
                         uint64_t *finished)
{
    *sequence = state->sequence;
    *finished = state->finished;
    if (state->comm == comm)
        return true;
    for (uint32_t i = 0; i < state->elsewhere_count; i++)
        if (state->elsewhere[i].comm == comm) {
            *sequence = state->elsewhere[i].sequence;
            *finished = state->elsewhere[i].finished;
            return true;
        }
    return false;
}

bool gyre_audit_joined(const struct gyre_watch_state *state, uint32_t comm, uint64_t number)
{
    uint64_t sequence, finished;
    return gyre_audit_progress(state, comm, &sequence, &finished) && sequence >= number;
}

static void hear_end(struct gyre_audit_entry *entry, uint64_t clock,
                     const struct gyre_watch_state *state)
{
    const struct gyre_watch_refused *before = &entry->state.refused;

    if (state->refused.stands &&
        (!before->stands || !gyre_audit_same_refusal(before, &state->refused)))
        entry->refused_at = clock;
    if (state->parting && !entry->state.parting)
        entry->parted_at = clock;
}

void gyre_audit_hear(struct gyre_call_audit *audit, uint64_t clock,
                     const struct gyre_watch_state *state)
{
    if (state->rank >= audit->n)
        return;
    struct gyre_audit_entry *entry = &audit->entry[state->rank];
    hear_end(entry, clock, state);
    bool moved = !gyre_audit_waiting(entry) || entry->state.finished != state->finished ||
                 entry->state.comm != state->comm;
    if (moved)
        entry->since = clock;
    if (memcmp(&entry->state, state, sizeof *state) != 0) {
        audit->changed = true;
        audit->moved_at = clock;
    }
    entry->state = *state;
}

bool gyre_audit_waits(const struct gyre_call_audit *audit, uint32_t rank, uint32_t comm,
                      uint64_t sequence)
{
    uint64_t entered, finished;

    return gyre_audit_progress(&audit->entry[rank].state, comm, &entered, &finished) &&
           finished < sequence && sequence <= entered;
}

/* " of communicator 3"; nothing for the world. */
const char *gyre_audit_name_comm(uint32_t comm, char out[GYRE_AUDIT_COMM])
{
    out[0] = '\0';
    if (comm != 0)
        snprintf(out, GYRE_AUDIT_COMM, " of communicator %" PRIu32, comm & GYRE_WATCH_COMM_MASK);
    return out;
}

/* -- 1: different operations under one number -------------------------------------------------- */

/* Where the first waiting rank under that number stands, or an empty place for it. */
uint32_t *gyre_audit_slot(struct gyre_call_audit *audit, uint32_t comm, uint64_t number)
{
    uint32_t mask = audit->slots - 1;
    uint32_t at = (uint32_t)gyre_mix64(number ^ (uint64_t)comm << 48) & mask;

    for (; audit->slot[at] != 0; at = (at + 1) & mask) {
        const struct gyre_audit_entry *entry = &audit->entry[audit->slot[at] - 1];
        if (entry->state.comm == comm && entry->number == number)
            break;
    }
    return &audit->slot[at];
}

/* The first waiting rank under this number; this one if there is none yet. */
uint32_t gyre_audit_first_under(struct gyre_call_audit *audit, uint32_t rank, uint64_t number)
{
    uint32_t *slot = gyre_audit_slot(audit, audit->entry[rank].state.comm, number);

    if (*slot == 0) {
        audit->entry[rank].number = number;
        *slot = rank + 1;
    }
    return *slot - 1;
}

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

/* The number of the first of their last calls that differ; 0: none that both states remember. */
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

static bool find_mismatch(struct gyre_call_audit *audit, struct gyre_audit_finding *finding)
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

/* Compares what the rank called under that number with the call in which another waits. */
static bool differs_there(struct gyre_call_audit *audit, uint32_t rank, uint64_t number,
                          struct gyre_audit_finding *finding)
{
    uint32_t comm = audit->entry[rank].state.comm, waits = *gyre_audit_slot(audit, comm, number);
    struct gyre_watch_call mine, theirs;

    if (waits-- == 0 || !gyre_audit_recall(&audit->entry[rank].state, number, &mine) ||
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

static bool find_departed(struct gyre_call_audit *audit, struct gyre_audit_finding *finding)
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

void gyre_audit_judge(struct gyre_call_audit *audit, uint64_t clock,
                      struct gyre_audit_finding *finding)
{
    *finding = (struct gyre_audit_finding){.outcome = GYRE_AUDIT_FINE, .rank = GYRE_AUDIT_NOBODY};
    if (!audit->changed && clock < audit->next_look)
        return;
    audit->changed = false;
    audit->next_look = clock + audit->look;
    bool differ = find_mismatch(audit, finding) || find_departed(audit, finding) ||
                  gyre_audit_find_left(audit, finding) ||
                  gyre_audit_find_refused(audit, clock, finding) ||
                  gyre_audit_find_standstill(audit, clock, finding);
    if (!differ)
        gyre_audit_find_wait(audit, clock, finding);
}
