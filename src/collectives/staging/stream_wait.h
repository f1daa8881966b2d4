/* Words that streams of the caller's wait for, and quiet moments.
 *
 *     gyre_stream_wait_take ─▶ {word, value} ─▶ the stream waits for *word ≥ value
 *     gyre_stream_wait_give ─▶ *word = value, and the stream goes on, now or when it comes to the wait
 *
 * A stream may come to its wait long after the operation has ended, even after the communicator has.
 * So words are the process's, are locked once and never given up; one only grows, and whoever waits
 * for what it was before passes.
 *
 * While a stream is held nothing may be called that waits for all of a device's work, as locking and
 * unlocking host memory does: the stream waits for an operation that whoever calls may have to move.
 * Such calls are made in a quiet moment, which no hold begins in.
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

/* False: a stream is held. True: none is until the end, to which takers wait. */
bool gyre_quiet_begin(void);
void gyre_quiet_end(void);

#endif
