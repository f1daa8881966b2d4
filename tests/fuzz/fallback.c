/* What a peer sends over the socket on which a broken RDMA pipe goes on: its hello, frames with
 * bytes of the stream and with long messages, and anything else. The input is a script of one-byte
 * orders with arguments; its first part makes what is under way when the queue pair breaks, without
 * a device.
 *
 * What is checked beside memory safety: a pipe that fails says why, and fails with its stream; what
 * is repeated was written and is not consumed; every post ends at most once, and its buffer, which
 * goes back to malloc() then, is not touched any more; and what this end sends is a hello and whole
 * frames behind it. */
#include "fuzz/fuzz.h"
#include "stand_in/fake_verbs.h"

#include "base/bytes.h"
#include "transport/link/table.h"
#include "transport/link/verbs/peer.h"
#include "transport/stream/frame.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POSTS = 16, NAMES = 8, EAGER = 256, LONG = 600, SHORT = 40 };
enum { HELLO = 0x44727947, BYTES = 1, MESSAGE = 2 };

struct play {
    const uint8_t *at, *end;
    struct gyre_verbs_wire *wire;
    struct gyre_verbs_pipe *pipe;
    struct gyre_stream *stream;
    int peer; /* the other end of the socket; -1: closed */
    uint8_t *data[POSTS];
    int posts;
    /* Of this end, as the peer reads it: the frame under way. */
    bool greeted;
    uint8_t out_head[GYRE_VERBS_FALLBACK_HEAD];
    uint32_t out_have;
    uint64_t out_left;
};

static uint8_t next(struct play *play)
{
    return play->at < play->end ? *play->at++ : 0;
}

static struct gyre_match some_name(uint8_t i)
{
    return (struct gyre_match){.sequence = i % NAMES, .fingerprint = 5};
}

/* -- posts ------------------------------------------------------------------------------------- */

static void post(struct play *play)
{
    const uint8_t order = next(play);
    const struct gyre_match match = some_name(next(play));
    const uint64_t length = order & 2 ? LONG : SHORT, token = (uint64_t)play->posts;
    const struct gyre_remote_place place = {.address = 1};
    if (play->posts == POSTS)
        return;
    uint8_t *data = calloc(1, length);
    int status =
        order & 1 ? gyre_stream_send_registered(play->stream, &match, data, length, token)
                  : gyre_stream_recv_registered(play->stream, &match, data, length, token, &place);
    if (status == GYRE_MISMATCH)
        gyre_verbs_fail_stream(play->pipe, status); /* as the driver does */
    if (status)
        free(data);
    else
        play->data[play->posts++] = data;
}

static void fetch(struct play *play)
{
    struct gyre_completion done;
    while (gyre_stream_complete(play->stream, &done, 1)) {
        REQUIRE(done.status <= 0 && done.token < (uint64_t)play->posts && play->data[done.token]);
        free(play->data[done.token]);
        play->data[done.token] = NULL;
    }
}

/* -- what the peer sends ----------------------------------------------------------------------- */

static void say(struct play *play, const void *bytes, size_t length)
{
    if (play->peer >= 0)
        (void)!send(play->peer, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A frame of the stream, whose header has a right sum. */
static uint32_t make_stream_frame(struct play *play, uint8_t *to)
{
    const uint8_t kind = next(play) % 14;
    struct gyre_frame frame = {.kind = kind, .match = some_name(next(play))};
    uint8_t *payload = to + GYRE_FRAME_BYTES;
    const uint8_t pick = next(play);
    if (kind == GYRE_FRAME_PLACE)
        frame.length = GYRE_FRAME_PLACE_BYTES;
    else if (kind == GYRE_FRAME_GRANT || kind == GYRE_FRAME_ASK)
        frame.length = 8;
    else if (kind == GYRE_FRAME_DATA || kind == GYRE_FRAME_PIECE)
        frame.length = pick & 1 ? LONG : SHORT;
    else if (kind == GYRE_FRAME_CREDIT)
        frame.match.sequence = pick;
    memset(payload, pick, frame.length);
    if (frame.length && frame.length <= GYRE_FRAME_PLACE_BYTES)
        gyre_put64(payload, pick % 8 ? LONG : pick);
    gyre_frame_encode(&frame, to);
    return GYRE_FRAME_BYTES + frame.length;
}

/* Has the stream get a frame as from the device, before the break. */
static void hear_before(struct play *play)
{
    uint8_t frame[GYRE_FRAME_BYTES + LONG];
    const uint32_t length = make_stream_frame(play, frame);
    const int status = gyre_stream_feed(play->stream, frame, length);
    if (status)
        gyre_verbs_fail_stream(play->pipe, status);
}

static void say_hello(struct play *play)
{
    const struct gyre_verbs_pipe *pipe = play->pipe;
    uint8_t hello[GYRE_VERBS_FALLBACK_HEAD];
    const uint8_t change = next(play);
    const uint64_t span = pipe->written - pipe->freed;
    const int64_t messages = (int64_t)pipe->announced + 1 - next(play) % 8;
    gyre_put32(hello, HELLO + (change % 16 == 1));
    gyre_put32(hello + 4, (uint32_t)messages);
    gyre_put64(hello + 8, pipe->freed + next(play) * 4u % (span + 1 + (change % 16 == 3)));
    say(play, hello, sizeof hello);
}

static void say_frame(struct play *play)
{
    static uint8_t frame[GYRE_VERBS_FALLBACK_HEAD + GYRE_FRAME_BYTES + LONG];
    const uint8_t order = next(play), number = next(play);
    uint32_t length = LONG;
    if (order & 1)
        length = make_stream_frame(play, frame + GYRE_VERBS_FALLBACK_HEAD);
    else
        memset(frame + GYRE_VERBS_FALLBACK_HEAD, number, LONG);
    uint64_t told = length;
    if (order >> 2 & 1)
        told = (uint64_t)next(play) << next(play) % 57;
    gyre_put32(frame, order >> 3 == 1 ? number : order & 1 ? BYTES : MESSAGE);
    gyre_put32(frame + 4, number % POSTS);
    gyre_put64(frame + 8, told);
    say(play, frame, GYRE_VERBS_FALLBACK_HEAD + (order & 2 ? length : next(play) * 4u % length));
}

static void say_raw(struct play *play)
{
    uint8_t bytes[32];
    const size_t length = 1 + next(play) % sizeof bytes;
    for (size_t i = 0; i < length; i++)
        bytes[i] = next(play);
    say(play, bytes, length);
}

/* -- what this end sends ----------------------------------------------------------------------- */

static void check_head(const struct play *play)
{
    const uint32_t word = gyre_get32(play->out_head);
    if (!play->greeted) {
        REQUIRE(word == HELLO);
        return;
    }
    REQUIRE(word == BYTES || word == MESSAGE);
    REQUIRE(gyre_get64(play->out_head + 8) > 0);
}

/* Takes bytes of a head, or of what follows one, and returns how many. */
static size_t hear_part(struct play *play, const uint8_t *bytes, size_t length)
{
    const size_t wanted = play->out_left ? play->out_left : sizeof play->out_head - play->out_have;
    const size_t part = length < wanted ? length : wanted;
    if (play->out_left) {
        play->out_left -= part;
        return part;
    }
    memcpy(play->out_head + play->out_have, bytes, part);
    play->out_have += (uint32_t)part;
    if (play->out_have < sizeof play->out_head)
        return part;
    check_head(play);
    play->out_have = 0;
    play->out_left = play->greeted ? gyre_get64(play->out_head + 8) : 0;
    play->greeted = true;
    return part;
}

static void hear(struct play *play)
{
    uint8_t bytes[4096];
    ssize_t got;
    while (play->peer >= 0 && (got = recv(play->peer, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        for (size_t i = 0; i < (size_t)got;)
            i += hear_part(play, bytes + i, (size_t)got - i);
}

/* -- before the break -------------------------------------------------------------------------- */

/* Takes bytes of the stream into the outbox, as if they were records. */
static void put_records(struct play *play)
{
    struct gyre_verbs_pipe *pipe = play->pipe;
    const uint32_t ring = pipe->queue->theirs.ring;
    struct iovec iov[2];
    const int count = gyre_stream_gather(play->stream, iov, 2);
    const uint64_t room = ring - (pipe->written - pipe->freed);
    uint64_t length = count ? iov[0].iov_len : 0;
    length = length < room ? length : room;
    for (uint64_t i = 0; i < length; i++)
        pipe->outbox[(pipe->written + i) % ring] = ((const uint8_t *)iov[0].iov_base)[i];
    pipe->written += length;
    gyre_stream_wrote(play->stream, length);
}

/* Begins to write a long message, in part or as a whole. */
static void begin_write(struct play *play)
{
    struct gyre_verbs_pipe *pipe = play->pipe;
    struct gyre_verbs_queue *queue = pipe->queue;
    if (pipe->writing || queue->sends - queue->sends_done == GYRE_VERBS_SENDS ||
        !gyre_stream_take_write(play->stream, &pipe->write))
        return;
    pipe->writing = next(play) % 4 == 0;
    if (pipe->writing)
        return;
    queue->ends[queue->sends++ % GYRE_VERBS_SENDS] = pipe->write.send;
    pipe->announced++;
}

static void obey_before(struct play *play, uint8_t order)
{
    struct gyre_verbs_pipe *pipe = play->pipe;
    switch (order % 6) {
    case 0:
    case 1:
        post(play);
        break;
    case 2:
        hear_before(play);
        break;
    case 3:
        put_records(play);
        break;
    case 4:
        begin_write(play);
        break;
    case 5:
        pipe->freed += next(play) * 4u % (pipe->written - pipe->freed + 1);
        break;
    }
}

/* -- behind it --------------------------------------------------------------------------------- */

static void hang_up(struct play *play)
{
    if (play->peer >= 0)
        close(play->peer);
    play->peer = -1;
}

static void obey(struct play *play, uint8_t order)
{
    switch (order % 8) {
    case 0:
        post(play);
        break;
    case 1:
        say_hello(play);
        break;
    case 2:
    case 3:
        say_frame(play);
        break;
    case 4:
        say_raw(play);
        break;
    case 5:
        fetch(play);
        break;
    case 6:
        hear(play);
        break;
    case 7:
        if (order >> 3 == 31)
            hang_up(play);
        else
            (void)gyre_driver_verbs.cancel(&play->pipe->end, next(play) % POSTS);
        break;
    }
    gyre_verbs_fallback_serve(play->wire, 0);
}

static void check(const struct play *play)
{
    const struct gyre_verbs_pipe *pipe = play->pipe;
    const struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    REQUIRE(pipe->end.status <= 0 && (!pipe->end.status || pipe->end.trouble.text[0]));
    REQUIRE(pipe->end.status || !gyre_stream_failure(play->stream)); /* posts have ended */
    REQUIRE(fallback->in_have < GYRE_VERBS_FALLBACK_HEAD);
    if (fallback->state == GYRE_VERBS_ON_FALLBACK)
        REQUIRE(fallback->repeat_at >= pipe->freed && fallback->repeat_at <= pipe->written);
}

static void break_pipe(struct play *play)
{
    struct gyre_verbs_pipe *pipe = play->pipe;
    gyre_verbs_break(pipe->queue, GYRE_PEER_LOST, "the test breaks it");
    gyre_verbs_fallback_serve(play->wire, 0);
    REQUIRE(pipe->end.status || pipe->fallback.state == GYRE_VERBS_TELLING);
}

static void play_script(struct play *play)
{
    for (int left = next(play) % 32; left > 0 && !play->pipe->end.status; left--)
        obey_before(play, next(play));
    if (!play->pipe->end.status)
        break_pipe(play);
    while (play->at < play->end && !play->pipe->end.status) {
        obey(play, next(play));
        check(play);
    }
    hear(play);
}

/* -- a pipe ------------------------------------------------------------------------------------ */

static struct gyre_verbs_wire *open_wire(void)
{
    static struct gyre_verbs_wire *wire;
    struct gyre_wire_options options = {.rank = 3, .n = 2, .peers = 1, .failover = true};
    struct gyre_trouble trouble = {0};
    if (wire)
        return wire;
    setenv("GYRE_LOG", "error", 1); /* each break would be told of */
    fake_verbs_reset();
    REQUIRE(!gyre_driver_verbs.open(&options, (struct gyre_wire **)&wire, &trouble));
    return wire;
}

static void open_pipe(struct play *play)
{
    const struct gyre_stream_options options = {.posts = POSTS, .eager = EAGER, .places = 4};
    struct gyre_verbs_wire *wire = play->wire = open_wire();
    struct gyre_pipe *end;
    int pair[2], little = 1; /* the least that the kernel grants, so that frames leave in parts */
    REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair));
    REQUIRE(!setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little));
    REQUIRE(!gyre_end_create(sizeof(struct gyre_verbs_pipe), wire->rank, 7, &options, 1, &end));
    struct gyre_verbs_pipe *pipe = play->pipe = (struct gyre_verbs_pipe *)end;
    play->peer = pair[1];
    play->stream = end->stream[0];
    pipe->wire = wire;
    pipe->fd[0] = pair[0];
    pipe->fds = 1;
    pipe->falls_back = true;
    pipe->queue[0] = (struct gyre_verbs_queue){.pipe = pipe, .card = wire->card, .proven = true};
    pipe->queue->mine.ring = pipe->queue->theirs.ring = GYRE_VERBS_RING_LEAST;
    pipe->way[pipe->ways++] = pipe->queue;
    wire->pipe[0] = pipe;
    gyre_verbs_device_place(pipe);
}

static void close_pipe(struct play *play)
{
    hang_up(play);
    gyre_driver_verbs.detach(&play->pipe->end);
    gyre_end_forget(&play->wire->departed);
    for (int i = 0; i < play->posts; i++)
        free(play->data[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct play play;
    play = (struct play){.at = data, .end = data + size};
    open_pipe(&play);
    play_script(&play);
    close_pipe(&play);
    return 0;
}

#ifndef GYRE_LIBFUZZER

static size_t make_case(uint64_t seed, uint8_t *data)
{
    return fuzz_random_bytes(seed, 0, 600, data);
}

int main(int argc, char **argv)
{
    return fuzz_run(argc, argv, 10000, make_case);
}

#endif
