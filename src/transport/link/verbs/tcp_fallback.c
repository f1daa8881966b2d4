/* A pipe whose queue pair is broken goes on over the socket that brought the two ends together
 * (GYRE_RDMA_FAILOVER=tcp).
 *
 *     breaking      all queue pairs are in their error state; records that came before are taken,
 *         │         until the last posted receive has ended: then the count of bytes is final
 *     telling       the queue pairs are destroyed, and no device reads or writes for this pipe
 *         │ ── "I have b bytes of yours, and m messages" ──▶                          each way
 *     on fallback   what the peer lacks goes again from where it still lies, then what follows
 *
 *     hello  │ magic 4 │ messages 4 │ bytes 8 │
 *     frame  │ kind 4 │ number 4 │ length 8 │ bytes of the stream, or of a long message
 *
 * Nothing is lost: a record stays in the outbox until the peer has consumed it, and a long message
 * in its buffer until the peer's device has it. A message that the device has taken ends a receive
 * with success, and that completion is taken before the count is told. Nothing comes twice: the
 * receiver's count decides, and repeats are written when neither device can write. So an operation
 * under way ends as if nothing had happened, and its caller learns of the break by one line only.
 *
 * Either end may begin; the hello makes the other end follow. An end answers a hello when its own
 * receives have ended. Where they do not end (a device that went without a word) the pipe fails as
 * without a fallback, because the count of bytes is not known then.
 * Tested by tests/unit/transport/link/verbs/fault_test.c and chance_test.c. */
#include "transport/link/verbs/peer.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MAGIC     0x44727947u /* "GyrD" */
#define VECTORS   8
#define TURNS     16                      /* reads, and as many writes, at a time */
#define ENDING_NS (5000 * GYRE_MS)        /* for posted receives to end */
#define PART_MOST (GYRE_VERBS_RING_LEAST) /* of the stream in a frame */

enum { BYTES = 1, MESSAGE = 2 };

/* -- the end of the queue pairs ---------------------------------------------------------------- */

static void put_hello(struct gyre_verbs_pipe *pipe)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    gyre_put32(fallback->out_head, MAGIC);
    gyre_put32(fallback->out_head + 4, pipe->arrived);
    gyre_put64(fallback->out_head + 8, pipe->read);
    fallback->head_left = GYRE_VERBS_FALLBACK_HEAD;
}

/* Has both directions of the socket watched from now on. */
static void open_socket(struct gyre_verbs_pipe *pipe)
{
    int on = 1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u64 = (uint64_t)pipe->serial << 32 | pipe->index};
    setsockopt(pipe->fd[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_ctl(pipe->wire->epoll, EPOLL_CTL_MOD, pipe->fd[0], &event);
}

static uint32_t receives_left(const struct gyre_verbs_pipe *pipe)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < pipe->ways; i++)
        left += pipe->way[i]->receives;
    return left;
}

static void end_queues(struct gyre_verbs_pipe *pipe, uint64_t now)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    uint32_t left = receives_left(pipe);
    if (now && !fallback->deadline)
        fallback->deadline = now + ENDING_NS;
    if (left && now > fallback->deadline && fallback->deadline)
        gyre_verbs_fail(pipe->queue, fallback->status,
                        "what was posted to the device does not end, so what has come is not known "
                        "and TCP cannot go on with it");
    if (left || pipe->end.status)
        return;
    gyre_verbs_queue_destroy_all(pipe);
    fallback->state = GYRE_VERBS_TELLING;
    put_hello(pipe);
    open_socket(pipe);
}

/* -- out --------------------------------------------------------------------------------------- */

static void put_in_frame(struct gyre_verbs_pipe *pipe, uint32_t kind, uint32_t number,
                         const uint8_t *body, uint64_t length)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    gyre_put32(fallback->out_head, kind);
    gyre_put32(fallback->out_head + 4, number);
    gyre_put64(fallback->out_head + 8, length);
    fallback->head_left = GYRE_VERBS_FALLBACK_HEAD;
    fallback->body = body;
    fallback->body_left = length;
}

static bool is_flushed(const struct gyre_verbs_pipe *pipe)
{
    return !pipe->fallback.head_left && !pipe->fallback.body_left;
}

/* A goodbye is framed behind all messages, so nothing but bytes of the stream can be left. */
bool gyre_verbs_fallback_done(const struct gyre_verbs_pipe *pipe)
{
    const struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    return pipe->ended || (fallback->state == GYRE_VERBS_ON_FALLBACK && is_flushed(pipe) &&
                           fallback->repeat_at == pipe->written);
}

static bool put_message(struct gyre_verbs_pipe *pipe, const struct gyre_stream_write *write)
{
    pipe->fallback.ends = write->send;
    put_in_frame(pipe, MESSAGE, write->number, write->from, write->length);
    return true;
}

/* Sends records again that the peer has not consumed. */
static bool repeat_record(struct gyre_verbs_pipe *pipe)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    uint32_t ring = pipe->queue->theirs.ring;
    uint64_t at = fallback->repeat_at % ring;
    uint64_t length = pipe->written - fallback->repeat_at;
    if (length > ring - at)
        length = ring - at;
    if (!length)
        return false;
    fallback->repeat_at += length;
    put_in_frame(pipe, BYTES, 0, pipe->outbox + at, length);
    return true;
}

/* Sends messages again that have not arrived; last the one that is written in part. */
static bool repeat_message(struct gyre_verbs_pipe *pipe)
{
    struct gyre_verbs_queue *queue = pipe->queue;
    struct gyre_stream_write write;
    while (queue->sends_done != queue->sends) {
        struct gyre_send *send = queue->ends[queue->sends_done++ % GYRE_VERBS_SENDS];
        if (!send)
            continue;
        gyre_stream_write_of(send, &write);
        return put_message(pipe, &write);
    }
    if (!pipe->writing)
        return false;
    pipe->writing = false;
    return put_message(pipe, &pipe->write);
}

static bool next_part(struct gyre_verbs_pipe *pipe)
{
    struct iovec iov[VECTORS];
    int count = gyre_stream_gather(pipe->end.stream[0], iov, VECTORS);
    uint32_t length = 0;
    for (int i = 0; i < count && length < PART_MOST; i++) {
        uint32_t left = PART_MOST - length;
        uint32_t part = iov[i].iov_len < left ? (uint32_t)iov[i].iov_len : left;
        gyre_copy(pipe->outbox + length, iov[i].iov_base, part);
        length += part;
    }
    if (!length)
        return false;
    gyre_stream_wrote(pipe->end.stream[0], length);
    put_in_frame(pipe, BYTES, 0, pipe->outbox, length);
    return true;
}

static bool next_frame(struct gyre_verbs_pipe *pipe)
{
    struct gyre_stream_write write;
    if (pipe->fallback.state != GYRE_VERBS_ON_FALLBACK)
        return false;
    if (repeat_record(pipe) || repeat_message(pipe) || next_part(pipe))
        return true;
    return gyre_stream_take_write(pipe->end.stream[0], &write) && put_message(pipe, &write);
}

static void advance_fallback(struct gyre_verbs_pipe *pipe, uint64_t put)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    uint32_t head = put < fallback->head_left ? (uint32_t)put : fallback->head_left;
    pipe->wire->moved += put;
    fallback->head_left -= head;
    if (put > head) { /* a hello has no body */
        fallback->body_left -= put - head;
        fallback->body += put - head;
    }
    if (!is_flushed(pipe) || !fallback->ends)
        return;
    gyre_stream_end_write(pipe->end.stream[0], fallback->ends);
    fallback->ends = NULL;
}

bool gyre_verbs_fallback_push(struct gyre_verbs_pipe *pipe)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    bool moved = false;
    for (int turn = 0; turn < TURNS && !pipe->hangup && !pipe->ended; turn++) {
        if (is_flushed(pipe) && !next_frame(pipe))
            break;
        struct iovec iov[2] = {{fallback->out_head + GYRE_VERBS_FALLBACK_HEAD - fallback->head_left,
                                fallback->head_left},
                               {(void *)fallback->body, fallback->body_left}};
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = fallback->body_left ? 2 : 1};
        ssize_t put = sendmsg(pipe->fd[0], &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put <= 0) /* pull() notes an end of the socket, behind the bytes before it */
            break;
        advance_fallback(pipe, (uint64_t)put);
        moved = true;
    }
    return moved;
}

/* -- in ---------------------------------------------------------------------------------------- */

static int refuse_fallback(struct gyre_verbs_pipe *pipe, const char *what)
{
    gyre_verbs_fail(pipe->queue, GYRE_CORRUPT, what);
    return GYRE_CORRUPT;
}

/* Ends messages whose completion is missing and which have arrived all the same: the first ones. */
static int settle_messages(struct gyre_verbs_pipe *pipe, uint32_t arrived)
{
    struct gyre_verbs_queue *queue = pipe->queue;
    uint32_t open = 0;
    for (uint32_t i = queue->sends_done; i != queue->sends; i++)
        open += queue->ends[i % GYRE_VERBS_SENDS] != NULL;
    uint32_t ended = arrived - (pipe->announced - open);
    if (ended > open)
        return refuse_fallback(pipe, "the peer has more messages, or fewer, than can be");
    for (uint32_t i = queue->sends_done; ended; i++) {
        struct gyre_send **send = &queue->ends[i % GYRE_VERBS_SENDS];
        if (!*send)
            continue;
        gyre_stream_end_write(pipe->end.stream[0], *send);
        *send = NULL;
        ended--;
    }
    return 0;
}

static int hear_hello(struct gyre_verbs_pipe *pipe, const uint8_t *head)
{
    uint64_t theirs = gyre_get64(head + 8);
    if (gyre_get32(head) != MAGIC || theirs < pipe->freed || theirs > pipe->written)
        return refuse_fallback(pipe, "the peer tells of its broken queue pair what cannot be");
    pipe->fallback.repeat_at = theirs;
    pipe->fallback.state = GYRE_VERBS_ON_FALLBACK;
    return settle_messages(pipe, gyre_get32(head + 4));
}

static int begin_frame(struct gyre_verbs_pipe *pipe, const uint8_t *head)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    struct gyre_stream_arrival arrival = {.to = NULL};
    if (fallback->state == GYRE_VERBS_TELLING)
        return hear_hello(pipe, head);
    fallback->kind = gyre_get32(head);
    fallback->number = gyre_get32(head + 4);
    fallback->in_left = gyre_get64(head + 8);
    if (fallback->kind == MESSAGE)
        gyre_stream_arrival_of(pipe->end.stream[0], fallback->number, &arrival);
    if (!fallback->in_left || (fallback->kind != BYTES && fallback->kind != MESSAGE) ||
        (fallback->kind == MESSAGE && arrival.length != fallback->in_left))
        return refuse_fallback(pipe, "the peer sends over TCP what nobody waits for");
    return 0;
}

/* The receive is looked up for each part: its buffer is the caller's again once it has ended. */
static int take_part(struct gyre_verbs_pipe *pipe, const uint8_t *from, uint32_t length)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    struct gyre_stream_arrival arrival;
    if (!gyre_stream_arrival_of(pipe->end.stream[0], fallback->number, &arrival))
        return GYRE_CORRUPT;
    gyre_copy(arrival.to + arrival.length - fallback->in_left, from, length);
    fallback->in_left -= length;
    return fallback->in_left ? 0 : gyre_verbs_remote_write_arrived(pipe, fallback->number);
}

static int take_body(struct gyre_verbs_pipe *pipe, const uint8_t *from, uint32_t length)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    int status;
    if (fallback->kind == BYTES) {
        fallback->in_left -= length;
        status = gyre_stream_feed(pipe->end.stream[0], from, length);
    } else {
        status = take_part(pipe, from, length);
    }
    if (status)
        gyre_verbs_fail_stream(pipe, status);
    return status;
}

static int take_head(struct gyre_verbs_pipe *pipe, const uint8_t *from, uint32_t length)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    memcpy(fallback->in_head + fallback->in_have, from, length);
    fallback->in_have += length;
    if (fallback->in_have < GYRE_VERBS_FALLBACK_HEAD)
        return 0;
    fallback->in_have = 0;
    return begin_frame(pipe, fallback->in_head);
}

static int parse_bytes(struct gyre_verbs_pipe *pipe, const uint8_t *from, uint32_t left)
{
    struct gyre_verbs_tcp_fallback *fallback = &pipe->fallback;
    int status = 0;
    while (left && !status) {
        bool body = fallback->in_left > 0;
        uint64_t most = body ? fallback->in_left : GYRE_VERBS_FALLBACK_HEAD - fallback->in_have;
        uint32_t part = left < most ? left : (uint32_t)most;
        status = body ? take_body(pipe, from, part) : take_head(pipe, from, part);
        from += part;
        left -= part;
    }
    return status;
}

static void note_hangup(struct gyre_verbs_pipe *pipe)
{
    if (!pipe->hangup && !pipe->ended)
        pipe->wire->hangups++;
    pipe->hangup |= !pipe->ended;
}

/* Reads into the inbox: no device writes there any more. */
static bool pull(struct gyre_verbs_pipe *pipe)
{
    bool moved = false;
    for (int turn = 0; turn < TURNS && !pipe->end.status && !pipe->hangup && !pipe->ended; turn++) {
        ssize_t got = recv(pipe->fd[0], pipe->inbox, pipe->queue->mine.ring, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            note_hangup(pipe);
        if (got <= 0)
            break;
        pipe->wire->moved += (uint64_t)got;
        parse_bytes(pipe, pipe->inbox, (uint32_t)got);
        moved = true;
    }
    return moved;
}

/* -- all of a wire ----------------------------------------------------------------------------- */

static bool serve_fallback(struct gyre_verbs_pipe *pipe)
{
    if (pipe->end.status || pipe->ended || pipe->fallback.state < GYRE_VERBS_TELLING)
        return false;
    bool moved = pull(pipe);
    moved |= !pipe->end.status && gyre_verbs_fallback_push(pipe);
    if (moved)
        gyre_verbs_mark(pipe);
    return moved;
}

bool gyre_verbs_fallback_serve(struct gyre_verbs_wire *wire, uint64_t now)
{
    bool moved = false;
    for (uint32_t i = 0; i < wire->most && wire->fallbacks; i++) {
        struct gyre_verbs_pipe *pipe = wire->pipe[i];
        if (!pipe || !pipe->fallback.state || pipe->end.status)
            continue;
        if (pipe->fallback.state == GYRE_VERBS_BREAKING)
            end_queues(pipe, now);
        moved |= pipe->fallback.state == GYRE_VERBS_BREAKING || serve_fallback(pipe);
    }
    return moved;
}
