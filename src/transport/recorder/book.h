/* A rank's records, to write: the memory, its tables, and one operation after the other.
 *
 * Nothing here allocates, locks or enters the kernel. Whoever owns the domain writes. */
#ifndef GYRE_TRANSPORT_RECORDER_BOOK_H
#define GYRE_TRANSPORT_RECORDER_BOOK_H

#include "device/device.h"
#include "transport/recorder/record.h"
#include "transport/recorder/ticks.h"
#include "transport/recorder/trace.h"

#include <stddef.h>

/* The first ways; more are added by name. */
enum gyre_record_way {
    GYRE_BY_ROUNDS,
    GYRE_BY_EXCHANGE,
    GYRE_BY_PUSH,
    GYRE_BY_BLOCKS,
    GYRE_BY_MESSAGE,
    GYRE_BY_FIRST_NAMED
};

#define GYRE_RECORDER_PATH 1024

struct gyre_recorder {
    struct gyre_record_head *head;
    struct gyre_call_record *ring;
    uint64_t number;          /* of the last record */
    uint64_t last;            /* place of the ring */
    struct gyre_trace *trace; /* NULL: none is written */
    const char *way_name[GYRE_RECORD_WAYS];
    uint32_t ways;
    uint64_t beat_at;
    char path[GYRE_RECORDER_PATH]; /* of the dump; empty: none is wanted */
    struct gyre_region region;
};

/* Notes a communicator of n ranks, in which this rank is `rank`; and its end. */
void gyre_recorder_note_comm(struct gyre_recorder *recorder, uint32_t name, uint32_t n,
                             uint32_t rank);
void gyre_recorder_drop_comm(struct gyre_recorder *recorder, uint32_t name);

/* The number of a way by its name, which lives for ever. */
uint16_t gyre_recorder_add_way(struct gyre_recorder *recorder, const char *name);
static inline uint16_t gyre_recorder_way(struct gyre_recorder *recorder, const char *name)
{
    for (uint32_t i = GYRE_BY_FIRST_NAMED; recorder && i < recorder->ways; i++)
        if (recorder->way_name[i] == name)
            return (uint16_t)i;
    return recorder ? gyre_recorder_add_way(recorder, name) : 0;
}

/* -- an operation ------------------------------------------------------------------------------ */

/* A record, as long as its place has not been used again. */
struct gyre_record_place {
    struct gyre_call_record *at; /* NULL: none */
    uint64_t number;
    struct gyre_trace *trace; /* NULL: none is written */
    uint64_t event;           /* of the trace: the call */
};

struct gyre_record_call {
    uint64_t sequence, signature, count;
    uint32_t comm;
    uint16_t way;
};

/* Writes a call into the trace. */
static inline uint64_t gyre_record_trace_call(struct gyre_trace *trace,
                                              const struct gyre_record_call *call, uint64_t called)
{
    const struct gyre_trace_event event = {.begin = called,
                                           .sequence = call->sequence,
                                           .signature = call->signature,
                                           .size = call->count,
                                           .comm = call->comm,
                                           .peer = GYRE_RECORD_NOBODY,
                                           .way = call->way,
                                           .kind = GYRE_EVENT_CALL};
    return gyre_trace_put(trace, &event);
}

static inline struct gyre_record_place gyre_record_call(struct gyre_recorder *recorder,
                                                        const struct gyre_record_call *call)
{
    struct gyre_record_place place = {0};
    if (!recorder)
        return place;
    place.number = ++recorder->number;
    place.at = &recorder->ring[place.number & recorder->last];
    atomic_store_explicit(&place.at->number, 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    place.at->sequence = call->sequence;
    place.at->signature = call->signature;
    place.at->count = call->count;
    place.at->called = gyre_ticks();
    place.at->ended = 0;
    place.at->comm = call->comm;
    place.at->begun = 0;
    place.at->waits_on = GYRE_RECORD_NOBODY;
    place.at->way = call->way;
    place.at->status = 0;
    atomic_store_explicit(&place.at->number, place.number, memory_order_release);
    __builtin_prefetch(&recorder->ring[(place.number + 1) & recorder->last], 1); /* the next */
    if (recorder->trace) {
        place.trace = recorder->trace;
        place.event = gyre_record_trace_call(place.trace, call, place.at->called);
    }
    return place;
}

/* The record of a place; NULL: it has been written over. */
static inline struct gyre_call_record *gyre_record_at(struct gyre_record_place place)
{
    bool there =
        place.at && atomic_load_explicit(&place.at->number, memory_order_relaxed) == place.number;
    return there ? place.at : NULL;
}

static inline void gyre_record_begun(struct gyre_record_place place)
{
    struct gyre_call_record *record = gyre_record_at(place);
    if (!record || record->begun)
        return;
    uint64_t after = ((gyre_ticks() - record->called) >> 6) + 1;
    record->begun = after < UINT32_MAX ? (uint32_t)after : UINT32_MAX;
}

static inline void gyre_record_waits(struct gyre_record_place place, uint32_t rank)
{
    struct gyre_call_record *record = gyre_record_at(place);
    if (record && rank != GYRE_RECORD_NOBODY)
        record->waits_on = rank;
    struct gyre_trace_event *event = place.trace ? gyre_trace_at(place.trace, place.event) : NULL;
    if (event && rank != GYRE_RECORD_NOBODY)
        event->peer = rank;
}

/* An operation that failed with its job has not ended: its record goes on waiting. */
static inline void gyre_record_ended(struct gyre_record_place place, int status)
{
    struct gyre_call_record *record = gyre_record_at(place);
    if (!record)
        return;
    record->status = (int16_t)status;
    if (status)
        return;
    record->ended = gyre_ticks();
    if (place.trace)
        gyre_trace_end(place.trace, place.event, record->ended);
}

/* -- steps of an operation, in its trace ------------------------------------------------------- */

/* The time at which a step begins; 0: none is traced. */
static inline uint64_t gyre_record_step_time(const struct gyre_record_place *place)
{
    return place->trace ? gyre_ticks() : 0;
}

/* Writes a step of a traced operation, and returns its number. `step` lacks what the call's record
 * says; where a ring of calls has come since, that is lost, and nothing is written: 0. */
static inline uint64_t gyre_record_step(const struct gyre_record_place *place,
                                        const struct gyre_trace_event *step)
{
    const struct gyre_call_record *call = gyre_record_at(*place);
    struct gyre_trace_event event = *step;
    if (!call)
        return 0;
    event.sequence = call->sequence;
    event.signature = call->signature;
    event.comm = call->comm;
    event.way = call->way;
    return gyre_trace_put(place->trace, &event);
}

#endif
