/* The inside of the call audit, for its files only.
 *
 *     audit.c         the entry: the ranks' last states, and the next question
 *     audit_differ.c  questions 1 and 2: calls that differ
 *     audit_left.c    questions 3 and 4: ranks that have parted
 *     audit_wait.c    question 5: ranks that are late
 *     audit_table.c   how far each rank is, and the ranks that wait in an operation */
#ifndef GYRE_TRANSPORT_WATCH_DETECT_AUDIT_INSIDE_H
#define GYRE_TRANSPORT_WATCH_DETECT_AUDIT_INSIDE_H

#include "transport/watch/detect/audit.h"

#define GYRE_AUDIT_NOBODY UINT32_MAX
#define GYRE_AUDIT_COMM   40 /* bytes for a communicator's name */

struct gyre_audit_entry {
    struct gyre_watch_state state;
    uint64_t since;  /* beginning of the wait in its oldest operation */
    uint64_t number; /* its key in the hash table */
    uint64_t refused_at, parted_at;
    uint64_t told_at;    /* its last answer to a question */
    uint64_t doubted_at; /* a judgement needs an answer that is not older */
};

struct gyre_call_audit {
    /* `suspect`: the rank at which the next search for refused calls begins. */
    uint32_t n, slots, suspect;
    struct gyre_audit_limits limit;
    uint64_t look, next_look;
    uint64_t moved_at; /* time of the last change of a state */
    bool changed;
    uint32_t warned_comm; /* the operation of the last warning */
    uint64_t warned_sequence;
    struct gyre_audit_entry *entry; /* n */
    uint32_t *slot;                 /* a waiting rank + 1, by hash of its operation; 0: empty */
};

static inline bool gyre_audit_waiting(const struct gyre_audit_entry *entry)
{
    return entry->state.sequence > entry->state.finished;
}

static inline uint64_t gyre_audit_oldest(const struct gyre_watch_state *state)
{
    return state->finished + 1;
}

/* Whether the rank waits in messages from rank to rank. These have numbers of their own, and the
 * signature holds the peer. */
static inline bool gyre_audit_in_message(const struct gyre_watch_state *state)
{
    return state->comm == GYRE_WATCH_POINT_TO_POINT;
}

static inline bool gyre_audit_same_refusal(const struct gyre_watch_refused *one,
                                           const struct gyre_watch_refused *two)
{
    return one->comm == two->comm && one->sequence == two->sequence;
}

/* -- audit_table.c ----------------------------------------------------------------------------- */

/* Finds the rank's call under that number; false: its state does not tell any more. */
bool gyre_audit_recall(const struct gyre_watch_state *state, uint64_t number,
                       struct gyre_watch_call *call);
bool gyre_audit_joined(const struct gyre_watch_state *state, uint32_t comm, uint64_t number);

/* Whether the rank has answered at that time or later, so that its state is a present one. If not,
 * it shall be asked. */
bool gyre_audit_confirmed(struct gyre_call_audit *audit, uint32_t rank, uint64_t since);

/* " of communicator 3"; nothing for the world. */
const char *gyre_audit_name_comm(uint32_t comm, char out[GYRE_AUDIT_COMM]);

/* The place of the first waiting rank under that number in the hash table, or an empty place for
 * it. */
uint32_t *gyre_audit_slot(struct gyre_call_audit *audit, uint32_t comm, uint64_t number);

/* The first waiting rank under that number. Enters `rank` if there is none yet. */
uint32_t gyre_audit_first_under(struct gyre_call_audit *audit, uint32_t rank, uint64_t number);

/* The verb for a refusal: "refused", or "could not call:" where the reason does not begin with the
 * name of a call. */
const char *gyre_audit_verb(const struct gyre_watch_refused *refused);

/* Adds to the text the call that the rank has refused in that communicator and not made since. */
void gyre_audit_add_refusal(const struct gyre_watch_state *state,
                            struct gyre_audit_finding *finding);

/* -- questions: true, or an outcome, where there is something to tell -------------------------- */

bool gyre_audit_find_mismatch(struct gyre_call_audit *audit, struct gyre_audit_finding *finding);
bool gyre_audit_find_departed(struct gyre_call_audit *audit, struct gyre_audit_finding *finding);
bool gyre_audit_find_standstill(struct gyre_call_audit *audit, uint64_t clock,
                                struct gyre_audit_finding *finding);
bool gyre_audit_find_left(struct gyre_call_audit *audit, struct gyre_audit_finding *finding);
bool gyre_audit_find_refused(struct gyre_call_audit *audit, uint64_t clock,
                             struct gyre_audit_finding *finding);
void gyre_audit_find_wait(struct gyre_call_audit *audit, uint64_t clock,
                          struct gyre_audit_finding *finding);

#endif
