/* What the records of a job's ranks mean. */
#ifndef GYRE_CLI_WHY_FINDING_H
#define GYRE_CLI_WHY_FINDING_H

#include "cli/why/links.h"
#include "cli/why/trail.h"

enum gyre_why_kind {
    GYRE_WHY_NOTHING,  /* all is well, or all have left */
    GYRE_WHY_KILLED,   /* the rank's process has ended */
    GYRE_WHY_STOPPED,  /* the process exists and does not run */
    GYRE_WHY_COUNT,    /* the rank made the call with another count */
    GYRE_WHY_ORDER,    /* the rank made another call in its place */
    GYRE_WHY_MISMATCH, /* ranks disagree about a call, and records of one are missing */
    GYRE_WHY_MISSING,  /* the rank has not made the call */
    GYRE_WHY_CORE,     /* the rank comes late, and waits for a core */
    GYRE_WHY_LATE,     /* the rank comes late: it computes longer */
    GYRE_WHY_LINK,     /* all come in time, and wait for what the rank sends, or receives */
    GYRE_WHY_FAILED,   /* the job failed for another reason: its story tells */
    GYRE_WHY_KINDS
};

struct gyre_finding {
    enum gyre_why_kind kind;
    uint32_t rank; /* GYRE_TRAIL_NONE: none in particular */
    uint32_t comm;
    uint64_t sequence;                     /* of the call; 0: none in particular */
    const struct gyre_call_record *wanted; /* as the others made it; NULL: unknown */
    const struct gyre_call_record *made;   /* as the rank made it; NULL: it has not */
    uint64_t since;                        /* the wall clock's time; 0: unknown */
    uint32_t waiting;                      /* ranks that wait in it */
    double late_ns;                        /* how late the rank comes to each call */
    double running_ns, period_ns;          /* a call once all have come; from call to call */
    double delayed;                        /* of the time it wants a core, without one */
    struct gyre_slow_link link;            /* of a slow link; busy 0: the calls tell, not sockets */
    uint32_t calls;                        /* that were compared */
    bool unsettled;                        /* a call waits: soon more will be known */
    const char *story;                     /* the job's, where it failed */
};

#endif
