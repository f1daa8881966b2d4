/* What a rank remembers of its last operations, as it lies in memory: a head and a ring.
 *
 *     region   [ head, 8 KiB │ record 0 │ record 1 │ … │ record 4095 ]
 *
 * The ring of a further group of a process has 512 records.
 *
 * The region is a file without a name that only this rank writes. The node's peers map it, and
 * whoever may look into the process finds it among the process's descriptors. So a rank that was
 * killed leaves its records to its peers, or to the launcher that has made the file (place.h). */
#ifndef GYRE_TRANSPORT_RECORDER_RECORD_H
#define GYRE_TRANSPORT_RECORDER_RECORD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GYRE_RECORD_MAGIC    "gyrerec"
#define GYRE_RECORD_VERSION  2u
#define GYRE_RECORDS         4096u /* at most: a power of two, as each ring's number is */
#define GYRE_RECORDS_FEW     512u
#define GYRE_RECORD_COMMS    64u
#define GYRE_RECORD_WAYS     32u
#define GYRE_RECORD_NOBODY   UINT32_MAX
#define GYRE_RECORD_STORY    512
#define GYRE_RECORD_MESSAGES UINT32_MAX /* the communicator of messages from rank to rank */

/* One operation. `number` is written last, and 0 while the rest changes. */
struct gyre_call_record {
    alignas(64) _Atomic uint64_t number; /* of this rank's operations, from 1 */
    uint64_t sequence;                   /* in its communicator, equal on all ranks */
    uint64_t signature;                  /* verb, type, reduction, root */
    uint64_t count;
    uint64_t called, ended; /* ticks; ended 0: not yet */
    uint32_t comm;
    uint32_t begun;    /* ticks after the call, in units of 64, at least 1; 0: not yet */
    uint32_t waits_on; /* the last rank that was waited for in vain, or GYRE_RECORD_NOBODY */
    uint16_t way;      /* index in the head's ways */
    int16_t status;
};

_Static_assert(sizeof(struct gyre_call_record) == 64, "one record is one cache line");

/* The clocks of this machine, read together. */
struct gyre_record_clocks {
    uint64_t ticks, monotonic, wall;
};

struct gyre_record_comm {
    uint32_t name; /* as in the records */
    uint32_t n, rank;
    uint32_t made; /* 0: the place is free */
};

/* The thread that joined, since it began: on a core, and ready without one. */
struct gyre_record_thread {
    uint64_t at, ran_ns, delayed_ns; /* at: as clocks.monotonic */
};

enum gyre_record_state { GYRE_RECORD_RUNS, GYRE_RECORD_LEFT, GYRE_RECORD_FAILED };

struct gyre_record_head {
    char magic[8];
    uint32_t version, head_bytes, record_bytes, records;
    uint32_t rank, n, node, nodes;
    uint32_t pid, thread; /* the thread that joined */
    uint32_t epoch, counted;
    uint64_t started; /* of the process, as /proc tells it: a pid may be used again */
    uint8_t job[16];
    char host[64], program[32], name[64];
    struct gyre_record_clocks opened;

    /* Written by the watch's thread; `beat` is odd while it writes. */
    _Atomic uint32_t beat;
    uint32_t state;
    struct gyre_record_clocks now;
    struct gyre_record_thread thread_now;
    /* And before: the second is 10 to 20 s old, or as old as the records. */
    struct gyre_record_thread thread_between, thread_before;
    int32_t status;
    uint32_t failed_rank;
    char story[GYRE_RECORD_STORY];

    struct gyre_record_comm comm[GYRE_RECORD_COMMS];
    char way[GYRE_RECORD_WAYS][24];
};

#define GYRE_RECORD_HEAD_BYTES 8192u

/* Bytes of a region with so many records. */
static inline size_t gyre_record_bytes(uint32_t records)
{
    return GYRE_RECORD_HEAD_BYTES + records * sizeof(struct gyre_call_record);
}

/* Whether a ring may have so many. */
static inline bool gyre_record_number_fits(uint32_t records)
{
    return records > 0 && records <= GYRE_RECORDS && (records & (records - 1)) == 0;
}

_Static_assert(sizeof(struct gyre_record_head) <= GYRE_RECORD_HEAD_BYTES, "the head has its room");

#endif
