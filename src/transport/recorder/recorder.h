/* The recorder: a rank's last operations, always written, for whoever asks what happened.
 *
 * Nothing on an operation's way allocates, locks or enters the kernel. Whoever owns the domain
 * writes records; the watch's thread writes the head's beats. */
#ifndef GYRE_TRANSPORT_RECORDER_RECORDER_H
#define GYRE_TRANSPORT_RECORDER_RECORDER_H

#include "transport/recorder/book.h"

/* What a rank tells of itself. */
struct gyre_recorder_identity {
    uint32_t rank, n, node, nodes, epoch;
    const uint8_t *job; /* 16 bytes */
    const char *host;
    uint64_t trace_bytes; /* of the file of a trace, where GYRE_TRACE asks for one */
    /* How many operations it remembers; 0: 4,096 if it is the process's only one, else 512. */
    uint32_t records;
};

/* NULL: no shared memory; the job goes on without records. */
struct gyre_recorder *gyre_recorder_create(const struct gyre_recorder_identity *identity);
void gyre_recorder_destroy(struct gyre_recorder *recorder); /* NULL allowed, as below */

/* Writes clocks and the thread's times, at most ten times a second. The watch's thread. */
void gyre_recorder_beat(struct gyre_recorder *recorder, uint64_t now);

/* Writes how the job has ended for this rank; its state is FAILED with a story, or LEFT. */
void gyre_recorder_end(struct gyre_recorder *recorder, int status, uint32_t rank,
                       const char *story);

#endif
