/* Where the buffers lie, and how the host gets at what is in them. */
#ifndef GYRE_BENCH_HARNESS_BUFFERS_H
#define GYRE_BENCH_HARNESS_BUFFERS_H

#include "harness/bench.h"

/* Before gyre_init: looks for the device, and tells the library which ranks have which. 0, or the
 * exit code after a message. */
int bench_device_choose(struct bench *bench);

/* Behind gyre_init: input and output of options.max_bytes and the spare ones, full of numbers. */
void bench_buffers_get(struct bench *bench);
void bench_buffers_free(struct bench *bench);

/* Where the host writes and reads what lies at `at` of a buffer. What it wrote is in the buffer
 * behind push, what is in the buffer can be read behind pull. */
void *bench_seen(const struct bench *bench, const void *at);
void bench_push(struct bench *bench, const void *at, size_t bytes);
void bench_pull(struct bench *bench, const void *at, size_t bytes);

/* Copies `turns` times from buffer to buffer of the device, back to back, and waits. */
void bench_device_copies(struct bench *bench, void *to, const void *from, size_t bytes, int turns);

/* Bytes per microsecond from this rank's device to device `other`; 0 where it does not reach it. */
double bench_device_peer_rate(struct bench *bench, int other, size_t bytes);

#endif
