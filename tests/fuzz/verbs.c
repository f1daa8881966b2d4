/* What a peer over RDMA decides: its offer, the immediates of its writes, and the bytes that these
 * writes leave in the inbox and in the slots. The device is a stand-in that does nothing. The input
 * begins with an offer (of which the script sets a few bytes), and is then a script of one-byte
 * orders with arguments.
 *
 * What is checked beside memory safety: an offer that is taken has numbers within their limits; a
 * pipe that fails says why and never moves again; what is read and given back never exceeds what
 * was written. Payloads have no sums here, so a peer may send any. */
#include "fuzz/fuzz.h"
#include "stand_in/fake_verbs.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "transport/link/table.h"
#include "transport/link/verbs/peer.h"
#include "transport/stream/frame.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A small store: the sanitizer gets large pieces of memory from the kernel, for each input. */
enum { TRAILER = 16, MESSAGE = 40, POSTS = 16, EAGER = 1024 };

struct play {
    const uint8_t *at, *end;
    struct gyre_verbs_wire *wire;
    struct gyre_verbs_pipe *pipe;
    uint8_t got[POSTS][MESSAGE];
    int posts;
    bool spoiled; /* the slot that was written last is none that may be seen */
};

static uint8_t next(struct play *play)
{
    return play->at < play->end ? *play->at++ : 0;
}

/* -- offers ------------------------------------------------------------------------------------ */

static void read_offer(struct play *play)
{
    struct gyre_verbs_queue *queue = play->pipe->queue;
    const struct gyre_trouble well = {0};
    struct gyre_trouble trouble = {0};
    uint8_t offer[GYRE_VERBS_OFFER];
    REQUIRE(!gyre_verbs_offer_write(queue, &well, offer));
    for (int changes = next(play) % 8; changes > 0; changes--) {
        uint8_t at = next(play);
        offer[at % sizeof offer] = next(play);
    }
    int status = gyre_verbs_offer_read(queue, &well, offer, &trouble);
    const struct gyre_verbs_end *theirs = &queue->theirs;
    REQUIRE(memchr(theirs->reason, '\0', sizeof theirs->reason));
    REQUIRE(status <= 0 && status == trouble.status);
    if (status) {
        REQUIRE(trouble.text[0]);
        return;
    }
    REQUIRE(theirs->willing && theirs->version == queue->mine.version);
    REQUIRE(theirs->window >= 1 && theirs->window <= GYRE_VERBS_WINDOW);
    REQUIRE(theirs->ring >= GYRE_VERBS_RING_LEAST && theirs->ring <= GYRE_VERBS_RING);
    REQUIRE(theirs->queues >= 1 && theirs->queues <= GYRE_VERBS_QUEUES);
    REQUIRE(theirs->mtu >= IBV_MTU_256 && theirs->mtu <= IBV_MTU_4096);
}

/* -- what the peer writes ---------------------------------------------------------------------- */

static struct gyre_match some_name(uint8_t i)
{
    return (struct gyre_match){.sequence = i % 4, .fingerprint = 5};
}

/* A frame with a right sum, of a message that is its name. */
static uint32_t write_frame(struct play *play, uint8_t *to)
{
    uint8_t name = next(play), kind = next(play);
    struct gyre_frame frame = {.kind = kind % 16 ? GYRE_FRAME_DATA : (uint8_t)(kind >> 4),
                               .match = some_name(name),
                               .length = kind % 16 ? MESSAGE : 0,
                               .epoch = next(play) % 64 == 1};
    frame.match.sequence += name >> 6;
    memset(to + GYRE_FRAME_BYTES, (int)frame.match.sequence, frame.length);
    gyre_frame_encode(&frame, to);
    return GYRE_FRAME_BYTES + frame.length;
}

/* Leaves a frame where the next record stands, or as much of one as is left of the ring. */
static uint32_t write_inbox(struct play *play)
{
    struct gyre_verbs_pipe *pipe = play->pipe;
    uint8_t frame[GYRE_FRAME_BYTES + MESSAGE] = {0};
    uint32_t length = write_frame(play, frame);
    uint64_t at = pipe->read % pipe->queue->mine.ring, left = pipe->queue->mine.ring - at;
    memcpy(pipe->inbox + at, frame, left < length ? left : length);
    return length;
}

static uint32_t write_slot(struct play *play)
{
    struct gyre_verbs_pipe *pipe = play->pipe;
    uint8_t frame[GYRE_VERBS_SLOT] = {0}, change = next(play);
    uint32_t length = write_frame(play, frame), number = pipe->taken + pipe->ahead;
    play->spoiled = change % 8 >= 3 && change % 8 <= 6;
    uint8_t *trailer = frame + length;
    number += change % 8 == 1;
    gyre_put16(trailer, (uint16_t)(length + (change % 8 == 2 ? next(play) * 256u : 0)));
    gyre_put16(trailer + 2, change % 8 == 3);
    gyre_put32(trailer + 4, pipe->arrived + (change % 8 == 4));
    gyre_put32(trailer + 12, number + 1 + (change % 8 == 5));
    uint32_t sum = gyre_crc32c(0, frame, length + 8);
    gyre_put32(trailer + 8, gyre_crc32c(sum, trailer + 12, 4));
    frame[length - 1] ^= change % 8 == 6;
    uint8_t *end = pipe->slots + (number % pipe->queue->mine.window + 1) * GYRE_VERBS_SLOT;
    memcpy(end - length - TRAILER, frame, length + TRAILER);
    return length;
}

/* -- the script -------------------------------------------------------------------------------- */

static void post_receive(struct play *play)
{
    struct gyre_match match = some_name(next(play));
    if (play->posts == POSTS)
        return;
    if (!gyre_stream_recv(play->pipe->end.stream[0], &match, play->got[play->posts], MESSAGE,
                          match.sequence * POSTS + (uint64_t)play->posts))
        play->posts++;
}

static void fetch(struct play *play)
{
    struct gyre_completion done;
    while (gyre_stream_complete(play->pipe->end.stream[0], &done, 1)) {
        REQUIRE(done.status <= 0 && done.token % POSTS < (uint64_t)play->posts);
    }
}

static uint32_t some_immediate(struct play *play)
{
    uint32_t word = 0;
    for (int i = 0; i < 4; i++)
        word = word << 8 | next(play);
    return word;
}

/* No record of the inbox may come while slots were seen whose completions are missing. */
static void tell_record(struct play *play, uint32_t immediate)
{
    bool early = play->pipe->ahead > 0;
    gyre_verbs_pipe_came(play->pipe->queue, immediate);
    REQUIRE(!early || play->pipe->end.status);
}

static void obey(struct play *play)
{
    struct gyre_verbs_pipe *pipe = play->pipe;
    uint8_t order = next(play);
    uint32_t ahead = (uint32_t)(order >> 3 & 1) << GYRE_VERBS_ADVANCE_SHIFT;
    switch (order % 8) {
    case 0:
        post_receive(play);
        break;
    case 1:
        tell_record(play, write_inbox(play));
        break;
    case 2:
        tell_record(play, write_inbox(play) | GYRE_VERBS_WHOLE | ahead);
        break;
    case 3:
        gyre_verbs_pipe_came(pipe->queue, write_slot(play) | GYRE_VERBS_IN_SLOT);
        break;
    case 4:
        (void)write_slot(play);
        REQUIRE(!gyre_verbs_pipe_look(pipe) || !play->spoiled);
        break;
    case 5:
        gyre_verbs_pipe_came(pipe->queue, some_immediate(play));
        break;
    case 6:
        fetch(play);
        break;
    case 7:
        (void)gyre_verbs_pipe_look(pipe);
        break;
    }
}

static void check(const struct play *play)
{
    const struct gyre_verbs_pipe *pipe = play->pipe;
    REQUIRE(pipe->consumed == pipe->records && pipe->freed <= pipe->written);
    REQUIRE(pipe->end.status <= 0 && pipe->ahead <= pipe->queue->mine.window);
    REQUIRE(!pipe->end.status || pipe->end.trouble.text[0]);
    REQUIRE(pipe->held_next - pipe->held_done <= GYRE_VERBS_HELD);
}

static void play_script(struct play *play)
{
    while (play->at < play->end && !play->pipe->end.status) {
        obey(play);
        check(play);
    }
    uint64_t read = play->pipe->read;
    if (play->pipe->end.status)
        gyre_verbs_pipe_came(play->pipe->queue, GYRE_FRAME_BYTES);
    REQUIRE(!play->pipe->end.status || play->pipe->read == read);
}

/* -- a pipe ------------------------------------------------------------------------------------ */

static struct gyre_verbs_wire *open_wire(void)
{
    static struct gyre_verbs_wire *wire;
    struct gyre_wire_options options = {.rank = 3, .n = 2, .peers = 1};
    struct gyre_trouble trouble = {0};
    if (wire)
        return wire;
    fake_verbs_reset();
    REQUIRE(!gyre_driver_verbs.open(&options, (struct gyre_wire **)&wire, &trouble));
    return wire;
}

static struct gyre_verbs_pipe *open_pipe(struct gyre_verbs_wire *wire)
{
    const struct gyre_stream_options options = {.posts = POSTS, .eager = EAGER, .places = 4};
    struct gyre_pipe *end;
    REQUIRE(!gyre_end_create(sizeof(struct gyre_verbs_pipe), wire->rank, 7, &options, 1, &end));
    struct gyre_verbs_pipe *pipe = (struct gyre_verbs_pipe *)end;
    pipe->wire = wire;
    pipe->fd[0] = -1;
    pipe->queue[0] = (struct gyre_verbs_queue){.pipe = pipe, .card = wire->card, .proven = true};
    pipe->way[pipe->ways++] = pipe->queue;
    wire->pipe[0] = pipe;
    gyre_verbs_device_place(pipe);
    return pipe;
}

static void close_pipe(struct gyre_verbs_wire *wire, struct gyre_verbs_pipe *pipe)
{
    memset(pipe->inbox, 0, GYRE_VERBS_RING_LEAST);
    memset(pipe->slots, 0, (size_t)GYRE_VERBS_WINDOW * GYRE_VERBS_SLOT);
    gyre_driver_verbs.detach(&pipe->end);
    gyre_end_forget(&wire->departed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play play;
    play = (struct play){.at = data, .end = data + size, .wire = open_wire()};
    play.pipe = open_pipe(play.wire);
    read_offer(&play);
    /* The ring is short, so that a script comes to its end. */
    play.pipe->queue->mine.ring = GYRE_VERBS_RING_LEAST;
    play_script(&play);
    close_pipe(play.wire, play.pipe);
    return 0;
}

#ifndef GYRE_LIBFUZZER

static size_t make_case(uint64_t seed, uint8_t *data)
{
    return fuzz_random_bytes(seed, 0, 600, data);
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 20000, make_case);
}

#endif
