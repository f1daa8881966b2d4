/* Rank 0's call audit: every rank's last state, and what follows from all of them.
 *
 * The audit is pure. Times are the failure detector's own clock. */
#ifndef GYRE_TRANSPORT_WATCH_DETECT_AUDIT_H
#define GYRE_TRANSPORT_WATCH_DETECT_AUDIT_H

#include "transport/watch/detect/message.h"

#include <stdbool.h>

struct gyre_call_audit;

enum gyre_audit_outcome {
    GYRE_AUDIT_FINE,
    /* Calls differ under one number; or all ranks stand still under different ones; or a rank
     * refused a call that others made. */
    GYRE_AUDIT_MISMATCH,
    GYRE_AUDIT_LEFT, /* others wait for a rank in its gyre_finalize(): the text follows its name */
    GYRE_AUDIT_SLOW, /* a rank has waited long for ranks that have not joined; told once */
    GYRE_AUDIT_TIMED_OUT /* a rank has waited longer than `timeout_ns` */
};

struct gyre_audit_finding {
    enum gyre_audit_outcome outcome;
    uint32_t comm;
    uint64_t sequence; /* the operation */
    uint32_t rank;     /* the only missing rank; UINT32_MAX: several, or none */
    char text[GYRE_WATCH_TEXT_MAX];
};

/* Durations; 0 in the last two: no limit. */
struct gyre_audit_limits {
    uint64_t patience_ns; /* before ranks that have not joined an operation are named */
    /* Of a silent rank. All wait, in operations of different numbers, and nothing moves for a
     * quarter longer: they stand still. Half of this: a refused call that others wait in is due. */
    uint64_t dead_ns;
    uint64_t timeout_ns; /* of one operation */
};

int gyre_audit_create(uint32_t n, const struct gyre_audit_limits *limits,
                      struct gyre_call_audit **audit);
void gyre_audit_destroy(struct gyre_call_audit *audit);

/* Takes a rank's state. States of ranks ≥ n are ignored. */
void gyre_audit_hear(struct gyre_call_audit *audit, uint64_t clock,
                     const struct gyre_watch_state *state);

/* Takes a rank's state that is a present one: its answer to a question, or rank 0's own. */
void gyre_audit_answer(struct gyre_call_audit *audit, uint64_t clock,
                       const struct gyre_watch_state *state);

/* Whether a finding waits for the rank's answer: it shall be asked what it does by now. */
bool gyre_audit_doubts(const struct gyre_call_audit *audit, uint32_t rank);

/* Looks for the worst finding, if something has changed or a limit has passed. Takes O(n). */
void gyre_audit_judge(struct gyre_call_audit *audit, uint64_t clock,
                      struct gyre_audit_finding *finding);

/* Writes how far the rank is in that communicator. False: the state does not tell. */
bool gyre_audit_progress(const struct gyre_watch_state *state, uint32_t comm, uint64_t *sequence,
                         uint64_t *finished);

/* Writes the first difference of two ranks' last calls, as far as their states remember. The ranks
 * are in operations of one number and different fingerprints. */
void gyre_audit_tell(const struct gyre_watch_state *one, const struct gyre_watch_state *two,
                     struct gyre_audit_finding *finding);

/* Compares the last states of two ranks, as gyre_audit_tell(). False: the states do not tell how
 * the ranks differ. */
bool gyre_audit_compare(const struct gyre_call_audit *audit, uint32_t one, uint32_t two,
                        struct gyre_audit_finding *finding);

/* Two ranks part after different numbers of operations of a communicator: one has called that
 * operation and is `how` in it, the other has left. The finding is GYRE_AUDIT_LEFT. */
struct gyre_audit_early_leave {
    const struct gyre_watch_state *behind, *ahead;
    uint32_t comm;
    uint64_t number;
    const char *how;
};
void gyre_audit_tell_left(const struct gyre_audit_early_leave *parted,
                          struct gyre_audit_finding *finding);

/* Whether the rank waits in that operation, or in an earlier one with that one started. */
bool gyre_audit_waits(const struct gyre_call_audit *audit, uint32_t rank, uint32_t comm,
                      uint64_t sequence);
bool gyre_audit_state_waits(const struct gyre_watch_state *state, uint32_t comm, uint64_t sequence);

#endif
