/* Rank 0's call audit on its own, for tests: what ranks say, and what is found. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_WATCH_DETECT_AUDIT_RIG_H
#define GYRE_TESTS_UNIT_TRANSPORT_WATCH_DETECT_AUDIT_RIG_H

#include "base/clock.h"
#include "transport/stream/signature.h"
#include "transport/watch/detect/audit.h"
#include "rig/test.h"

#define PATIENCE   (10 * GYRE_SECOND)
#define DEAD       (8 * GYRE_SECOND)
#define STILL      (10 * GYRE_SECOND) /* DEAD and a quarter */
#define TIMEOUT    (60 * GYRE_SECOND)
#define LOOK_AGAIN (100 * GYRE_MS)
#define CHILD      (1u << 12 | 5) /* communicator 5 of ranks 1 and 2 */
#define MOST       4096u

static struct gyre_watch_state said[MOST]; /* each rank's last words */

/* A rank that has entered operation `sequence` and finished up to `finished`. */
static inline struct gyre_watch_state doing(uint32_t rank, uint64_t sequence, uint64_t finished,
                                            uint64_t count)
{
    return (struct gyre_watch_state){
        .rank = rank,
        .comm = 0,
        .sequence = sequence,
        .finished = finished,
        .fingerprint = count * 31 + 7,
        .signature = gyre_signature_pack(GYRE_SIGNATURE_ALL_REDUCE, GYRE_F32, GYRE_SUM, 0),
        .count = count,
    };
}

static inline struct gyre_call_audit *audit_of(uint32_t n)
{
    struct gyre_call_audit *audit;

    const struct gyre_audit_limits limits = {PATIENCE, DEAD, TIMEOUT};

    assert_int_equal(gyre_audit_create(n, &limits, &audit), 0);
    for (uint32_t rank = 0; rank < MOST; rank++)
        said[rank] = (struct gyre_watch_state){.rank = rank};
    return audit;
}

static inline void hear(struct gyre_call_audit *audit, uint64_t clock,
                        struct gyre_watch_state state)
{
    gyre_audit_hear(audit, clock, &state);
    if (state.rank < MOST)
        said[state.rank] = state;
}

/* One judgement. Nobody answers what it asks. */
static inline struct gyre_audit_finding look(struct gyre_call_audit *audit, uint64_t clock)
{
    struct gyre_audit_finding finding;

    gyre_audit_judge(audit, clock, &finding);
    return finding;
}

/* Has each rank that is asked say its last words again. Returns how many are asked. */
static inline uint32_t answer(struct gyre_call_audit *audit, uint64_t clock)
{
    uint32_t asked = 0;

    for (uint32_t rank = 0; rank < MOST; rank++) {
        if (!gyre_audit_doubts(audit, rank))
            continue;
        asked++;
        gyre_audit_answer(audit, clock, &said[rank]);
    }
    return asked;
}

/* A judgement of ranks that answer at once what they are asked. */
static inline struct gyre_audit_finding call(struct gyre_call_audit *audit, uint64_t clock)
{
    struct gyre_audit_finding finding = look(audit, clock);

    return answer(audit, clock) > 0 ? look(audit, clock) : finding;
}

static inline struct gyre_watch_state in_child(struct gyre_watch_state state, uint64_t world)
{
    state.comm = CHILD;
    state.elsewhere_count = 1;
    state.elsewhere[0] = (struct gyre_watch_elsewhere){0, world, world};
    return state;
}

static inline struct gyre_watch_state also_in_child(struct gyre_watch_state state,
                                                    uint64_t sequence)
{
    state.elsewhere_count = 1;
    state.elsewhere[0] = (struct gyre_watch_elsewhere){CHILD, sequence, sequence};
    return state;
}

#endif
