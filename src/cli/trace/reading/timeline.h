/* A timeline holds what the ranks of a job did, read from their traces, as bars in time. */
#ifndef GYRE_CLI_TRACE_READING_TIMELINE_H
#define GYRE_CLI_TRACE_READING_TIMELINE_H

#include "base/status.h"
#include "transport/recorder/event.h"

#include <stdbool.h>
#include <stddef.h>

#define GYRE_TIMELINE_RANKS 4096u

/* An event with its times, in nanoseconds, on the clock that all ranks share. */
struct gyre_bar {
    int64_t begin, end;
    int64_t moves_at; /* of a message: when both ends had begun; else the same as begin */
    uint64_t number, sequence, signature, size;
    struct gyre_bar *other; /* the other end of the message; NULL: not found */
    uint32_t comm, peer;
    uint32_t rank;  /* whose bar it is: index in the timeline */
    uint32_t track; /* index in the rank's tracks */
    uint16_t slice, round, way;
    uint8_t lane, kind;
    bool open; /* it has not ended: `end` is the time of the rank's last word */
};

/* A row of bars that do not overlap. */
struct gyre_track {
    uint32_t comm;
    uint16_t lane, row; /* row: beside others of the same name */
    bool calls;
};

struct gyre_timeline_rank {
    struct gyre_record_head head;
    struct gyre_bar *bar; /* after gyre_tracks_lay(): by track, then by time */
    uint32_t bars;
    uint64_t lost; /* events that were written over */
    struct gyre_track *track;
    uint32_t tracks;
    uint32_t host; /* index of the first rank of the same host */
    bool torn;     /* the file ends early */
};

struct gyre_timeline {
    struct gyre_timeline_rank *of; /* by rank; some may be missing */
    uint32_t count, n;             /* read; and in the job */
    uint32_t refused, others;      /* files that cannot be used, or are another job's */
    uint32_t hosts, unaligned;     /* hosts; and those whose clock is their own */
    int64_t error;                 /* of the clocks of different hosts, in nanoseconds */
    int64_t begin, end;            /* of all bars */
    char text[256];                /* the first thing that was wrong with the files */
};

static inline bool gyre_bar_is_message(const struct gyre_bar *bar)
{
    return bar->kind == GYRE_EVENT_SEND || bar->kind == GYRE_EVENT_RECV;
}

#endif
