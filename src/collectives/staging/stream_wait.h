/* Words that streams of the caller's wait for, and quiet moments.
 *
 *     gyre_stream_wait_take ─▶ {word, value} ─▶ the stream waits for *word ≥ value
 *     gyre_stream_wait_give ─▶ *word = value ─▶ the stream goes on, or passes when it comes there
 *
 * A stream may come to its wait long after the operation has ended, even after the communicator
 * has. So words are the process's, are locked once and never given up. A word only grows, and a
 * stream that waits for an earlier value passes.
 *
 * While a stream is held nothing may be called that waits for all of a device's work, as locking
 * and unlocking host memory does: the stream waits for an operation that the caller may have to
 * move. Such calls are made in a quiet moment, in which no stream begins to be held.
 *
 * Any thread. */
#ifndef GYRE_COLLECTIVES_STAGING_STREAM_WAIT_H
#define GYRE_COLLECTIVES_STAGING_STREAM_WAIT_H

#include "device/device.h"

struct gyre_stream_wait {
    gyre_device_word *word; /* NULL: none */
    uint64_t value;
};

/* Makes the words where there are none yet. */
int gyre_stream_wait_open(const struct gyre_device *device, int index,
                          struct gyre_trouble *trouble);

int gyre_stream_wait_take(struct gyre_stream_wait *stream_wait, struct gyre_trouble *trouble);
void gyre_stream_wait_give(struct gyre_stream_wait *stream_wait); /* none: nothing */

/* Begins a quiet moment. False: a stream is held. True: no stream is held until the end, for which
 * takers wait. */
bool gyre_quiet_begin(void);
void gyre_quiet_end(void);

#endif
