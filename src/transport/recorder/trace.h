/* A rank's trace, to write: every operation, and every step of every lane, with its times.
 *
 * GYRE_TRACE asks for it. Nothing on an operation's way allocates, locks or enters the kernel: an
 * event is one line of a mapped file. Whoever owns the domain writes events. */
#ifndef GYRE_TRANSPORT_RECORDER_TRACE_H
#define GYRE_TRANSPORT_RECORDER_TRACE_H

#include "transport/recorder/event.h"
#include "transport/recorder/ticks.h"

#include <stddef.h>

struct gyre_trace {
    struct gyre_record_head *head;
    struct gyre_trace_event *ring;
    uint64_t number; /* of the last event */
    uint64_t mask;   /* places - 1 */
    uint64_t bytes;  /* of the mapping */
};

/* Makes the file "FOLDER/JOB-rank-N.gyretrace", whose events take at most `bytes`, FOLDER as in
 * GYRE_TRACE, and maps it. NULL: no trace is wanted, or a warning has told why there is none. */
struct gyre_trace *gyre_trace_create(const struct gyre_record_head *head, uint64_t bytes);
void gyre_trace_destroy(struct gyre_trace *trace); /* NULL allowed, as below */

/* Copy parts of the rank's own head: what beats change, and the tables of names. */
void gyre_trace_copy_beat(struct gyre_trace *trace, const struct gyre_record_head *head);
void gyre_trace_copy_tables(struct gyre_trace *trace, const struct gyre_record_head *head);

/* Writes an event, and returns its number. The line of a later event is fetched meanwhile: a line
 * that is not in a cache would hold up all later writes, those that other ranks wait for too. */
static inline uint64_t gyre_trace_put(struct gyre_trace *trace, const struct gyre_trace_event *what)
{
    uint64_t number = ++trace->number;
    struct gyre_trace_event *event = &trace->ring[number & trace->mask];
    atomic_store_explicit(&event->number, 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    event->begin = what->begin;
    event->end = what->end;
    event->sequence = what->sequence;
    event->signature = what->signature;
    event->size = what->size;
    event->comm = what->comm;
    event->peer = what->peer;
    event->slice = what->slice;
    event->round = what->round;
    event->way = what->way;
    event->lane = what->lane;
    event->kind = what->kind;
    atomic_store_explicit(&event->number, number, memory_order_release);
    __builtin_prefetch(&trace->ring[(number + 2) & trace->mask], 1);
    return number;
}

/* The event of a number; NULL: it has been written over. */
static inline struct gyre_trace_event *gyre_trace_at(struct gyre_trace *trace, uint64_t number)
{
    struct gyre_trace_event *event = &trace->ring[number & trace->mask];
    bool there = number && atomic_load_explicit(&event->number, memory_order_relaxed) == number;
    return there ? event : NULL;
}

/* Moves the beginning of an event that has not ended. */
static inline void gyre_trace_begin(struct gyre_trace *trace, uint64_t number, uint64_t begin)
{
    struct gyre_trace_event *event = gyre_trace_at(trace, number);
    if (event && !event->end)
        event->begin = begin;
}

static inline void gyre_trace_end(struct gyre_trace *trace, uint64_t number, uint64_t end)
{
    struct gyre_trace_event *event = gyre_trace_at(trace, number);
    if (event)
        event->end = end;
}

#endif
