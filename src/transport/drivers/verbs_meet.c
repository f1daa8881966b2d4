/* Two ends find out whether they can write to each other.
 *
 *     offer     who I am for the device, where my inbox is, or why I do not want to      each way
 *     ready     my queue pair is connected to yours                                      each way
 *               ── test write of two packets, checked byte by byte ──▶                   each way
 *     verdict   yours came and mine was answered                                         each way
 *
 * It goes over the connected and authenticated socket that join made, which is this rank's word
 * that it is the peer. Whoever says no at a step says why, both know after that very step, and the
 * socket has no byte of it left: tcp can use it. So the two always choose alike. The start of the
 * packet numbers comes from the system, afresh for each pipe: a packet of a former life is not
 * taken for one of this. An offer of another version, or of a GID of another kind of network (which
 * a device would write to without a word), is a reason to say no like others.
 *
 * This waits for the peer, who may come later, because it meets others first: the last rank waits
 * for rank 0 through all its other meetings. So the patience grows with the peers. A peer that ends,
 * or whose host is silent, is not waited for: the socket tells. The test write is waited for
 * PROBE_MS, which is shorter than the device's own patience. */
#include "transport/drivers/verbs.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/rng.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_MS 60000
#define EACH_MS     1000 /* and this for each peer: five times what a meeting takes in an emulator */
#define PROBE_MS    3000
#define MAGIC       0x76727947u /* "Gyrv" */
#define VERSION     3
#define OFFER_BYTES 128
#define STEP_BYTES  128
#define PROBE_MOST  8192u

/* -- words over the socket --------------------------------------------------------------------- */

struct talk {
    int fd;
    uint64_t deadline;
    uint32_t peer;
    struct gyre_trouble *trouble;
};

static int lost(const struct talk *talk, const char *how)
{
    return gyre_trouble_set(talk->trouble, GYRE_PEER_LOST,
                            "rank %u %s while the verbs link to it was made", talk->peer, how);
}

static int await(const struct talk *talk, short events)
{
    struct pollfd wait = {.fd = talk->fd, .events = events};
    uint64_t now = gyre_now_ns();
    uint64_t left_ms = now < talk->deadline ? (talk->deadline - now) / GYRE_MS + 1 : 0;
    int left = left_ms < INT_MAX ? (int)left_ms : INT_MAX;
    int ready = left ? poll(&wait, 1, left) : 0;
    return ready || (ready < 0 && errno == EINTR) ? 0 : lost(talk, "did not answer");
}

/* Each record is small against any socket's buffer. */
static int say(const struct talk *talk, const uint8_t *bytes, size_t length)
{
    int status = 0;
    for (size_t at = 0; at < length && !status;) {
        ssize_t put = send(talk->fd, bytes + at, length - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put >= 0)
            at += (size_t)put;
        else
            status =
                errno == EAGAIN || errno == EINTR ? await(talk, POLLOUT) : lost(talk, "hung up");
    }
    return status;
}

static int hear(const struct talk *talk, uint8_t *bytes, size_t length)
{
    int status = 0;
    for (size_t at = 0; at < length && !status;) {
        ssize_t got = recv(talk->fd, bytes + at, length - at, MSG_DONTWAIT);
        if (got > 0)
            at += (size_t)got;
        else
            status = got && (errno == EAGAIN || errno == EINTR) ? await(talk, POLLIN)
                                                                : lost(talk, "hung up");
    }
    return status;
}

/* -- the offer --------------------------------------------------------------------------------- */

static void encode(const struct gyre_verbs_end *end, uint8_t out[OFFER_BYTES])
{
    memset(out, 0, OFFER_BYTES);
    gyre_put32(out, MAGIC);
    out[4] = end->willing;
    out[5] = end->mtu;
    gyre_put16(out + 6, end->lid);
    memcpy(out + 8, end->gid, 16);
    gyre_put32(out + 24, end->number);
    gyre_put32(out + 28, end->first);
    gyre_put64(out + 32, end->inbox);
    gyre_put32(out + 40, end->key);
    gyre_put32(out + 44, end->ring);
    gyre_put32(out + 48, end->window);
    out[52] = end->network;
    out[53] = end->version;
    out[54] = end->detours;
    gyre_put64(out + 56, end->slots);
    memcpy(out + 64, end->reason, sizeof end->reason);
}

/* The peer is authenticated, but its numbers are bounded all the same. */
static bool decode(const uint8_t in[OFFER_BYTES], struct gyre_verbs_end *end)
{
    *end = (struct gyre_verbs_end){.willing = in[4] == 1,
                                   .mtu = in[5],
                                   .lid = gyre_get16(in + 6),
                                   .number = gyre_get32(in + 24),
                                   .first = gyre_get32(in + 28) & 0xffffff,
                                   .inbox = gyre_get64(in + 32),
                                   .key = gyre_get32(in + 40),
                                   .ring = gyre_get32(in + 44),
                                   .window = gyre_get32(in + 48),
                                   .network = in[52],
                                   .version = in[53],
                                   .detours = in[54] == 1,
                                   .slots = gyre_get64(in + 56)};
    memcpy(end->gid, in + 8, 16);
    memcpy(end->reason, in + 64, sizeof end->reason);
    end->reason[sizeof end->reason - 1] = 0;
    if (gyre_get32(in) != MAGIC)
        return false;
    return !end->willing || end->version != VERSION ||
           (end->mtu >= IBV_MTU_256 && end->mtu <= IBV_MTU_4096 && end->window >= 1 &&
            end->window <= GYRE_VERBS_WINDOW && end->ring >= GYRE_VERBS_RING_LEAST &&
            end->ring <= GYRE_VERBS_RING);
}

static int describe(struct gyre_verbs_pipe *pipe, const char *unwilling)
{
    const struct gyre_verbs_wire *wire = pipe->wire;
    struct gyre_verbs_end *mine = &pipe->mine;
    *mine = (struct gyre_verbs_end){.willing = !unwilling,
                                    .mtu = (uint8_t)wire->port.mtu,
                                    .lid = wire->port.lid,
                                    .number = pipe->queue ? pipe->queue->qp_num : 0,
                                    .inbox = (uintptr_t)pipe->inbox,
                                    .key = wire->inboxes->rkey,
                                    .ring = wire->ring,
                                    .slots = (uintptr_t)pipe->slots,
                                    .window = wire->window,
                                    .network = wire->port.network,
                                    .version = VERSION,
                                    .detours = wire->failover};
    memcpy(mine->gid, wire->port.gid, 16);
    if (unwilling)
        snprintf(mine->reason, sizeof mine->reason, "%s", unwilling);
    int status = gyre_random_bytes(&mine->first, sizeof mine->first);
    mine->first &= 0xffffff;
    return status;
}

static const char *network_name(uint8_t network)
{
    return network == IBV_GID_TYPE_IB        ? "InfiniBand"
           : network == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
                                             : "RoCE v2";
}

/* Both ends find the same, so each may say so in its own words. */
static int check_offer(const struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble)
{
    const struct gyre_verbs_end *mine = &pipe->mine, *theirs = &pipe->theirs;
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    if (theirs->version != mine->version)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "it speaks version %u of the verbs link and rank %u version %u: "
                                "run the same Gyre on both",
                                theirs->version, pipe->wire->rank, mine->version);
    if (!theirs->willing)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "it says: %s", theirs->reason);
    if (theirs->network == mine->network)
        return 0;
    gyre_verbs_gid_name(mine->gid, here);
    gyre_verbs_gid_name(theirs->gid, there);
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "its GID %s is of %s and rank %u's GID %s of %s: choose one kind for "
                            "both (GYRE_RDMA_GID)",
                            there, network_name(theirs->network), pipe->wire->rank, here,
                            network_name(mine->network));
}

static int exchange_offers(struct gyre_verbs_pipe *pipe, const struct talk *talk,
                           const char *unwilling)
{
    uint8_t out[OFFER_BYTES], in[OFFER_BYTES];
    int status = describe(pipe, unwilling);
    encode(&pipe->mine, out);
    if (status || (status = say(talk, out, sizeof out)) || (status = hear(talk, in, sizeof in)))
        return status;
    if (!decode(in, &pipe->theirs))
        return gyre_trouble_set(talk->trouble, GYRE_CORRUPT,
                                "rank %u made no sense as the verbs link to it was made: do both "
                                "run the same version?",
                                pipe->peer);
    if (unwilling)
        return gyre_trouble_set(talk->trouble, GYRE_UNSUPPORTED, "%s", unwilling);
    return check_offer(pipe, talk->trouble);
}

/* -- steps, and the test write ----------------------------------------------------------------- */

/* Says how far this side has come, hears the same of the peer, and goes on only if both have. */
static int exchange_step(struct gyre_verbs_pipe *pipe, const struct talk *talk, int good,
                         const struct gyre_trouble *why)
{
    uint8_t out[STEP_BYTES] = {0}, in[STEP_BYTES];
    out[0] = good == 0;
    if (good)
        snprintf((char *)out + 1, sizeof out - 1, "%s", why->text);
    int status = say(talk, out, sizeof out);
    if (!status)
        status = hear(talk, in, sizeof in);
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

uint8_t gyre_verbs_probe_byte(const struct gyre_verbs_end *from, uint32_t i)
{
    return (uint8_t)(from->first >> 8 * (i % 3) ^ i * 131 ^ i >> 8);
}

static bool proved(const struct gyre_verbs_pipe *pipe)
{
    return pipe->probe_came && pipe->sends_done == pipe->sends;
}

static int probe(struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble)
{
    uint32_t most = pipe->theirs.ring < PROBE_MOST ? pipe->theirs.ring : PROBE_MOST;
    uint64_t limit = gyre_now_ns() + PROBE_MS * GYRE_MS;
    pipe->parting = true; /* so that it is answered */
    gyre_verbs_pipe_probe(pipe, most);
    pipe->parting = false;
    while (!proved(pipe) && !pipe->status && gyre_now_ns() < limit)
        gyre_verbs_queue_drain(pipe->wire);
    if (pipe->status)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s", pipe->trouble.text);
    if (proved(pipe))
        return 0;
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    gyre_verbs_gid_name(pipe->mine.gid, here);
    gyre_verbs_gid_name(pipe->theirs.gid, there);
    return gyre_trouble_set(
        trouble, GYRE_UNSUPPORTED, "a test write between GID %s and %s %s within %d s", here, there,
        pipe->probe_came ? "was not answered" : "did not arrive", PROBE_MS / 1000);
}

uint64_t gyre_verbs_meet_ms(uint32_t peers)
{
    return PATIENCE_MS + (uint64_t)peers * EACH_MS;
}

int gyre_verbs_meet(struct gyre_verbs_pipe *pipe, const char *unwilling,
                    struct gyre_trouble *trouble)
{
    struct gyre_trouble why = {0};
    struct talk talk = {.fd = pipe->fd[0],
                        .deadline = gyre_now_ns() + gyre_verbs_meet_ms(pipe->wire->most) * GYRE_MS,
                        .peer = pipe->peer,
                        .trouble = trouble};
    int status = exchange_offers(pipe, &talk, unwilling);
    if (status)
        return status;
    status = exchange_step(pipe, &talk, gyre_verbs_queue_connect(pipe, &why), &why);
    if (status)
        return status;
    status = exchange_step(pipe, &talk, probe(pipe, &why), &why);
    pipe->detours = !status && pipe->mine.detours && pipe->theirs.detours;
    return status;
}
