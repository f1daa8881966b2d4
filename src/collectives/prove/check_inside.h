/* The checker's own parts, shared by its files: check.c (the whole), check_form.c (what a round may
 * look like), check_move.c (what it moves) and check_end.c (what it comes to). Nobody else includes
 * this. */
#ifndef GYRE_COLLECTIVES_PROVE_CHECK_INSIDE_H
#define GYRE_COLLECTIVES_PROVE_CHECK_INSIDE_H

#include "base/status.h"
#include "collectives/prove/provenance.h"
#include "collectives/schedule/schedule.h"

struct gyre_actor {
    struct gyre_slice slice;
    bool aliased;  /* INPUT and OUTPUT may be one memory: */
    int64_t shift; /* INPUT + x is then OUTPUT + x + shift */
    struct gyre_extent extent;
    struct gyre_round round;
    struct gyre_stretches output, scratch;
    uint64_t sent, scratch_used;
};

/* One read or write of a step. */
struct gyre_access {
    uint32_t step;
    enum gyre_buffer buffer; /* INPUT that may be OUTPUT counts as OUTPUT, */
    int64_t start, end;      /* so these may lie before its start */
    bool write;
    bool input; /* INPUT is read */
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
    struct gyre_stretches loose; /* what one step reads, each source from 0 on */
    struct gyre_stretches sum;   /* what a REDUCE writes */
    size_t *cursor; /* per source of a REDUCE: its stretch in `loose`; one more marks the end */
    uint32_t *term;
    struct gyre_access *access; /* room for those of a round */
};

/* Each tells the first defect and returns GYRE_INVALID. */
int gyre_check_fail_rank(const struct gyre_checker *c, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int gyre_check_fail_step(const struct gyre_checker *c, const struct gyre_actor *a,
                         const struct gyre_step *step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Of one rank in the round in work, in this order; the round is built. All return 0 or the status
 * told. */
int gyre_check_steps(struct gyre_checker *c, struct gyre_actor *a); /* each step alone */
int gyre_check_messages(struct gyre_checker *c,
                        struct gyre_actor *a); /* against its peers; all ranks are built */
int gyre_check_apart(struct gyre_checker *c,
                     struct gyre_actor *a); /* its steps against each other */
int gyre_check_move(struct gyre_checker *c,
                    struct gyre_actor *a); /* what it writes; all ranks are checked */

/* At the end. */
int gyre_check_output(struct gyre_checker *c, struct gyre_actor *a); /* is it the result? */
int gyre_check_promises(struct gyre_checker *c);                     /* bytes sent, SCRATCH */

/* The only message of that kind with `peer` in this round, NULL and a count other than 1 if there
 * is not just one. */
const struct gyre_step *gyre_check_find(const struct gyre_actor *a, enum gyre_step_kind kind,
                                        uint32_t peer, uint32_t *count);

#endif
