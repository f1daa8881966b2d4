/* The table of the audit, for all questions: how far each rank is, what it called, and the ranks
 * that wait in an operation.
 *
 * A small hash table finds the waiting ranks of one operation. Each question fills the table anew.
 *
 * Tested by tests/unit/transport/watch/detect/audit_test.c. */
#include "transport/watch/detect/audit_inside.h"

#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- states ------------------------------------------------------------------------------------ */

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

bool gyre_audit_state_waits(const struct gyre_watch_state *state, uint32_t comm, uint64_t sequence)
{
    uint64_t entered, finished;

    return gyre_audit_progress(state, comm, &entered, &finished) && finished < sequence &&
           sequence <= entered;
}

bool gyre_audit_waits(const struct gyre_call_audit *audit, uint32_t rank, uint32_t comm,
                      uint64_t sequence)
{
    return gyre_audit_state_waits(&audit->entry[rank].state, comm, sequence);
}

bool gyre_audit_doubts(const struct gyre_call_audit *audit, uint32_t rank)
{
    const struct gyre_audit_entry *entry = &audit->entry[rank];

    return rank < audit->n && entry->told_at < entry->doubted_at && !entry->state.parting;
}

bool gyre_audit_confirmed(struct gyre_call_audit *audit, uint32_t rank, uint64_t since)
{
    audit->entry[rank].doubted_at = since;
    return !gyre_audit_doubts(audit, rank);
}

/* " of communicator 3"; nothing for the world. */
const char *gyre_audit_name_comm(uint32_t comm, char out[GYRE_AUDIT_COMM])
{
    out[0] = '\0';
    if (comm != 0)
        snprintf(out, GYRE_AUDIT_COMM, " of communicator %" PRIu32, comm & GYRE_WATCH_COMM_MASK);
    return out;
}

/* -- the hash table ---------------------------------------------------------------------------- */

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

uint32_t gyre_audit_first_under(struct gyre_call_audit *audit, uint32_t rank, uint64_t number)
{
    uint32_t *slot = gyre_audit_slot(audit, audit->entry[rank].state.comm, number);

    if (*slot == 0) {
        audit->entry[rank].number = number;
        *slot = rank + 1;
    }
    return *slot - 1;
}

/* -- refused calls ----------------------------------------------------------------------------- */

const char *gyre_audit_verb(const struct gyre_watch_refused *refused)
{
    return strncmp(refused->why, "gyre_", 5) == 0 ? "refused" : "could not call:";
}

void gyre_audit_add_refusal(const struct gyre_watch_state *state,
                            struct gyre_audit_finding *finding)
{
    const struct gyre_watch_refused *refused = &state->refused;
    size_t used = strlen(finding->text);

    if (refused->stands && refused->comm == finding->comm)
        snprintf(finding->text + used, sizeof finding->text - used, "; rank %u %s %s", state->rank,
                 gyre_audit_verb(refused), refused->why);
}
