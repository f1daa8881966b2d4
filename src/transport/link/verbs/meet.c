/* Two ends find out whether they can write to each other.
 *
 *     offer     address and numbers of this queue pair, or why there is none (offer.c)   each way
 *     ready     the queue pair is connected to the other one                             each way
 *               ── test write of two packets, checked byte by byte ──▶                   each way
 *     verdict   the test write came, and this end's was answered                         each way
 *
 * The same follows for each further queue pair, as many as both ends would have: number i of one
 * end meets number i of the other. Both ends leave out a queue pair that comes to nothing, with a
 * line; without the first one there is no link.
 *
 * The ends talk over the connected and authenticated socket that join made, which proves the peer.
 * An end that refuses at a step says why, both ends know after that very step, and the socket has
 * no byte of the talk left: tcp can use it. So the two always choose alike. Packet numbers start
 * from a number that the system draws for each pipe: no packet of a former pipe is taken for one of
 * this.
 *
 * meet() waits for the peer, who may come later, because it meets others first: the last rank waits
 * for rank 0 through all its other meetings. So the time limit grows with the peers. A peer that
 * ends, or whose host is silent, is not waited for: the socket tells. The limit of the test write,
 * PROBE_MS, is shorter than the device's own.
 * Tested by tests/unit/transport/link/verbs/offer_test.c and rail_test.c. */
#include "transport/link/verbs/peer.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LEAST_MS    60000
#define EACH_MS     1000 /* more for each meeting: five times the time of one in an emulator */
#define PROBE_MS    3000
#define DOUBTS_MOST 2 /* test writes that may fail before the first one succeeds */
#define STEP_BYTES  128

/* -- words over the socket --------------------------------------------------------------------- */

struct talk {
    int fd;
    uint64_t deadline;
    uint32_t peer;
    struct gyre_trouble *trouble;
};

static int talk_lost(const struct talk *talk, const char *how)
{
    return gyre_trouble_set(talk->trouble, GYRE_PEER_LOST,
                            "rank %u %s while the verbs link to it was made", talk->peer, how);
}

static int await_socket(const struct talk *talk, short events)
{
    struct pollfd wait = {.fd = talk->fd, .events = events};
    uint64_t now = gyre_now_ns();
    uint64_t left_ms = now < talk->deadline ? (talk->deadline - now) / GYRE_MS + 1 : 0;
    int left = left_ms < INT_MAX ? (int)left_ms : INT_MAX;
    int ready = left ? poll(&wait, 1, left) : 0;
    return ready || (ready < 0 && errno == EINTR) ? 0 : talk_lost(talk, "did not answer");
}

static int move_bytes(const struct talk *talk, bool out, uint8_t *bytes, size_t length)
{
    int status = 0;
    for (size_t at = 0; at < length && !status;) {
        ssize_t moved = out ? send(talk->fd, bytes + at, length - at, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : recv(talk->fd, bytes + at, length - at, MSG_DONTWAIT);
        if (moved > 0)
            at += (size_t)moved;
        else
            status = moved && (errno == EAGAIN || errno == EINTR)
                         ? await_socket(talk, out ? POLLOUT : POLLIN)
                         : talk_lost(talk, "hung up");
    }
    return status;
}

/* Sends first: the bytes are few against any socket's buffer. */
static int exchange_bytes(const struct talk *talk, uint8_t *out, uint8_t *in, size_t length)
{
    int status = move_bytes(talk, true, out, length);
    return status ? status : move_bytes(talk, false, in, length);
}

/* -- steps, and the test write ----------------------------------------------------------------- */

static int exchange_offers(struct gyre_verbs_queue *queue, const struct talk *talk,
                           const struct gyre_trouble *why)
{
    uint8_t out[GYRE_VERBS_OFFER], in[GYRE_VERBS_OFFER];
    int status = gyre_verbs_offer_write(queue, why, out);
    if (status || (status = exchange_bytes(talk, out, in, sizeof out)))
        return status;
    return gyre_verbs_offer_read(queue, why, in, talk->trouble);
}

/* Tells whether this step was good, hears the same of the peer, and goes on only if both were. */
static int exchange_step(const struct talk *talk, int good, const struct gyre_trouble *why)
{
    uint8_t out[STEP_BYTES] = {0}, in[STEP_BYTES];
    out[0] = good == 0;
    if (good)
        snprintf((char *)out + 1, sizeof out - 1, "%s", why->text);
    int status = exchange_bytes(talk, out, in, sizeof out);
    if (status)
        return status;
    in[sizeof in - 1] = 0;
    if (good)
        return gyre_trouble_set(talk->trouble, GYRE_UNSUPPORTED, "%s", why->text);
    if (!in[0])
        return gyre_trouble_set(talk->trouble, GYRE_UNSUPPORTED, "it says: %s",
                                (const char *)in + 1);
    return 0;
}

static uint8_t test_byte(const struct gyre_verbs_end *from, uint32_t i)
{
    return (uint8_t)(from->first >> 8 * (i % 3) ^ i * 131 ^ i >> 8);
}

/* Neither end writes a record before both have had the test write. */
static void write_test(struct gyre_verbs_queue *queue)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    bool first = gyre_verbs_is_first(queue);
    uint8_t *from = first ? pipe->outbox : pipe->wire->test + GYRE_VERBS_TEST;
    for (uint32_t i = 0; i < GYRE_VERBS_TEST; i++)
        from[i] = test_byte(&queue->mine, i);
    gyre_verbs_queue_put(queue,
                         &(struct gyre_verbs_request){.from = from,
                                                      .key = first ? pipe->wire->outboxes->lkey
                                                                   : queue->card->test->lkey,
                                                      .length = GYRE_VERBS_TEST,
                                                      .to = queue->theirs.inbox,
                                                      .to_key = queue->theirs.key,
                                                      .tells = true,
                                                      .kind = GYRE_VERBS_PROBE,
                                                      .word = GYRE_VERBS_TEST});
    gyre_verbs_flush(queue);
}

static bool is_whole_test(const struct gyre_verbs_queue *queue)
{
    const uint8_t *got = gyre_verbs_is_first(queue) ? queue->pipe->inbox : queue->pipe->wire->test;
    uint32_t i = 0;
    while (i < GYRE_VERBS_TEST && got[i] == test_byte(&queue->theirs, i))
        i++;
    return i == GYRE_VERBS_TEST;
}

/* The test is over, well or not. */
static bool has_ended(const struct gyre_verbs_queue *queue)
{
    return queue->refused[0] || (queue->test_came && queue->sends_done == queue->sends);
}

static int test(struct gyre_verbs_queue *queue, struct gyre_trouble *trouble)
{
    uint64_t limit = gyre_now_ns() + PROBE_MS * GYRE_MS;
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    write_test(queue);
    while (!has_ended(queue) && gyre_now_ns() < limit)
        gyre_verbs_drain(queue->pipe->wire);
    if (queue->test_came && !is_whole_test(queue))
        gyre_verbs_refuse(queue, "other bytes have come than were sent");
    if (has_ended(queue) && !queue->refused[0])
        return 0;
    gyre_verbs_gid_name(queue->mine.gid, here);
    gyre_verbs_gid_name(queue->theirs.gid, there);
    if (queue->refused[0])
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "a test write between GID %s and %s: %s",
                                here, there, queue->refused);
    return gyre_trouble_set(
        trouble, GYRE_UNSUPPORTED, "a test write between GID %s and %s %s within %d s", here, there,
        queue->test_came ? "was not answered" : "did not arrive", PROBE_MS / 1000);
}

/* -- a queue pair ------------------------------------------------------------------------------ */

/* *why: the reason why this side does not even try. */
static void prepare_queue(struct gyre_verbs_queue *queue, struct gyre_trouble *why)
{
    const struct gyre_verbs_card *card = queue->card;
    if (!gyre_verbs_is_first(queue) && card->why.status)
        *why = card->why;
    else if (card->refusals >= DOUBTS_MOST && !card->proven)
        gyre_trouble_set(why, GYRE_UNSUPPORTED, "test writes have reached no peer so far");
    else
        gyre_verbs_queue_create(queue, why);
}

static int meet_by(struct gyre_verbs_queue *queue, const struct talk *talk)
{
    struct gyre_verbs_pipe *pipe = queue->pipe;
    struct gyre_trouble why = {0};
    prepare_queue(queue, &why);
    int status = exchange_offers(queue, talk, &why);
    if (!status)
        status = exchange_step(talk, gyre_verbs_queue_connect(queue, &why), &why);
    if (!status)
        status = exchange_step(talk, test(queue, &why), &why);
    queue->card->refusals += status == GYRE_UNSUPPORTED && queue->sends;
    if (status)
        return status;
    queue->card->proven = queue->proven = true;
    pipe->way[pipe->ways++] = queue;
    return 0;
}

/* A further queue pair. Without it the others serve. */
static int meet_beside(struct gyre_verbs_queue *queue, const struct talk *talk)
{
    struct gyre_verbs_card *card = queue->card;
    struct gyre_trouble why = {0};
    struct talk aside = *talk;
    aside.trouble = &why;
    int status = meet_by(queue, &aside);
    if (!status)
        return 0;
    gyre_verbs_queue_destroy(queue);
    if (status != GYRE_UNSUPPORTED)
        return gyre_trouble_set(talk->trouble, status, "%s", why.text);
    gyre_log(card->told_why ? GYRE_LOG_INFO : GYRE_LOG_WARN,
             "verbs: queue pair %d of %u to rank %u is left out: %s",
             (int)(queue - queue->pipe->queue) + 1, queue->pipe->wire->queues, talk->peer,
             why.text);
    card->told_why = true;
    return 0;
}

/* -- all of a pipe ----------------------------------------------------------------------------- */

uint64_t gyre_verbs_meet_ms(uint32_t meetings)
{
    return LEAST_MS + (uint64_t)meetings * EACH_MS;
}

int gyre_verbs_meet(struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble)
{
    const struct gyre_verbs_wire *wire = pipe->wire;
    const struct gyre_verbs_end *mine = &pipe->queue->mine, *theirs = &pipe->queue->theirs;
    uint64_t limit_ms = gyre_verbs_meet_ms(wire->most * wire->queues);
    struct talk talk = {.fd = pipe->fd[0],
                        .deadline = gyre_now_ns() + limit_ms * GYRE_MS,
                        .peer = pipe->end.peer,
                        .trouble = trouble};
    int status = meet_by(pipe->queue, &talk);
    for (uint32_t i = 1; !status && i < mine->queues && i < theirs->queues; i++)
        status = meet_beside(&pipe->queue[i], &talk);
    pipe->falls_back = !status && mine->falls_back && theirs->falls_back;
    return status;
}
