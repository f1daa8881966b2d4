/* Drives a tcp_pair from one thread, so nothing waits for time: what does not finish within a
 * number of polls has failed. For the tcp driver's own tests. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_LINK_TCP_TCP_DRIVE_H
#define GYRE_TESTS_UNIT_TRANSPORT_LINK_TCP_TCP_DRIVE_H

#include "rig/tcp_pair.h"
#include "rig/test.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define POLLS_MOST 2000000
#define BATCH      16

static const struct gyre_driver *const tcp = &gyre_driver_tcp;

/* What came back on one side, counted by what the test needs. */
struct tally {
    int done, failed, last_status;
    uint64_t last_token;
};

static inline void poll_side(struct tcp_pair *pair, int side, struct tally *tally)
{
    struct gyre_completion out[BATCH];
    int got = tcp->poll(pair->wire[side], 0, out, BATCH);
    assert_in_range(got, 0, BATCH);
    for (int i = 0; i < got; i++) {
        tally->done++;
        tally->failed += out[i].status != 0;
        tally->last_status = out[i].status;
        tally->last_token = out[i].token;
    }
}

static inline void poll_until(struct tcp_pair *pair, struct tally tally[2], int done0, int done1)
{
    for (long polls = 0; tally[0].done < done0 || tally[1].done < done1; polls++) {
        assert_true(polls < POLLS_MOST);
        poll_side(pair, 0, &tally[0]);
        poll_side(pair, 1, &tally[1]);
    }
}

static inline struct gyre_match match(uint64_t sequence, unsigned lane)
{
    return (struct gyre_match){
        .comm = 3, .lane = (uint16_t)lane, .sequence = sequence, .fingerprint = 99};
}

static inline unsigned char *pattern(size_t length, unsigned seed)
{
    unsigned char *bytes = malloc(length + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + seed);
    return bytes;
}

struct job { /* one message each way on one pipe */
    unsigned char *out[2], *in[2];
    size_t length;
};

static inline void start(struct tcp_pair *pair, int pipe, struct job *job, size_t length,
                         uint64_t sequence, unsigned lane)
{
    struct gyre_match name = match(sequence, lane);
    job->length = length;
    for (int side = 0; side < 2; side++) {
        job->out[side] = pattern(length, (unsigned)sequence + 5 * (unsigned)side + lane);
        job->in[side] = calloc(1, length + 1);
        assert_int_equal(tcp->recv(pair->pipe[side][pipe], &name, job->in[side], length, sequence),
                         0);
        assert_int_equal(tcp->send(pair->pipe[side][pipe], &name, job->out[side], length, sequence),
                         0);
    }
}

static inline void free_job(struct job *job)
{
    for (int side = 0; side < 2; side++) {
        free(job->in[side]);
        free(job->out[side]);
    }
}

static inline void check_and_free(struct job *job)
{
    for (int side = 0; side < 2; side++) {
        assert_memory_equal(job->in[side], job->out[!side], job->length);
        assert_int_equal(job->in[side][job->length], 0);
    }
    free_job(job);
}

static inline bool rings(struct gyre_wire *wire, int timeout_ms)
{
    struct gyre_alarm alarm = {.fd = -1};
    int status = tcp->arm(wire, &alarm);
    if (status == GYRE_AGAIN)
        return true;
    assert_int_equal(status, 0);
    struct pollfd waiting = {.fd = alarm.fd, .events = POLLIN};
    return poll(&waiting, 1, timeout_ms) == 1;
}

static inline void quieten(struct tcp_pair *pair, int side, struct tally *tally)
{
    for (int i = 0; rings(pair->wire[side], 0); i++) {
        assert_true(i < 1000);
        poll_side(pair, side, tally);
    }
}

#endif
