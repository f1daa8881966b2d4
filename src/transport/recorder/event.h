/* A trace is a file that holds a head and a ring of events.
 *
 *     file   [ head, 8 KiB │ event 0 │ event 1 │ … ]
 *
 * The head is struct gyre_record_head with another magic; `records` there is the number of places,
 * a power of two. Event k lies at place k modulo that number, so the newest events are kept. The
 * file is mapped from the start: what a killed rank has written is there. */
#ifndef GYRE_TRANSPORT_RECORDER_EVENT_H
#define GYRE_TRANSPORT_RECORDER_EVENT_H

#include "transport/recorder/record.h"

#define GYRE_TRACE_MAGIC       "gyretrc"
#define GYRE_TRACE_VERSION     1u
#define GYRE_TRACE_BYTES       (UINT64_C(16) << 20) /* of events, by default */
#define GYRE_TRACE_BYTES_LEAST (UINT64_C(64) << 10)
#define GYRE_TRACE_BYTES_MOST  (UINT64_C(4) << 30)

/* An event is an operation, or one step of it in a lane. */
enum gyre_event_kind {
    GYRE_EVENT_CALL,
    GYRE_EVENT_SEND,
    GYRE_EVENT_RECV,
    GYRE_EVENT_FOLD,
    GYRE_EVENT_COPY,
    GYRE_EVENT_KINDS
};

#define GYRE_EVENT_MAPPED 255u /* in place of a lane: a turn on shared memory */

/* One event. `number` is written last, and 0 while the rest changes. */
struct gyre_trace_event {
    alignas(64) _Atomic uint64_t number; /* of this rank's events, from 1 */
    uint64_t begin, end;                 /* ticks; end 0: not yet */
    uint64_t sequence, signature;        /* of the operation, as in its record */
    uint64_t size;                       /* of a call: elements; of a step: bytes */
    uint32_t comm;                       /* of the operation, as in its record */
    uint32_t peer;                       /* the other rank of a message, or whom a call awaits */
    uint16_t slice, round;               /* of a step, as the match of its message has them */
    uint16_t way;                        /* index in the head's ways */
    uint8_t lane, kind;
};

_Static_assert(sizeof(struct gyre_trace_event) == 64, "one event is one cache line");

#endif
