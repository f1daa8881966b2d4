/* The checker's inside, for its files only:
 *
 *     check.c         the entry: all of a proof
 *     proof.c         round by round, then the end
 *     check_form.c    the form of a round
 *     check_move.c    the values that a round moves
 *     check_end.c     the results of a schedule
 *     check_tell.c    messages about a defect
 *     provenance.c    where bytes come from */
#ifndef GYRE_COLLECTIVES_PROVE_CHECK_INSIDE_H
#define GYRE_COLLECTIVES_PROVE_CHECK_INSIDE_H

#include "base/status.h"
#include "collectives/prove/provenance.h"
#include "collectives/schedule/schedule.h"

struct gyre_actor {
    struct gyre_slice slice;
    bool aliased;  /* whether INPUT and OUTPUT may be one memory */
    int64_t shift; /* in one memory INPUT + x is OUTPUT + x + shift */
    struct gyre_extent extent;
    struct gyre_round round;
    struct gyre_stretches output, scratch;
    uint64_t sent, scratch_used;
};

/* One read or write of a step. */
struct gyre_access {
    uint32_t step;
    enum gyre_buffer buffer; /* INPUT that may be OUTPUT counts as OUTPUT */
    int64_t start, end;      /* INPUT may begin below OUTPUT, so below 0 */
    bool write;
    bool input; /* reads INPUT */
    bool idle;  /* the write of a COPY from INPUT to the same place of OUTPUT: in place, nothing */
};

struct gyre_checker {
    const struct gyre_algorithm *algorithm;
    struct gyre_trouble *trouble;
    uint32_t n;
    uint64_t index; /* of the round in work */
    bool last_round_used;
    uint64_t rounds_used;
    struct gyre_actor *actor;
    struct gyre_value_book book;
    struct gyre_stretches loose; /* what one step reads, each source counted from 0 */
    struct gyre_stretches sum;   /* what a REDUCE writes */
    size_t *cursor; /* per source of a REDUCE: its stretch in `loose`; one more marks the end */
    uint32_t *term;
    struct gyre_access *access; /* room for the accesses of a round */
};

/* Tell the first defect and return GYRE_INVALID. */
int gyre_check_fail_rank(const struct gyre_checker *c, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int gyre_check_fail_step(const struct gyre_checker *c, const struct gyre_actor *a,
                         const struct gyre_step *step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The checks of one rank in the round in work, in this order. Each returns 0 or the status of a
 * defect. */

/* Checks each step alone. The rank's round is built. */
int gyre_check_steps(struct gyre_checker *c, struct gyre_actor *a);

/* Checks messages against those of the peers. All ranks' rounds are built. */
int gyre_check_messages(struct gyre_checker *c, struct gyre_actor *a);

/* Checks the rank's steps against each other. */
int gyre_check_apart(struct gyre_checker *c, struct gyre_actor *a);

/* Moves the values of the rank's steps. All ranks are checked. */
int gyre_check_move(struct gyre_checker *c, struct gyre_actor *a);

/* Checks at the end that OUTPUT holds the result. */
int gyre_check_output(struct gyre_checker *c, struct gyre_actor *a);

/* Checks at the end the bytes sent and the SCRATCH used against the promises. */
int gyre_check_promises(struct gyre_checker *c);

/* Finds the message of that kind with `peer` in this round. *count becomes the number of such
 * messages. */
const struct gyre_step *gyre_check_find(const struct gyre_actor *a, enum gyre_step_kind kind,
                                        uint32_t peer, uint32_t *count);

#endif
