/* What `gyre show` was asked, shared by its files. */
#ifndef GYRE_CLI_SHOW_QUESTION_H
#define GYRE_CLI_SHOW_QUESTION_H

#include "cli/flags.h"
#include "collectives/prove/print.h"

#define GYRE_SHOW_RUN_MAX 64 /* ranks and elements whose numbers still fit a screen */

#define GYRE_SHOW_COUNTS_MAX 256

enum {
    ALGO,
    RANKS,
    NODES,
    COUNT,
    COUNTS,
    TYPE_BYTES,
    ROOT,
    RANK,
    JSON,
    RUN,
    CHECK,
    HTML,
    BESIDE,
    IN_PLACE,
    HELP,
    FLAGS
};

extern const struct gyre_flag gyre_show_flags[FLAGS];

struct gyre_show_question {
    const char *word[FLAGS]; /* what was given */
    const struct gyre_algorithm *algorithm;
    const struct gyre_algorithm *beside; /* of --beside, or NULL */
    struct gyre_slice slice;
    struct gyre_print_ranks ranks;
    struct gyre_layout *layout;                                      /* of --nodes */
    uint64_t at[GYRE_SHOW_COUNTS_MAX], length[GYRE_SHOW_COUNTS_MAX]; /* of --counts */
};

/* Finds what the words mean and fills in the rest; the operation is set. 0, or GYRE_INVALID and the
 * story. Either way gyre_show_forget() ends it. */
int gyre_show_settle(struct gyre_show_question *question, struct gyre_trouble *trouble);
void gyre_show_forget(struct gyre_show_question *question);

/* --check: proves the schedules that the question names, with corners of the count and every root.
 * 0; GYRE_CORRUPT with the first defect, naming rank, round and step; or -ENOMEM. */
int gyre_show_check(const struct gyre_show_question *question, struct gyre_trouble *trouble);

/* --run: plays the schedule, prints every buffer after every round, and compares the end with what
 * it should be. */
int gyre_show_run(const struct gyre_show_question *question, struct gyre_trouble *trouble);

/* --html: writes the page that plays the schedule, and the one of --beside, in a browser. */
int gyre_show_html(const struct gyre_show_question *question, struct gyre_trouble *trouble);

#endif
