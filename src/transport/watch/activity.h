/* A rank's activity in its communicators, which the watch tells other ranks.
 *
 * The communicators write plain stores into structs; the watch's thread reads them for its
 * beats. */
#ifndef GYRE_TRANSPORT_WATCH_ACTIVITY_H
#define GYRE_TRANSPORT_WATCH_ACTIVITY_H

#include "transport/recorder/recorder.h"
#include "transport/stream/signature.h"
#include "transport/watch/detect/message.h"

#include <stdatomic.h>
#include <stdbool.h>

#define GYRE_ACTIVITY_CALLS (GYRE_WATCH_CALLS + 1) /* a power of two */

/* This rank's activity in one communicator. One writer at a time, through the functions below.
 * `version` is odd while the writer writes, so that no beat carries half of each. `motion`,
 * `looks`, `focus` and the threads belong to the process: only its first activity has them. */
struct gyre_activity {
    _Atomic(struct gyre_activity *) focus; /* where a thread waits; NULL: here */
    struct gyre_activity *next;            /* of the attended activities; under the watch's lock */
    struct gyre_recorder *recorder;        /* of the rank; NULL: none */
    _Atomic uint32_t version;
    _Atomic uint32_t comm;        /* unlike that of any other living group of ranks */
    _Atomic uint64_t sequence;    /* last operation entered, 0 before the first */
    _Atomic uint64_t fingerprint; /* of that operation */
    _Atomic uint64_t finished;    /* operations up to this one are finished */
    _Atomic uint64_t motion;      /* changes whenever anything moves in the operations entered */
    /* Grows while a thread waits: the thread runs, and nothing came. */
    _Atomic uint64_t looks;
    /* The first thread that waited or made the rank, and whether another has called since. */
    _Atomic(const void *) thread;
    _Atomic bool threads;
    _Atomic uint32_t known; /* the number of last operations that `call` holds */
    struct {
        _Atomic uint64_t signature; /* gyre_signature_pack() */
        _Atomic uint64_t count;
    } call[GYRE_ACTIVITY_CALLS];
    struct {         /* the last call that was refused; under the watch's lock */
        uint64_t at; /* when; 0: never */
        /* The number that the call would have had; a call of that number ends the refusal. */
        uint64_t sequence;
        char why[GYRE_WATCH_WHY_MAX];
    } refused;
};

static inline void gyre_activity_enter(struct gyre_activity *activity, uint32_t comm,
                                       uint64_t sequence, uint64_t fingerprint, uint64_t signature,
                                       uint64_t count)
{
    uint32_t version = atomic_load_explicit(&activity->version, memory_order_relaxed);
    uint32_t known = atomic_load_explicit(&activity->known, memory_order_relaxed);
    uint32_t place = sequence % GYRE_ACTIVITY_CALLS;
    bool next = atomic_load_explicit(&activity->comm, memory_order_relaxed) == comm &&
                atomic_load_explicit(&activity->sequence, memory_order_relaxed) + 1 == sequence;

    known = !next ? 1 : known < GYRE_ACTIVITY_CALLS ? known + 1 : known;
    atomic_store_explicit(&activity->version, version + 1, memory_order_relaxed);
    atomic_store_explicit(&activity->comm, comm, memory_order_release);
    atomic_store_explicit(&activity->fingerprint, fingerprint, memory_order_release);
    atomic_store_explicit(&activity->known, known, memory_order_release);
    atomic_store_explicit(&activity->call[place].signature, signature, memory_order_release);
    atomic_store_explicit(&activity->call[place].count, count, memory_order_release);
    atomic_store_explicit(&activity->sequence, sequence, memory_order_release);
    atomic_store_explicit(&activity->version, version + 2, memory_order_release);
}

static inline void gyre_activity_finish(struct gyre_activity *activity, uint64_t sequence)
{
    atomic_store_explicit(&activity->finished, sequence, memory_order_relaxed);
}

/* Marks `on` as the communicator in which a thread starts an operation or waits. */
static inline void gyre_activity_focus(struct gyre_activity *first, struct gyre_activity *on)
{
    if (atomic_load_explicit(&first->focus, memory_order_relaxed) != on)
        atomic_store_explicit(&first->focus, on, memory_order_release);
}

static inline void gyre_activity_move(struct gyre_activity *activity, uint64_t motion)
{
    atomic_store_explicit(&activity->motion, motion, memory_order_relaxed);
}

/* Counts a look; called at least every 50 ms while a thread waits. */
static inline void gyre_activity_look(struct gyre_activity *activity)
{
    uint64_t looks = atomic_load_explicit(&activity->looks, memory_order_relaxed);
    atomic_store_explicit(&activity->looks, looks + 1, memory_order_relaxed);
}

/* Notes that this thread calls. While several threads do, a rank that waits may yet be served by
 * another thread of the rank for which it waits. */
void gyre_activity_note_thread(struct gyre_activity *activity);

/* Reads what the process is doing in all communicators: in full for the one where a thread waits,
 * of the others how far the rank is. `to` holds zeros and the rank. False: the communicator is just
 * writing. The watch's lock is held. */
bool gyre_activity_read(const struct gyre_activity *first, struct gyre_watch_state *to);

#endif
