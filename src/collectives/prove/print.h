/* Prints a schedule for people and for programs: the table of `gyre show`, the same as JSON, and
 * the buffers of a play. */
#ifndef GYRE_COLLECTIVES_PROVE_PRINT_H
#define GYRE_COLLECTIVES_PROVE_PRINT_H

#include "collectives/prove/play.h"
#include "collectives/schedule/schedule.h"

#include <stdio.h>

/* The ranks to show: from … to - 1. */
struct gyre_print_ranks {
    uint32_t from, to;
};

/* Prints two lines: the operation with its algorithm, and the algorithm's summary. */
void gyre_print_title(FILE *out, const struct gyre_algorithm *algorithm,
                      const struct gyre_slice *slice);

/* Print the steps of each of these ranks, round by round; the slice's rank is ignored. A round in
 * which a rank does nothing is left out of the table and is an empty array in the JSON, which is
 * one object and ends with a newline. 0 or -ENOMEM. */
int gyre_print_table(FILE *out, const struct gyre_algorithm *algorithm,
                     const struct gyre_slice *slice, struct gyre_print_ranks ranks);
int gyre_print_json(FILE *out, const struct gyre_algorithm *algorithm,
                    const struct gyre_slice *slice, struct gyre_print_ranks ranks);

/* Print what the ranks hold, a line each: their INPUT; or their present OUTPUT and, where there is
 * any, SCRATCH. A dot stands for an unwritten element, a dash for a buffer that a rank lacks, a bar
 * before a block. */
void gyre_print_inputs(FILE *out, const struct gyre_play *play, struct gyre_print_ranks ranks);
void gyre_print_buffers(FILE *out, const struct gyre_play *play, struct gyre_print_ranks ranks);

#endif
