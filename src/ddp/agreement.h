/* What ranks make known to each other, for all to decide alike: a failure of one of them, and
 * texts in which they should not differ. All calls are collective. */
#ifndef GYRE_DDP_AGREEMENT_H
#define GYRE_DDP_AGREEMENT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Is `status` 0 on all ranks? Otherwise the failure of the lowest rank that has one becomes
 * everybody's: its status is returned, its text stands in *trouble, and *culprit is its rank; -1
 * where the communicator itself failed. */
int gyre_agree(struct gyre_comm *comm, int status, struct gyre_trouble *trouble, int *culprit);

/* A text that grows line by line; begins as zeros. */
struct gyre_lines {
    char *text; /* to be freed; NULL: empty */
    size_t length, room;
    bool lost; /* there was no memory */
};

/* Appends as printf does. Each line ends in "\n". */
void gyre_lines_put(struct gyre_lines *lines, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct gyre_lines_side {
    int rank;
    char host[64];
    char *text; /* its lines */
};

/* How the lines of ranks differ; equal on all ranks. */
struct gyre_difference {
    int ranks;                      /* that differ from rank 0; 0: none does, and all else is 0 */
    struct gyre_lines_side side[2]; /* rank 0, and the lowest rank that differs from it */
};

/* Compares the lines of all ranks. *difference is to be freed, also zeroed. A failure without a
 * text in *trouble is the communicator's. */
int gyre_lines_compare(struct gyre_comm *comm, const struct gyre_lines *lines,
                       struct gyre_difference *difference, struct gyre_trouble *trouble);
void gyre_difference_free(struct gyre_difference *difference);

/* Have all ranks the same lines, none of them lost? Otherwise GYRE_MISMATCH with the first
 * difference of the lowest rank: "rank 2 has … where rank 0 has … (1 of 3 ranks differ from rank
 * 0)". A failure without a text in *trouble is the communicator's. */
int gyre_agree_on_lines(struct gyre_comm *comm, const struct gyre_lines *lines,
                        struct gyre_trouble *trouble);

#endif
