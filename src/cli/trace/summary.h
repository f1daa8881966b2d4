/* The table sums a timeline up: what each rank did, and for how long. */
#ifndef GYRE_CLI_TRACE_SUMMARY_H
#define GYRE_CLI_TRACE_SUMMARY_H

#include "cli/trace/reading/timeline.h"

#include <stdio.h>

/* The time that a rank's steps have taken, in nanoseconds; lanes beside each other add up. */
struct gyre_rank_sums {
    int64_t calls, wire, fold, wait;
    uint64_t messages, bytes; /* sent */
    uint32_t called;
};

void gyre_rank_sum(const struct gyre_timeline_rank *rank, struct gyre_rank_sums *sums);

void gyre_summary_print(FILE *out, const struct gyre_timeline *timeline);

#endif
