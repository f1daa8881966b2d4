/* Words that streams of the caller's wait for, and quiet moments.
 *
 *     the stream    … ─▶ arrived = value ─▶ waits for word ≥ value ─▶ … ─▶ passed = value ─▶ …
 *     the host                  └▶ the operation runs ──▶ word = value            └▶ memory is free
 *
 * The stream writes and waits by itself, so neither end needs a call of the driver's, which might
 * wait for what the stream waits for.
 *
 * A stream may come to its wait long after the operation has ended, even after the communicator
 * has. So words are the process's, are locked once and never given up. A word only grows, and a
 * stream that waits for an earlier value passes.
 *
 * While a stream is held, or has not passed what it was told to pass, nothing may be called that
 * waits for all of a device's work, as locking and unlocking host memory does: the stream waits for
 * an operation that the caller may have to move. Such calls are made in a quiet moment, in which no
 * stream begins to be held.
 *
 * Any thread. */
#ifndef GYRE_COLLECTIVES_STAGING_STREAM_WAIT_H
#define GYRE_COLLECTIVES_STAGING_STREAM_WAIT_H

#include "device/device.h"

#include <stdatomic.h>

struct gyre_stream_wait {
    gyre_device_word *word; /* NULL: none, or released */
    gyre_device_word *arrived, *passed;
    uint64_t value, before; /* before: all three words, until the stream comes */
};

/* Makes the words where there are none yet. */
int gyre_stream_wait_open(const struct gyre_device *device, int index,
                          struct gyre_trouble *trouble);

/* Takes words. The stream arrives in `steps` steps, one more in the word with each. */
int gyre_stream_wait_take(struct gyre_stream_wait *stream_wait, uint32_t steps,
                          struct gyre_trouble *trouble);
void gyre_stream_wait_give(struct gyre_stream_wait *stream_wait); /* none: nothing */

/* The stream will write `passed`: the words stay taken until then. Before give(). */
void gyre_stream_wait_expect(const struct gyre_stream_wait *stream_wait);

/* Lets the stream go on for some steps only: it waits again later. */
static inline void gyre_stream_wait_advance(const struct gyre_stream_wait *stream_wait,
                                            uint32_t steps)
{
    atomic_store_explicit(stream_wait->word, stream_wait->before + steps, memory_order_release);
}

/* The steps that the stream has arrived with. */
static inline uint64_t gyre_stream_wait_steps(const struct gyre_stream_wait *stream_wait)
{
    return atomic_load_explicit(stream_wait->arrived, memory_order_acquire) - stream_wait->before;
}

/* Whether the stream has passed; also true of words that nobody has taken. */
static inline bool gyre_stream_wait_passed(const struct gyre_stream_wait *stream_wait)
{
    return !stream_wait->passed ||
           (int64_t)(atomic_load_explicit(stream_wait->passed, memory_order_acquire) -
                     stream_wait->value) >= 0;
}

/* Whether some stream is held, or has to pass. A guess, for who may sleep. */
bool gyre_stream_wait_any(void);

/* Begins a quiet moment. False: a stream is held. True: no stream is held until the end, for which
 * takers wait. */
bool gyre_quiet_begin(void);
void gyre_quiet_end(void);

#endif
