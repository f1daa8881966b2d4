/* Rank 0's call audit: which ranks call different operations, or wait in vain.
 *
 * A rank *waits* while it has started an operation that is not finished (sequence > finished). The
 * operation in which it waits is the oldest of these, finished + 1. A rank has *joined* every
 * operation that it has started. The audit asks five questions:
 *
 *     rank   sequence  finished           1. Do two waiting ranks hold different fingerprints
 *      0        7         6     waits          under one number? They will never finish.
 *      1        7         6     waits      2. Did a rank call something else under the number in
 *      2        6         6     missing        which another waits, and go on, as a broadcast's
 *      3        9         8     waits          root does? Every state tells its rank's last calls.
 *
 *     3. Do all ranks wait, under different numbers or in different communicators, one of them for
 *        another that has not joined or has left, and nothing moves? They parted long ago.
 *     4. Does a rank wait for one that is in gyre_finalize()? Or does it wait, also in
 *        gyre_finalize(), for one that refused that call and has not made the call since? The
 *        latter has half of the dead time, so all ranks are told within the dead time.
 *     5. Has a rank waited too long in an operation that others have not joined? Those are named:
 *        first in a warning, then in the failure.
 *
 * Questions 1 and 2 are in audit_differ.c, 3 and 4 in audit_left.c, 5 in audit_wait.c. This file is
 * the entry: it keeps each rank's last state and asks the questions in turn. audit_table.c has the
 * functions that all questions need.
 *
 * A state tells one communicator in full, the one in which its rank waits, and how far the rank is
 * in others. From this questions 3 to 5 know the ranks of a communicator and those that have
 * joined.
 *
 * A call that was refused with the same words on a waiting rank and on a missing one was wrong on
 * all ranks: the program knows, and a late rank may be computing. Question 4 ignores such calls.
 *
 * Question 3 judges no rank while any rank computes or moves a byte, because its state then
 * changes.
 *
 * A state is sent when it changes, so a rank whose words are kept from rank 0 seems to stand still.
 * What a rank has called stays true for ever (questions 1 and 2). What it has not done may be done
 * by now. So before a standstill or a refused call is told, the ranks that it rests on are asked,
 * and each has answered with the same state. Nobody waits long for an answer: a rank that is silent
 * is lost.
 *
 * One judgement takes O(n). */
#include "transport/watch/detect/audit_inside.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOK (100 * GYRE_MS) /* between calls when nothing changed; at most an eighth of dead_ns */

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

static void note_end(struct gyre_audit_entry *entry, uint64_t clock,
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
    note_end(entry, clock, state);
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

void gyre_audit_answer(struct gyre_call_audit *audit, uint64_t clock,
                       const struct gyre_watch_state *state)
{
    if (state->rank >= audit->n)
        return;
    gyre_audit_hear(audit, clock, state);
    audit->changed |= gyre_audit_doubts(audit, state->rank);
    audit->entry[state->rank].told_at = clock;
}

void gyre_audit_judge(struct gyre_call_audit *audit, uint64_t clock,
                      struct gyre_audit_finding *finding)
{
    *finding = (struct gyre_audit_finding){.outcome = GYRE_AUDIT_FINE, .rank = GYRE_AUDIT_NOBODY};
    if (!audit->changed && clock < audit->next_look)
        return;
    audit->changed = false;
    audit->next_look = clock + audit->look;
    bool differ =
        gyre_audit_find_mismatch(audit, finding) || gyre_audit_find_departed(audit, finding) ||
        gyre_audit_find_left(audit, finding) || gyre_audit_find_refused(audit, clock, finding) ||
        gyre_audit_find_standstill(audit, clock, finding);
    if (!differ)
        gyre_audit_find_wait(audit, clock, finding);
}
