/* What streams hold, shared by those who post and the threads that do it. */
#ifndef GYRE_TESTS_STAND_IN_FAKECUDA_FAKE_WORK_H
#define GYRE_TESTS_STAND_IN_FAKECUDA_FAKE_WORK_H

#include "fake_parts.h"

enum { ARGUMENTS = 8, ARGUMENT_BYTES = 4096 };

/* VALUE waits for a word, WRITE writes one. */
enum job_kind { COPY, SET, KERNEL, RECORD, WAIT, VALUE, WRITE };

/* What carries a copy. Copies inside a device need none. */
enum engine { NO_ENGINE, TO_DEVICE, FROM_DEVICE, BETWEEN_DEVICES };

struct job {
    enum job_kind kind;
    enum engine engine;
    struct job *next;
    uint64_t to, from, length, number;
    bool between;     /* a copy that names both devices */
    int into, out_of; /* which they are */
    uint64_t turn;    /* of all posts */
    unsigned char value;
    CUevent event;
    const void *function;
    dim3 grid, block;
    size_t shared_bytes;
    void *argument[ARGUMENTS];
    char bytes[ARGUMENT_BYTES]; /* what the arguments point to; 16-byte places */
};

struct CUstream_st {
    int device, priority;
    bool busy, destroyed, captured;
    bool spoiled;             /* what is captured: a call that may be unsafe was made meanwhile */
    CUstreamCaptureMode mode; /* a capture in the relaxed mode bears them all */
    uint64_t turn;            /* of what it is busy with */
    struct job *first, **last;
    unsigned queued; /* jobs */
    CUgraph graph;   /* what is captured is recorded there; NULL: dropped */
    struct CUstream_st *next;
};

/* A graph: jobs in the order of one stream. */
struct CUgraph_st {
    struct job *first, **last;
};

struct CUgraphExec_st {
    CUgraph graph; /* its own copy */
};

struct CUevent_st {
    int device;
    int references;   /* jobs, and the application until it destroys the event */
    uint64_t asked;   /* number of the last record */
    uint64_t reached; /* all records up to it have been reached, */
    uint64_t beyond;  /* and of the 64 behind it those with a bit: they may be on other streams */
    CUevent next;
};

/* Whether a record has been reached. A wait is for the record before it alone. */
static inline bool fake_event_reached(const struct CUevent_st *event, uint64_t number)
{
    const uint64_t ahead = number - event->reached - 1;
    return number <= event->reached || (ahead < 64 && event->beyond >> ahead & 1);
}

void fake_event_reach(struct CUevent_st *event, uint64_t number);

/* All with the lock held. */
bool fake_alive(CUstream stream);
CUstream fake_named(CUstream stream); /* the default stream that a name stands for */
/* Puts a copy of the job behind what is on the stream; waits where the driver would. */
CUresult fake_post(CUstream stream, const struct job *job);
CUresult fake_record(CUgraph graph, const struct job *job); /* the same into a graph */
void fake_drop_event(CUevent event);                        /* one reference */
void fake_remove_ended(struct CUctx_st *device);            /* destroyed streams that are empty */
extern CUevent fake_events; /* so that one which nobody destroys is no leak of the stand-in */

#endif
