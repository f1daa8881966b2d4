/* Queue pairs: making, connecting and requests.
 *
 * One request in GYRE_VERBS_SIGNAL has a completion, and while the pipe parts every request has. A
 * completion ends all requests before it, so `signalled` remembers how many there were. Bytes of
 * the outbox are free when the peer says that it has consumed them: they have arrived then, and the
 * peer does not look at a copy that the device might still repeat.
 *
 * A completion names its queue pair by the pipe's index and serial and the queue pair's number. A
 * request of the peer with an immediate uses up a posted receive. GYRE_VERBS_RENEW of them, which
 * are more than a peer may need, are posted again together.
 *
 * A refusal of the device is kept until flush() returns it.
 * Tested by tests/link/verbs.c. */
#include "transport/link/verbs/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#define QUEUE_SHIFT  1
#define INDEX_SHIFT  3
#define SERIAL_SHIFT 32

_Static_assert(GYRE_VERBS_QUEUES <= 1 << (INDEX_SHIFT - QUEUE_SHIFT), "a name has room");

static uint64_t work_request_id(const struct gyre_verbs_queue *queue, bool send)
{
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    return (uint64_t)pipe->serial << SERIAL_SHIFT | (uint64_t)pipe->index << INDEX_SHIFT |
           (uint64_t)(queue - pipe->queue) << QUEUE_SHIFT | send;
}

struct gyre_verbs_queue *gyre_verbs_queue_named(const struct gyre_verbs_wire *wire, uint64_t name)
{
    uint32_t index = (uint32_t)name >> INDEX_SHIFT;
    struct gyre_verbs_pipe *pipe = index < wire->most ? wire->pipe[index] : NULL;
    return pipe && pipe->serial == (uint32_t)(name >> SERIAL_SHIFT)
               ? &pipe->queue[name >> QUEUE_SHIFT & (GYRE_VERBS_QUEUES - 1)]
               : NULL;
}

/* -- making ------------------------------------------------------------------------------------ */

/* Devices do not tell how many bytes can travel inline: sizes are tried. */
static struct ibv_qp *try_pair(struct gyre_verbs_queue *queue, uint32_t inline_most)
{
    const struct gyre_verbs_card *card = queue->card;
    struct ibv_qp_init_attr wanted = {
        .send_cq = card->completions,
        .recv_cq = card->completions,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = GYRE_VERBS_SENDS,
                .max_recv_wr = gyre_verbs_receives(queue->pipe->wire, gyre_verbs_is_first(queue)),
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = inline_most}};
    struct ibv_qp *pair = ibv_create_qp(card->domain, &wanted);
    queue->inline_most = pair ? wanted.cap.max_inline_data : 0;
    return pair;
}

static int initialise(struct gyre_verbs_queue *queue)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_INIT,
                                 .port_num = queue->card->port.number,
                                 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return ibv_modify_qp(queue->pair, &wanted,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int gyre_verbs_queue_create(struct gyre_verbs_queue *queue, struct gyre_trouble *trouble)
{
    static const uint32_t inline_most[] = {GYRE_VERBS_INLINE, 64, 0};
    for (int i = 0; i < 3 && !queue->pair; i++)
        queue->pair = try_pair(queue, inline_most[i]);
    if (!queue->pair)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s gives no queue pair: %s",
                                queue->card->name, strerror(errno));
    int status = initialise(queue);
    if (status)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s: queue pair %u cannot begin: %s",
                                queue->card->name, queue->pair->qp_num, strerror(status));
    return 0;
}

static void stop(struct gyre_verbs_queue *queue)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_ERR};
    if (queue->pair)
        ibv_modify_qp(queue->pair, &wanted, IBV_QP_STATE);
}

void gyre_verbs_queue_stop_all(struct gyre_verbs_pipe *pipe)
{
    for (int i = 0; i < GYRE_VERBS_QUEUES; i++)
        stop(&pipe->queue[i]);
}

void gyre_verbs_queue_destroy(struct gyre_verbs_queue *queue)
{
    stop(queue);
    if (queue->pair)
        ibv_destroy_qp(queue->pair);
    queue->pair = NULL;
}

void gyre_verbs_queue_destroy_all(struct gyre_verbs_pipe *pipe)
{
    for (int i = 0; i < GYRE_VERBS_QUEUES; i++)
        gyre_verbs_queue_destroy(&pipe->queue[i]);
}

/* -- connecting -------------------------------------------------------------------------------- */

/* Posts `count` receives, at most GYRE_VERBS_RENEW. */
static int post_receives(struct gyre_verbs_queue *queue, uint32_t count)
{
    struct ibv_recv_wr request[GYRE_VERBS_RENEW], *bad;
    for (uint32_t i = 0; i < count; i++)
        request[i] = (struct ibv_recv_wr){.wr_id = work_request_id(queue, false),
                                          .next = i + 1 < count ? &request[i + 1] : NULL};
    int status = ibv_post_recv(queue->pair, request, &bad);
    queue->receives += status ? 0 : count;
    return status;
}

int gyre_verbs_queue_renew(struct gyre_verbs_queue *queue)
{
    if (++queue->used < GYRE_VERBS_RENEW)
        return 0;
    queue->used = 0;
    return post_receives(queue, GYRE_VERBS_RENEW);
}

static int ready_to_receive(struct gyre_verbs_queue *queue)
{
    const struct gyre_verbs_port *port = &queue->card->port;
    const struct gyre_verbs_end *theirs = &queue->theirs;
    int mtu = theirs->mtu < port->mtu ? theirs->mtu : port->mtu;
    struct ibv_qp_attr wanted = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)mtu,
        .dest_qp_num = theirs->number,
        .rq_psn = theirs->first,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .dlid = theirs->lid,
                    .port_num = port->number,
                    .grh = {.sgid_index = (uint8_t)port->gid_index, .hop_limit = 64}}};
    memcpy(wanted.ah_attr.grh.dgid.raw, theirs->gid, 16);
    return ibv_modify_qp(queue->pair, &wanted,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int ready_to_send(struct gyre_verbs_queue *queue)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_RTS,
                                 .sq_psn = queue->mine.first,
                                 .timeout = GYRE_VERBS_TIMEOUT_CODE,
                                 .retry_cnt = GYRE_VERBS_TRIES,
                                 .rnr_retry = GYRE_VERBS_TRIES};
    return ibv_modify_qp(queue->pair, &wanted,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

int gyre_verbs_queue_connect(struct gyre_verbs_queue *queue, struct gyre_trouble *trouble)
{
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    int status = ready_to_receive(queue);
    uint32_t receives = gyre_verbs_receives(queue->pipe->wire, gyre_verbs_is_first(queue));
    for (uint32_t i = 0; !status && i < receives; i++)
        status = post_receives(queue, 1);
    if (!status)
        status = ready_to_send(queue);
    if (!status)
        return 0;
    gyre_verbs_gid_name(queue->mine.gid, here);
    gyre_verbs_gid_name(queue->theirs.gid, there);
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s: no connection from GID %s to %s: %s",
                            queue->card->name, here, there, strerror(status));
}

/* -- requests ---------------------------------------------------------------------------------- */

uint32_t gyre_verbs_queue_room(const struct gyre_verbs_queue *queue)
{
    return GYRE_VERBS_SENDS - (queue->sends - queue->sends_done);
}

static void signal_last(struct gyre_verbs_queue *queue)
{
    queue->batch[queue->batched - 1].signalled = true;
    queue->signalled[queue->signals++ % GYRE_VERBS_SENDS] = queue->sends;
    queue->asked = queue->sends;
    queue->owes = false;
}

static struct ibv_send_wr as_work(const struct gyre_verbs_queue *queue,
                                  const struct gyre_verbs_request *wanted, struct ibv_sge *piece)
{
    uint32_t length = wanted->length;
    *piece =
        (struct ibv_sge){.addr = (uintptr_t)wanted->from, .length = length, .lkey = wanted->key};
    return (struct ibv_send_wr){
        .wr_id = work_request_id(queue, true),
        .sg_list = piece,
        .num_sge = length ? 1 : 0,
        .opcode = wanted->tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
        .send_flags =
            (wanted->signalled ? IBV_SEND_SIGNALED : 0u) |
            (length && length <= queue->inline_most && !wanted->on_device ? IBV_SEND_INLINE : 0u),
        .imm_data = htonl(wanted->word),
        .wr.rdma = {.remote_addr = wanted->to, .rkey = wanted->to_key}};
}

static void post_batch(struct gyre_verbs_queue *queue)
{
    struct ibv_send_wr work[GYRE_VERBS_BATCH], *bad;
    struct ibv_sge piece[GYRE_VERBS_BATCH];
    const struct gyre_verbs_pipe *pipe = queue->pipe;
    uint32_t count = queue->batched;
    for (uint32_t i = 0; i < count; i++) {
        work[i] = as_work(queue, &queue->batch[i], &piece[i]);
        work[i].next = i + 1 < count ? &work[i + 1] : NULL;
    }
    queue->batched = 0;
    if (count && !queue->refusal && !pipe->end.status && !pipe->broken)
        queue->refusal = ibv_post_send(queue->pair, work, &bad);
}

/* Acknowledges records of the peer, too. */
static uint32_t immediate(struct gyre_verbs_pipe *pipe, const struct gyre_verbs_request *wanted)
{
    uint32_t consumed = pipe->taken - pipe->taken_told;
    if (consumed > GYRE_VERBS_CONSUMED_MOST)
        consumed = GYRE_VERBS_CONSUMED_MOST;
    pipe->taken_told += consumed;
    pipe->read_told = pipe->read;
    return (uint32_t)wanted->kind << GYRE_VERBS_KIND_SHIFT | consumed << GYRE_VERBS_CONSUMED_SHIFT |
           wanted->word;
}

void gyre_verbs_queue_put(struct gyre_verbs_queue *queue, const struct gyre_verbs_request *wanted)
{
    if (queue->batched == GYRE_VERBS_BATCH)
        post_batch(queue);
    struct gyre_verbs_request *request = &queue->batch[queue->batched++];
    *request = *wanted;
    if (wanted->tells)
        request->word = immediate(queue->pipe, wanted);
    queue->ends[queue->sends++ % GYRE_VERBS_SENDS] = wanted->ends;
    queue->owes |= wanted->ends != NULL;
    if (queue->sends - queue->asked == GYRE_VERBS_SIGNAL)
        signal_last(queue);
}

/* Whether a completion is wanted that no completion under way brings or brings to mind: all
 * requests must be answered while the pipe parts or is tested, and the last one of a message. */
static bool must_ask(const struct gyre_verbs_queue *queue)
{
    if (queue->pipe->parting || !queue->proven)
        return queue->asked != queue->sends && (queue->batched || gyre_verbs_queue_room(queue));
    return queue->owes && queue->signals == queue->signals_done;
}

int gyre_verbs_queue_flush(struct gyre_verbs_queue *queue)
{
    const struct gyre_verbs_request nothing = {.to = queue->theirs.inbox,
                                               .to_key = queue->theirs.key};
    if (must_ask(queue)) {
        if (!queue->batched)
            gyre_verbs_queue_put(queue, &nothing);
        if (queue->asked != queue->sends)
            signal_last(queue);
    }
    post_batch(queue);
    return queue->refusal;
}
