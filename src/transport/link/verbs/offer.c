/* What one end of a queue pair tells the other before it is connected.
 *
 *      0 magic 4 │ willing 1 │ MTU 1 │ LID 2 │ GID 16                     at 8
 *     24 queue pair 4 │ first packet number 4 │ inbox 8 │ key 4           at 40
 *     44 ring 4 │ window 4 │ network 1 │ version 1 │ falls back 1 │ queue pairs 1
 *     56 slots 8 │ reason 64, of an end that is not willing
 *
 * An offer of another version is a reason to refuse, and so is a GID of another kind of network,
 * which a device would write to without a word. */
#include "transport/link/verbs/peer.h"

#include "base/bytes.h"
#include "base/rng.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#define MAGIC   0x76727947u /* "Gyrv" */
#define VERSION 5

/* -- bytes ------------------------------------------------------------------------------------- */

static void encode_offer(const struct gyre_verbs_end *end, uint8_t out[GYRE_VERBS_OFFER])
{
    memset(out, 0, GYRE_VERBS_OFFER);
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
    out[54] = end->falls_back;
    out[55] = end->queues;
    gyre_put64(out + 56, end->slots);
    memcpy(out + 64, end->reason, sizeof end->reason);
}

/* Bounds the numbers of the peer, though it is authenticated. */
static bool decode_offer(const uint8_t in[GYRE_VERBS_OFFER], struct gyre_verbs_end *end)
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
                                   .falls_back = in[54] == 1,
                                   .queues = in[55],
                                   .slots = gyre_get64(in + 56)};
    memcpy(end->gid, in + 8, 16);
    memcpy(end->reason, in + 64, sizeof end->reason);
    end->reason[sizeof end->reason - 1] = 0;
    if (gyre_get32(in) != MAGIC)
        return false;
    return !end->willing || end->version != VERSION ||
           (end->mtu >= IBV_MTU_256 && end->mtu <= IBV_MTU_4096 && end->window >= 1 &&
            end->window <= GYRE_VERBS_WINDOW && end->ring >= GYRE_VERBS_RING_LEAST &&
            end->ring <= GYRE_VERBS_RING && end->queues >= 1 && end->queues <= GYRE_VERBS_QUEUES);
}

/* -- mine -------------------------------------------------------------------------------------- */

/* Where the peer's test write comes in. */
static uint64_t inbox_of(const struct gyre_verbs_queue *queue)
{
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    return (uintptr_t)(queue == pipe->queue ? pipe->inbox : pipe->wire->test);
}

static uint32_t inbox_key(const struct gyre_verbs_queue *queue)
{
    const struct ibv_mr *test = queue->card->test;
    return queue == queue->pipe->queue ? queue->pipe->wire->inboxes->rkey : test ? test->rkey : 0;
}

static int describe_refusal(struct gyre_verbs_queue *queue, const struct gyre_trouble *why)
{
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    const struct gyre_verbs_wire *wire = pipe->wire;
    const struct gyre_verbs_port *port = &queue->card->port;
    struct gyre_verbs_end *mine = &queue->mine;
    *mine = (struct gyre_verbs_end){.willing = !why->status,
                                    .mtu = (uint8_t)port->mtu,
                                    .lid = port->lid,
                                    .number = queue->pair ? queue->pair->qp_num : 0,
                                    .inbox = inbox_of(queue),
                                    .key = inbox_key(queue),
                                    .ring = wire->ring,
                                    .slots = (uintptr_t)pipe->slots,
                                    .window = wire->window,
                                    .network = port->network,
                                    .version = VERSION,
                                    .falls_back = wire->failover,
                                    .queues = (uint8_t)wire->queues};
    memcpy(mine->gid, port->gid, 16);
    snprintf(mine->reason, sizeof mine->reason, "%s", why->text);
    int status = gyre_random_bytes(&mine->first, sizeof mine->first);
    mine->first &= 0xffffff;
    return status;
}

int gyre_verbs_offer_write(struct gyre_verbs_queue *queue, const struct gyre_trouble *why,
                           uint8_t out[GYRE_VERBS_OFFER])
{
    int status = describe_refusal(queue, why);
    encode_offer(&queue->mine, out);
    return status;
}

/* -- theirs ------------------------------------------------------------------------------------ */

static const char *network_name(uint8_t network)
{
    return network == IBV_GID_TYPE_IB        ? "InfiniBand"
           : network == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1"
                                             : "RoCE v2";
}

/* Both ends find the same fault, so each may tell it in its own words. */
static int check_offer(const struct gyre_verbs_queue *queue, struct gyre_trouble *trouble)
{
    const struct gyre_verbs_end *mine = &queue->mine, *theirs = &queue->theirs;
    uint32_t rank = queue->pipe->end.rank;
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    if (theirs->version != mine->version)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                "it speaks version %u of the verbs link and rank %u version %u: "
                                "run the same Gyre on both",
                                theirs->version, rank, mine->version);
    if (!theirs->willing)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "it says: %s", theirs->reason);
    if (theirs->network == mine->network)
        return 0;
    gyre_verbs_gid_name(mine->gid, here);
    gyre_verbs_gid_name(theirs->gid, there);
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "its GID %s is of %s and rank %u's GID %s of %s: choose one kind for "
                            "both (GYRE_RDMA_GID)",
                            there, network_name(theirs->network), rank, here,
                            network_name(mine->network));
}

int gyre_verbs_offer_read(struct gyre_verbs_queue *queue, const struct gyre_trouble *why,
                          const uint8_t in[GYRE_VERBS_OFFER], struct gyre_trouble *trouble)
{
    if (!decode_offer(in, &queue->theirs))
        return gyre_trouble_set(trouble, GYRE_CORRUPT,
                                "rank %u made no sense as the verbs link to it was made: do both "
                                "run the same version?",
                                queue->pipe->end.peer);
    if (why->status)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s", why->text);
    return check_offer(queue, trouble);
}
