/* Question 5 of the call audit: ranks that have not joined an operation in which others wait.
 *
 * The rank that has waited longest speaks for all. The ranks for which it waits are listed as "3,
 * 5-7", first in a warning and then in the failure.
 *
 * Tested by tests/unit/transport/watch/detect/audit_test.c. */
#include "transport/watch/detect/audit_inside.h"

#include "base/clock.h"
#include "transport/stream/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIST_ROOM 300 /* bytes for a list of ranks in a message */

_Static_assert(GYRE_AUDIT_NOBODY == GYRE_SIGNATURE_ANYONE, "who waits for any, waits for nobody");

/* Whether a rank belongs to the communicator. All ranks belong to the world. */
static bool belongs(const struct gyre_watch_state *state, uint32_t comm)
{
    uint64_t sequence, finished;
    return comm == 0 || gyre_audit_progress(state, comm, &sequence, &finished);
}

/* -- lists of ranks ---------------------------------------------------------------------------- */

struct list { /* "3, 5-7": a run is written when it ends */
    char text[LIST_ROOM];
    size_t used;
    uint32_t count, first, last; /* all ranks; the open run */
    bool full;
};

static void write_run(struct list *list)
{
    char run[32];
    int length = list->first == list->last
                     ? snprintf(run, sizeof run, "%u", list->first)
                     : snprintf(run, sizeof run, "%u-%u", list->first, list->last);

    if (list->full || list->used + (size_t)length + 8 > sizeof list->text) {
        list->full = true;
        return;
    }
    list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used, "%s%s",
                                   list->used > 0 ? ", " : "", run);
}

static void add_rank(struct list *list, uint32_t rank)
{
    if (list->count++ > 0 && rank == list->last + 1) {
        list->last = rank;
        return;
    }
    if (list->count > 1)
        write_run(list);
    list->first = list->last = rank;
}

static void end_list(struct list *list)
{
    if (list->count > 0)
        write_run(list);
    if (list->full)
        snprintf(list->text + list->used, sizeof list->text - list->used, ", …");
}

/* -- 5: who has not joined --------------------------------------------------------------------- */

/* The rank that has waited longest. */
static uint32_t longest_waiting(const struct gyre_call_audit *audit)
{
    uint32_t longest = GYRE_AUDIT_NOBODY;

    for (uint32_t rank = 0; rank < audit->n; rank++) {
        const struct gyre_audit_entry *entry = &audit->entry[rank];
        if (gyre_audit_waiting(entry) &&
            (longest == GYRE_AUDIT_NOBODY || entry->since < audit->entry[longest].since))
            longest = rank;
    }
    return longest;
}

static void list_missing(const struct gyre_call_audit *audit,
                         const struct gyre_audit_finding *finding, struct list *list)
{
    memset(list, 0, sizeof *list);
    for (uint32_t rank = 0; rank < audit->n; rank++) {
        const struct gyre_watch_state *state = &audit->entry[rank].state;
        if (belongs(state, finding->comm) &&
            !gyre_audit_joined(state, finding->comm, finding->sequence))
            add_rank(list, rank);
    }
    end_list(list);
}

/* Writes "operation 7 (all_reduce f32 sum, 1000 elements)", as far as a rank names it. */
static void name_operation(const struct gyre_call_audit *audit,
                           const struct gyre_audit_finding *finding, char *out, size_t size)
{
    char signature[128], of[GYRE_AUDIT_COMM];

    gyre_audit_name_comm(finding->comm, of);
    for (uint32_t rank = 0; rank < audit->n; rank++) {
        const struct gyre_watch_state *state = &audit->entry[rank].state;
        if (state->comm != finding->comm || state->sequence != finding->sequence)
            continue;
        gyre_signature_text(signature, sizeof signature, state->signature, state->count);
        snprintf(out, size, "operation %" PRIu64 "%s (%s)", finding->sequence, of, signature);
        return;
    }
    snprintf(out, size, "operation %" PRIu64 "%s", finding->sequence, of);
}

static void tell_message_wait(const struct gyre_call_audit *audit, uint32_t rank, uint64_t waited,
                              struct gyre_audit_finding *finding)
{
    const struct gyre_watch_state *state = &audit->entry[rank].state;
    bool over = finding->outcome == GYRE_AUDIT_TIMED_OUT;
    char signature[128];

    char missing[48] = "no rank has sent that";

    gyre_signature_text(signature, sizeof signature, state->signature, state->count);
    finding->rank = (uint32_t)(state->signature >> 32);
    if (finding->rank != GYRE_SIGNATURE_ANYONE)
        snprintf(missing, sizeof missing, "rank %u has not joined", finding->rank);
    snprintf(finding->text, sizeof finding->text,
             "rank %u has waited %" PRIu64 ".%" PRIu64 " s in %s%s; %s", rank, waited / GYRE_SECOND,
             waited % GYRE_SECOND / (100 * GYRE_MS), signature,
             over ? ", longer than its limit (GYRE_TIMEOUT)" : "", missing);
}

/* Writes the missing ranks, and returns their number. */
static uint32_t tell_wait(const struct gyre_call_audit *audit, uint32_t rank, uint64_t waited,
                          struct gyre_audit_finding *finding)
{
    bool over = finding->outcome == GYRE_AUDIT_TIMED_OUT;
    char operation[192];
    struct list missing;

    if (finding->comm == GYRE_WATCH_POINT_TO_POINT) {
        tell_message_wait(audit, rank, waited, finding);
        return 1;
    }
    name_operation(audit, finding, operation, sizeof operation);
    list_missing(audit, finding, &missing);
    finding->rank = missing.count == 1 ? missing.first : GYRE_AUDIT_NOBODY;
    int used = snprintf(finding->text, sizeof finding->text,
                        "%s: rank %u has waited %" PRIu64 ".%" PRIu64 " s%s", operation, rank,
                        waited / GYRE_SECOND, waited % GYRE_SECOND / (100 * GYRE_MS),
                        over ? ", longer than its limit (GYRE_TIMEOUT)" : "");
    char *rest = finding->text + used;
    size_t room = sizeof finding->text - (size_t)used;
    if (missing.count == 0)
        snprintf(rest, room, "; all ranks have joined and still exchange data");
    else
        snprintf(rest, room, "; rank%s %s ha%s not joined", missing.count > 1 ? "s" : "",
                 missing.text, missing.count > 1 ? "ve" : "s");
    return missing.count;
}

static bool warned_already(const struct gyre_call_audit *audit,
                           const struct gyre_audit_finding *finding)
{
    return audit->warned_comm == finding->comm && audit->warned_sequence == finding->sequence;
}

void gyre_audit_find_wait(struct gyre_call_audit *audit, uint64_t clock,
                          struct gyre_audit_finding *finding)
{
    uint32_t rank = longest_waiting(audit);

    if (rank == GYRE_AUDIT_NOBODY)
        return;
    const struct gyre_audit_entry *entry = &audit->entry[rank];
    uint64_t waited = clock - entry->since;
    finding->comm = entry->state.comm;
    finding->sequence = entry->state.finished + 1;
    if (audit->limit.timeout_ns > 0 && waited >= audit->limit.timeout_ns) {
        finding->outcome = GYRE_AUDIT_TIMED_OUT;
        tell_wait(audit, rank, waited, finding);
    } else if (waited >= audit->limit.patience_ns && !warned_already(audit, finding)) {
        if (tell_wait(audit, rank, waited, finding) == 0)
            return;
        finding->outcome = GYRE_AUDIT_SLOW;
        audit->warned_comm = finding->comm;
        audit->warned_sequence = finding->sequence;
    }
}
