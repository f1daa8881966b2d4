/* Queue pairs: making, connecting, requests and completions.
 *
 * A request says nothing when it is done, but for every GYRE_VERBS_SIGNAL-th and all that leave
 * while the pipe parts. A completion ends all requests before it, so `signalled` remembers how many
 * there were. What stands in the outbox is free when the peer says that it has consumed it: then it
 * has arrived, and a copy that the device might still repeat is not looked at by the other side.
 *
 * A completion names its pipe by index and serial, because those of a pipe that was detached can
 * come late. Each that a peer caused uses up a posted receive; GYRE_VERBS_RENEW of them, which are
 * more than a peer may need, are posted again together. */
#include "transport/drivers/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#define AT_ONCE      32
#define TURNS_MOST   8 /* so much may come meanwhile */
#define SEND_BIT     UINT64_C(1)
#define INDEX_SHIFT  1
#define SERIAL_SHIFT 32

static uint64_t name_of(const struct gyre_verbs_pipe *pipe, bool send)
{
    return (uint64_t)pipe->serial << SERIAL_SHIFT | (uint64_t)pipe->index << INDEX_SHIFT | send;
}

static struct gyre_verbs_pipe *pipe_of(const struct gyre_verbs_wire *wire, uint64_t name)
{
    uint32_t index = (uint32_t)name >> INDEX_SHIFT;
    struct gyre_verbs_pipe *pipe = index < wire->most ? wire->pipe[index] : NULL;
    return pipe && pipe->serial == (uint32_t)(name >> SERIAL_SHIFT) ? pipe : NULL;
}

/* -- making ------------------------------------------------------------------------------------ */

/* How much can travel inline is not told by devices: it is tried. */
static struct ibv_qp *try_queue(struct gyre_verbs_pipe *pipe, uint32_t inline_most)
{
    struct gyre_verbs_wire *wire = pipe->wire;
    struct ibv_qp_init_attr wanted = {.send_cq = wire->completions,
                                      .recv_cq = wire->completions,
                                      .qp_type = IBV_QPT_RC,
                                      .cap = {.max_send_wr = GYRE_VERBS_SENDS,
                                              .max_recv_wr = gyre_verbs_receives(wire),
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1,
                                              .max_inline_data = inline_most}};
    struct ibv_qp *queue = ibv_create_qp(wire->domain, &wanted);
    pipe->inline_most = queue ? wanted.cap.max_inline_data : 0;
    return queue;
}

static int initialise(struct gyre_verbs_pipe *pipe)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_INIT,
                                 .port_num = pipe->wire->port.number,
                                 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return ibv_modify_qp(pipe->queue, &wanted,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int gyre_verbs_queue_create(struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble)
{
    static const uint32_t inline_most[] = {GYRE_VERBS_INLINE, 64, 0};
    for (int i = 0; i < 3 && !pipe->queue; i++)
        pipe->queue = try_queue(pipe, inline_most[i]);
    if (!pipe->queue)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s gives no queue pair: %s",
                                pipe->wire->name, strerror(errno));
    int status = initialise(pipe);
    if (status)
        return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s: queue pair %u cannot begin: %s",
                                pipe->wire->name, pipe->queue->qp_num, strerror(status));
    return 0;
}

void gyre_verbs_queue_destroy(struct gyre_verbs_pipe *pipe)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_ERR};
    if (!pipe->queue)
        return;
    ibv_modify_qp(pipe->queue, &wanted, IBV_QP_STATE);
    ibv_destroy_qp(pipe->queue);
    pipe->queue = NULL;
}

/* -- connecting -------------------------------------------------------------------------------- */

/* `count` of them, at most GYRE_VERBS_RENEW. */
static int post_receives(struct gyre_verbs_pipe *pipe, uint32_t count)
{
    struct ibv_recv_wr request[GYRE_VERBS_RENEW], *bad;
    for (uint32_t i = 0; i < count; i++)
        request[i] = (struct ibv_recv_wr){.wr_id = name_of(pipe, false),
                                          .next = i + 1 < count ? &request[i + 1] : NULL};
    int status = ibv_post_recv(pipe->queue, request, &bad);
    pipe->receives += status ? 0 : count;
    return status;
}

/* One was used up. */
static int renew_receives(struct gyre_verbs_pipe *pipe)
{
    if (++pipe->used < GYRE_VERBS_RENEW)
        return 0;
    pipe->used = 0;
    return post_receives(pipe, GYRE_VERBS_RENEW);
}

static int ready_to_receive(struct gyre_verbs_pipe *pipe)
{
    const struct gyre_verbs_port *port = &pipe->wire->port;
    const struct gyre_verbs_end *theirs = &pipe->theirs;
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
    return ibv_modify_qp(pipe->queue, &wanted,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int ready_to_send(struct gyre_verbs_pipe *pipe)
{
    struct ibv_qp_attr wanted = {.qp_state = IBV_QPS_RTS,
                                 .sq_psn = pipe->mine.first,
                                 .timeout = GYRE_VERBS_PATIENCE_CODE,
                                 .retry_cnt = GYRE_VERBS_TRIES,
                                 .rnr_retry = GYRE_VERBS_TRIES};
    return ibv_modify_qp(pipe->queue, &wanted,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

int gyre_verbs_queue_connect(struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble)
{
    char here[GYRE_VERBS_NAME_MAX], there[GYRE_VERBS_NAME_MAX];
    int status = ready_to_receive(pipe);
    for (uint32_t i = 0; !status && i < gyre_verbs_receives(pipe->wire); i++)
        status = post_receives(pipe, 1);
    if (!status)
        status = ready_to_send(pipe);
    if (!status)
        return 0;
    gyre_verbs_gid_name(pipe->mine.gid, here);
    gyre_verbs_gid_name(pipe->theirs.gid, there);
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "%s: no connection from GID %s to %s: %s",
                            pipe->wire->name, here, there, strerror(status));
}

/* -- requests ---------------------------------------------------------------------------------- */

uint32_t gyre_verbs_queue_room(const struct gyre_verbs_pipe *pipe)
{
    return GYRE_VERBS_SENDS - (pipe->sends - pipe->sends_done);
}

static void signal_last(struct gyre_verbs_pipe *pipe)
{
    pipe->batch[pipe->batched - 1].signalled = true;
    pipe->signalled[pipe->signals++ % GYRE_VERBS_SENDS] = pipe->sends;
    pipe->asked = pipe->sends;
    pipe->owes = false;
}

static struct ibv_send_wr as_work(const struct gyre_verbs_pipe *pipe,
                                  const struct gyre_verbs_request *wanted, struct ibv_sge *piece)
{
    uint32_t length = wanted->length;
    *piece =
        (struct ibv_sge){.addr = (uintptr_t)wanted->from, .length = length, .lkey = wanted->key};
    return (struct ibv_send_wr){
        .wr_id = name_of(pipe, true),
        .sg_list = piece,
        .num_sge = length ? 1 : 0,
        .opcode = wanted->tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
        .send_flags = (wanted->signalled ? IBV_SEND_SIGNALED : 0u) |
                      (length && length <= pipe->inline_most ? IBV_SEND_INLINE : 0u),
        .imm_data = htonl(wanted->word),
        .wr.rdma = {.remote_addr = wanted->to, .rkey = wanted->to_key}};
}

static void post_batch(struct gyre_verbs_pipe *pipe)
{
    struct ibv_send_wr work[GYRE_VERBS_BATCH], *bad;
    struct ibv_sge piece[GYRE_VERBS_BATCH];
    uint32_t count = pipe->batched;
    for (uint32_t i = 0; i < count; i++) {
        work[i] = as_work(pipe, &pipe->batch[i], &piece[i]);
        work[i].next = i + 1 < count ? &work[i + 1] : NULL;
    }
    pipe->batched = 0;
    int status =
        count && !pipe->status && !pipe->broken ? ibv_post_send(pipe->queue, work, &bad) : 0;
    if (status)
        gyre_verbs_break(pipe, -status, "the device takes no more requests");
}

void gyre_verbs_queue_put(struct gyre_verbs_pipe *pipe, const struct gyre_verbs_request *wanted)
{
    if (pipe->batched == GYRE_VERBS_BATCH)
        post_batch(pipe);
    struct gyre_verbs_request *request = &pipe->batch[pipe->batched++];
    *request = *wanted;
    if (wanted->tells)
        request->word = gyre_verbs_pipe_immediate(pipe, wanted->kind, wanted->word);
    pipe->ends[pipe->sends++ % GYRE_VERBS_SENDS] = wanted->ends;
    pipe->owes |= wanted->ends != NULL;
    pipe->announced += wanted->ends != NULL;
    if (pipe->sends - pipe->asked == GYRE_VERBS_SIGNAL)
        signal_last(pipe);
}

/* Whether somebody waits to hear that a request is done, and no answer that comes will say so or
 * remind of it. */
static bool must_ask(const struct gyre_verbs_pipe *pipe)
{
    if (pipe->parting)
        return pipe->asked != pipe->sends && (pipe->batched || gyre_verbs_queue_room(pipe));
    return pipe->owes && pipe->signals == pipe->signals_done;
}

void gyre_verbs_queue_flush(struct gyre_verbs_pipe *pipe)
{
    const struct gyre_verbs_request nothing = {.to = pipe->theirs.inbox,
                                               .to_key = pipe->theirs.key};
    if (must_ask(pipe)) {
        if (!pipe->batched)
            gyre_verbs_queue_put(pipe, &nothing);
        if (pipe->asked != pipe->sends)
            signal_last(pipe);
    }
    post_batch(pipe);
}

void gyre_verbs_queue_write(struct gyre_verbs_pipe *pipe, enum gyre_verbs_kind kind, uint64_t at,
                            uint32_t length)
{
    gyre_verbs_queue_put(pipe, &(struct gyre_verbs_request){.from = pipe->outbox + at,
                                                            .key = pipe->wire->outboxes->lkey,
                                                            .length = length,
                                                            .to = pipe->theirs.inbox + at,
                                                            .to_key = pipe->theirs.key,
                                                            .tells = true,
                                                            .kind = kind,
                                                            .word = length});
}

/* -- completions ------------------------------------------------------------------------------- */

static void sent(struct gyre_verbs_pipe *pipe)
{
    uint32_t done = pipe->signalled[pipe->signals_done++ % GYRE_VERBS_SENDS];
    for (; pipe->sends_done != done; pipe->sends_done++) {
        struct gyre_send *ends = pipe->ends[pipe->sends_done % GYRE_VERBS_SENDS];
        if (ends)
            gyre_stream_end_write(pipe->stream, ends);
    }
    gyre_verbs_pipe_mark(pipe);
}

static void came(struct gyre_verbs_pipe *pipe, const struct ibv_wc *done)
{
    bool breaking = pipe->detour.state == GYRE_VERBS_BREAKING;
    if (pipe->status || (pipe->broken && !breaking))
        return;
    int status = breaking ? 0 : renew_receives(pipe);
    if (status)
        gyre_verbs_break(pipe, -status, "the device takes no more receives");
    if (pipe->status)
        return;
    if (done->opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        gyre_verbs_fail(pipe, GYRE_CORRUPT, "the peer asks for what nobody asks for");
    else
        gyre_verbs_pipe_came(pipe, ntohl(done->imm_data));
}

static void settle(struct gyre_verbs_wire *wire, const struct ibv_wc *done)
{
    struct gyre_verbs_pipe *pipe = pipe_of(wire, done->wr_id);
    if (!pipe || pipe->detour.state > GYRE_VERBS_BREAKING)
        return;
    pipe->receives -= !(done->wr_id & SEND_BIT);
    if (done->status != IBV_WC_SUCCESS)
        gyre_verbs_fail_request(pipe, done);
    else if (done->wr_id & SEND_BIT)
        sent(pipe);
    else
        came(pipe, done);
}

bool gyre_verbs_queue_drain(struct gyre_verbs_wire *wire)
{
    struct ibv_wc done[AT_ONCE];
    bool any = false;
    int count = AT_ONCE;
    for (int turns = 0; turns < TURNS_MOST && count == AT_ONCE; turns++) {
        count = ibv_poll_cq(wire->completions, AT_ONCE, done);
        for (int i = 0; i < count; i++)
            settle(wire, &done[i]);
        any |= count > 0;
    }
    return any;
}
