/* The records of the ranks of one job, read from dumps or from the processes that write them. */
#ifndef GYRE_CLI_WHY_TRAIL_H
#define GYRE_CLI_WHY_TRAIL_H

#include "base/status.h"
#include "transport/recorder/record.h"

#include <stdbool.h>
#include <stdio.h>

#define GYRE_TRAILS_MAX 4096u
#define GYRE_TRAIL_NONE UINT32_MAX

/* One rank's records. */
struct gyre_trail {
    struct gyre_record_head head;
    struct gyre_call_record *record; /* by number, the oldest first */
    uint32_t records;
    bool living;  /* read from its process */
    bool stopped; /* by a signal, or by a debugger */
    bool ready;   /* a thread of it runs, or waits for a core */
};

struct gyre_trails {
    struct gyre_trail *of; /* by rank; some may be missing */
    uint32_t count, n;     /* read; and in the job */
    uint32_t torn, others; /* files that were refused, or are another job's */
    bool living;
    uint64_t at;     /* the wall clock's time of the newest word; of a living job: now */
    uint64_t beaten; /* of the newest beat */
    char text[256];  /* the first thing that was wrong with the files */
};

/* The trail of a rank; NULL: none was read. */
const struct gyre_trail *gyre_trail_of(const struct gyre_trails *trails, uint32_t rank);

/* The record of a rank's call in a communicator; NULL: there is none. */
const struct gyre_call_record *gyre_trail_call(const struct gyre_trail *trail, uint32_t comm,
                                               uint64_t sequence);

/* The rank's first record that has not ended, and its last of all; NULL: there is none. */
const struct gyre_call_record *gyre_trail_pending(const struct gyre_trail *trail);
const struct gyre_call_record *gyre_trail_last(const struct gyre_trail *trail);

/* Reads records from a file. Returns what is wrong with it; NULL: nothing. */
const char *gyre_trail_open(int fd, struct gyre_trail *trail);

/* The wall clock's time of a rank's ticks, in nanoseconds. */
uint64_t gyre_trail_time(const struct gyre_trail *trail, uint64_t ticks);

/* The bytes of one block of an operation. */
uint64_t gyre_trail_bytes(const struct gyre_call_record *record);

/* The words of an operation: "all_reduce f32 sum, 1000 elements". */
void gyre_trail_text(char *out, size_t room, const struct gyre_call_record *record);

#endif
