/* The operations of a job's ranks, and the communicators that they belong to. */
#ifndef GYRE_CLI_TRACE_READING_CALLS_H
#define GYRE_CLI_TRACE_READING_CALLS_H

#include "cli/trace/reading/timeline.h"

/* The operations of one rank. */
struct gyre_rank_calls {
    const struct gyre_bar **call; /* in the order in which they were made; messages among them */
    uint32_t *comm;               /* its communicators by name, the world first */
    uint32_t calls, comms;
};

struct gyre_calls {
    const struct gyre_timeline *timeline;
    struct gyre_rank_calls *of; /* by place in the timeline */
};

int gyre_calls_read(struct gyre_calls *calls, const struct gyre_timeline *timeline,
                    struct gyre_trouble *trouble);
void gyre_calls_free(struct gyre_calls *calls);

/* Whether a rank is in a communicator, as its trace tells. */
bool gyre_calls_is_member(const struct gyre_rank_calls *rank, uint32_t comm);

/* The ranks of a communicator: as its members tell it, else those that have traces here. */
uint32_t gyre_calls_size(const struct gyre_calls *calls, uint32_t comm);

/* The elements of an operation's input and output on each of n ranks, those of a root for all. */
struct gyre_call_elements {
    uint64_t input, output;
};

struct gyre_call_elements gyre_calls_elements(const struct gyre_bar *call, uint32_t n);

#endif
